# End sampling; what was sampled stays. Arguments: unit, directory, "xid" where the driver's errors are counted.
# Prints `xid=N`: NVIDIA's Xid messages in the kernel's log since the sampling began.
export LC_ALL=C.UTF-8
systemctl stop "$1.service" 2>/dev/null
if [ "$3" = xid ] && since=$(stat -c %Y -- "$2/config.json" 2>/dev/null); then
  found=$(timeout 10 journalctl -k -q --no-pager -o cat --since "@$since" 2>/dev/null) &&
    printf 'xid=%s\n' "$(grep -c 'NVRM: Xid' <<< "$found")"
fi
exit 0
