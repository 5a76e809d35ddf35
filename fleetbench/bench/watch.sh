# Where a bench client stands. Arguments: unit, directory. Prints the unit's state, the exit status if there
# is one, and the end of what it wrote (tqdm writes its bar to stderr, with carriage returns).
export LC_ALL=C.UTF-8
systemctl show "$1.service" -p LoadState -p ActiveState -p SubState -p Result
[ -e "$2/out/exit_status" ] && printf 'exit_status=%s\n' "$(head -c 16 "$2/out/exit_status")"
printf 'boot=%s\n' "$([ "$(cat "$2/boot" 2>/dev/null)" = "$(cat /proc/sys/kernel/random/boot_id)" ] && echo same || echo other)"
echo
tail -c 600 "$2/out/stderr" 2>/dev/null
exit 0
