# End sampling and remove what it left. Arguments: directory that holds those of the units, then names of units, or
# their beginnings up to a dash. Of a beginning, what belongs to a client that has finished and was not fetched
# stays as it is, like what the client left: a resumed run fetches both.
export LC_ALL=C.UTF-8
shopt -s nullglob
place=$1
shift
for name in "$@"; do
  case $name in
    *-)
      systemctl stop "$name*.service" 2>/dev/null
      systemctl reset-failed "$name*.service" 2>/dev/null
      for directory in "$place/$name"*; do
        measured=${directory##*/fleetbench-}
        [ -e "$place/fleetbench-bench-${measured#*-}/out/exit_status" ] || rm -rf -- "$directory"
      done ;;
    *)
      systemctl stop "$name.service" 2>/dev/null
      systemctl reset-failed "$name.service" 2>/dev/null
      rm -rf -- "${place:?}/$name" ;;
  esac
done
exit 0
