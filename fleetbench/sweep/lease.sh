# One lease per host, decided on the host. Arguments: action, run, seconds, description (JSON text, one line).
#   take     get the lease, or renew it when this run has it already
#   renew    the same, but never take what another run holds, or what has ended and was given back;
#            after a reboot, which ends it without giving anything back, the run has it again
#   release  end it, when this run has it
#   show     print it
# The first line of the answer is: ours, free, held or lost; then what is known of the holder.
# Time is the host's uptime: it does not jump, and a reboot ends every lease together with /run.
set -u
export LC_ALL=C.UTF-8
umask 077 # flock(2) asks for no more than the right to read: anybody could hold a readable lock file
action=$1 run=$2 seconds=$3 description=$4
directory=/run/fleetbench
if [ "$action" = show ] && [ ! -e "$directory/lease" ]; then echo free; exit 0; fi  # looking leaves no trace
mkdir -p -m 0755 "$directory" || exit 73
exec 9> "$directory/.lock" || exit 73
flock -w 10 9 || exit 75
read -r uptime _ < /proc/uptime
now=${uptime%.*}
holder="" until=0
if [ -e "$directory/lease" ]; then { read -r holder; read -r until; } < "$directory/lease"; fi
case $until in ''|*[!0-9]*) until=0 ;; esac
if [ -n "$holder" ] && [ "$holder" = "$run" ]; then description=$(sed -n 3p "$directory/lease"); fi
alive=no
if [ -n "$holder" ] && [ "$now" -lt "$until" ]; then alive=yes; fi
write() {
  printf '%s\n%s\n%s\n' "$run" $((now + seconds)) "$description" > "$directory/lease.part" &&
    mv -f "$directory/lease.part" "$directory/lease" || exit 73
}
case $action in
  take)
    if [ $alive = yes ] && [ "$holder" != "$run" ]; then echo held; else rm -f "$directory/ended"; write; echo ours; fi ;;
  renew)
    if [ "$holder" = "$run" ] || { [ -z "$holder" ] && [ "$(cat "$directory/ended" 2>/dev/null)" != "$run" ]; }
    then write; echo ours; else echo lost; fi ;;
  release)
    if [ "$holder" = "$run" ] || [ $alive = no ]; then rm -f "$directory/lease"; echo free; else echo held; fi ;;
  show)
    if [ $alive = yes ]; then echo held; else echo free; fi ;;
esac
if [ -e "$directory/lease" ]; then tail -n 1 "$directory/lease"; fi
exit 0
