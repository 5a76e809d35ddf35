# One lease per host, decided on the host.
# Arguments: action, run, seconds, description (JSON text, one line), controller, predecessor, boot[, command].
#   take     get the lease; renew it when this run has it already, through this controller or its dead
#            predecessor. Another controller of the same run is somebody else.
#   renew    the same for this controller alone, but never take what another holds, or what has ended. Only a
#            reboot since `boot` ends a lease without giving anything back: then this run has it again.
#   do       like renew, then run the command while nobody else can take the lease
#   release  end it and its timer, when this run has it
#   show     print it
# Answer: a word (ours, free, held, lost, stale), the boot's id, the seconds that the lease still has; then what
# is known of the holder, or why the lease ended. stale: it ran out, and nobody has given production back yet.
# Time is the host's uptime: it does not jump, and a reboot ends every lease together with /run.
set -u
export LC_ALL=C.UTF-8
umask 077 # flock(2) asks for no more than the right to read: anybody could hold a readable lock file
action=$1 run=$2 seconds=$3 description=$4 controller=$5 predecessor=$6 known=$7
shift 7
directory=/run/fleetbench
read -r boot < /proc/sys/kernel/random/boot_id
if [ "$action" = show ] && [ ! -e "$directory/lease" ]; then  # looking leaves no trace
  printf 'free\n%s\n0\n' "$boot"
  exit 0
fi
mkdir -p -m 0755 "$directory" || exit 73
exec 9> "$directory/.lock" || exit 73
flock -w 10 9 || exit 75
read -r uptime _ < /proc/uptime
now=${uptime%.*}
holder="" until=0 described="" keeper=""
if [ -e "$directory/lease" ]; then
  { read -r holder; read -r until; read -r described; read -r keeper; } < "$directory/lease"
fi
case $until in ''|*[!0-9]*) until=0 ;; esac
alive=no ours=no before=no
if [ -n "$holder" ] && [ "$now" -lt "$until" ]; then alive=yes; fi
if [ -n "$holder" ] && [ "$holder" = "$run" ]; then
  [ "$keeper" = "$controller" ] && ours=yes
  [ -n "$predecessor" ] && [ "$keeper" = "$predecessor" ] && before=yes
fi
write() {
  until=$((now + seconds)) described=$description keeper=$controller
  printf '%s\n%s\n%s\n%s\n' "$run" "$until" "$described" "$keeper" > "$directory/lease.part" &&
    mv -f "$directory/lease.part" "$directory/lease" || exit 73
}
renewed() {
  if [ $ours = yes ]; then description=$described
  elif [ -n "$holder" ] || [ -z "$known" ] || [ "$known" = "$boot" ]; then return 1; fi
  write
}
case $action in
  take)
    if [ $alive = yes ] && [ $ours$before = nono ]; then word=held
    elif [ $alive = no ] && [ -n "$holder" ] && [ "$holder" != "$run" ] && [ -e "$directory/loan" ]; then word=stale
    else rm -f "$directory/ended"; write; word=ours; fi ;;
  renew)
    if renewed; then word=ours; else word=lost; fi ;;
  do)
    if renewed; then "$@" > /dev/null || exit 74; word=ours; else word=lost; fi ;;
  release)
    if [ -z "$holder" ] || [ $ours$before != nono ]; then
      # The service, too: begun a moment ago it waits for this lock, or finds its script gone and has failed.
      systemctl stop fleetbench-deadman.timer fleetbench-deadman.service 2> /dev/null
      systemctl reset-failed fleetbench-deadman.service 2> /dev/null
      rm -f "$directory/lease" "$directory/loan" "$directory/restore.sh" "$directory/ended"
      described="" word=free
    else word=held; fi ;;
  show)
    if [ $alive = yes ]; then word=held; else word=free; fi ;;
esac
left=$((until - now))
[ $left -gt 0 ] || left=0
printf '%s\n%s\n%s\n' "$word" "$boot" "$left"
if [ -z "$holder" ] && [ "$(sed -n 1p "$directory/ended" 2> /dev/null)" = "$run" ]; then
  sed -n 2p "$directory/ended"
else
  printf '%s\n' "$described"
fi
exit 0
