# Write down on the host what has to run again, beside what is owed there already, and start the timer that
# sees to it. Arguments: text of restore.sh, seconds between two looks, the units.
# The timer is never stopped on the way: a controller may die between any two commands.
set -u
directory=/run/fleetbench timer=fleetbench-deadman
text=$1 every=$2
shift 2
umask 077
printf '%s\n' "$text" > "$directory/restore.part" && mv -f "$directory/restore.part" "$directory/restore.sh" || exit 73
{ cat "$directory/loan" 2> /dev/null; [ $# -eq 0 ] || printf '%s\n' "$@"; } | sort -u > "$directory/loan.part" &&
  mv -f "$directory/loan.part" "$directory/loan" || exit 73
systemctl is-active --quiet "$timer.timer" && exit 0
systemctl reset-failed "$timer.timer" "$timer.service" 2> /dev/null
exec systemd-run --quiet --unit="$timer" --on-active="$every" --on-unit-active="$every" \
  --timer-property=AccuracySec=1s /bin/bash "$directory/restore.sh"
