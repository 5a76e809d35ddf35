# Give production back when nobody renews the loan any more. Run every minute by a timer on the host, so that
# a controller that died, or a laptop that was closed, does not keep the fleet down. With arguments:
#   now WHY      at once, whoever has the lease
#   unheld WHY   at once, unless somebody has the lease (status 3)
set -u
export LC_ALL=C.UTF-8
umask 077 # flock(2) asks for no more than the right to read: anybody could hold a readable lock file
directory=/run/fleetbench
mode=${1:-} why=${2:-the lease was not renewed in time}
exec 9> "$directory/.lock" || exit 1
flock -w 30 9 || exit 1
until=0
if [ -e "$directory/lease" ]; then until=$(sed -n 2p "$directory/lease"); fi
case $until in ''|*[!0-9]*) until=0 ;; esac
read -r uptime _ < /proc/uptime
if [ "$mode" != now ] && [ "${uptime%.*}" -lt "$until" ]; then
  [ "$mode" = unheld ] && exit 3
  exit 0
fi
logger -t fleetbench "giving production back: $why"
shopt -s nullglob
files=(/run/systemd/system/vllm-sweep-*.service)
[ ${#files[@]} = 0 ] || systemctl stop "${files[@]##*/}" # side by side: each may take its 20 seconds
rm -f "${files[@]}" "$directory"/vllm-sweep-*.conf
systemctl stop 'fleetbench-bench-*.service' 'fleetbench-preload-*.service' 'fleetbench-poll-*.service' \
  'fleetbench-usage-*.service' fleetbench-read-ahead.service 2>/dev/null
systemctl daemon-reload
systemctl reset-failed 'vllm-sweep-*.service' 2>/dev/null
if [ -e "$directory/loan" ]; then
  while read -r unit; do
    case $unit in
      vllm-*.service) systemctl reset-failed "$unit" 2>/dev/null; systemctl start --no-block "$unit" ;;
    esac
  done < "$directory/loan"
fi
# The run that comes back has to learn that its loan is over, and why.
if [ -e "$directory/lease" ]; then
  { sed -n 1p "$directory/lease"; printf '%s\n' "$why"; } > "$directory/ended.part" &&
    mv -f "$directory/ended.part" "$directory/ended"
fi
rm -f "$directory/lease" "$directory/loan" "$directory/read-ahead.sh"
systemctl stop fleetbench-deadman.timer 2>/dev/null
exit 0
