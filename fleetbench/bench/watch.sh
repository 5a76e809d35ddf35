# Where a bench client stands. Arguments: unit, directory, user. Prints the unit's state, the exit status if
# there is one, and the end of what it wrote (tqdm writes its bar to stderr, with carriage returns).
# What is in out/ is the user's, and read with its rights: a link may lead to a secret, a pipe never ends.
export LC_ALL=C.UTF-8
systemctl show "$1.service" -p LoadState -p ActiveState -p SubState -p Result
user=$3
theirs() { [ -f "${@: -1}" ] && runuser -u "$user" -- timeout 5 "$@" 2>/dev/null; }
[ -e "$2/out/exit_status" ] && printf 'exit_status=%s\n' "$(theirs head -c 16 "$2/out/exit_status")"
printf 'boot=%s\n' "$([ "$(cat "$2/boot" 2>/dev/null)" = "$(cat /proc/sys/kernel/random/boot_id)" ] && echo same || echo other)"
echo
theirs tail -c 600 "$2/out/stderr"
exit 0
