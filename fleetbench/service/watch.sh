# What a server is doing now, in one round trip. Arguments: token, unit, port, address, journal lines.
# Sections start with "#<token> <name>". The token shows in the process list, where the server can read it:
# lines of the journal have a blank in front, so that none can pretend to begin a section.
export LC_ALL=C.UTF-8
token=$1 unit=$2 port=$3 address=$4 lines=$5
case $address in *:*) address="[$address]" ;; esac
section() { printf '\n#%s %s\n' "$token" "$1"; }
section unit
systemctl show "$unit" -p LoadState -p ActiveState -p SubState -p Result -p NRestarts -p InvocationID \
  -p MainPID -p ExecMainStatus -p ExecMainCode -p ControlGroup -p ExecMainStartTimestampMonotonic
invocation=$(systemctl show "$unit" -P InvocationID)
group=$(systemctl show "$unit" -P ControlGroup)
section cgroup
[ -n "$group" ] && cat "/sys/fs/cgroup$group"/cgroup.procs "/sys/fs/cgroup/unified$group"/cgroup.procs 2>/dev/null
section listeners
ss -Htlnp "sport = :$port" 2>/dev/null
section owners
for pid in $(ss -Htlnp "sport = :$port" 2>/dev/null | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  printf '%s %s\n' "$pid" "$(tail -n 1 "/proc/$pid/cgroup" 2>/dev/null)"
done
section health
if [ -n "$(ss -Htln "sport = :$port" 2>/dev/null)" ]; then
  curl -s -o /dev/null -m 3 --noproxy '*' -w '%{http_code}' "http://$address:$port/health"
fi
section now
date +%s.%N
section journal
[ "$lines" -gt 0 ] && [ -n "$invocation" ] &&
  journalctl "_SYSTEMD_INVOCATION_ID=$invocation" -a -q -o short-unix -n "$lines" --no-pager 2>/dev/null | sed 's/^/ /'
section end
exit 0
