# End a bench client whose server is about to go. Arguments: unit, directory.
# One that has finished stays as it is: a resumed run fetches it.
[ -e "$2/out/exit_status" ] && exit 0
systemctl stop "$1.service" 2>/dev/null
[ -e "$2/out/exit_status" ] && exit 0
systemctl reset-failed "$1.service" 2>/dev/null
rm -rf -- "$2"
