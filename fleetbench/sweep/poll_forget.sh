# End sampling and remove what it left. Arguments: directory that holds those of the units, then names of units, or
# their beginnings up to a dash.
export LC_ALL=C.UTF-8
shopt -s nullglob
place=$1
shift
for name in "$@"; do
  directories=("$place/$name")
  case $name in *-) directories=("$place/$name"*) name="$name*" ;; esac
  systemctl stop "$name.service" 2>/dev/null
  systemctl reset-failed "$name.service" 2>/dev/null
  for directory in "${directories[@]}"; do rm -rf -- "$directory"; done
done
exit 0
