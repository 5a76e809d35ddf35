# Whether the client could write to its directory now. Arguments: directory, user. Silent when it could, else the
# reason: no space, no inodes, a quota, a file system that became read-only. Tried with the user's rights.
export LC_ALL=C.UTF-8
[ -d "$1/out" ] || exit 0
runuser -u "$2" -- timeout 20 bash -c '
  rm -f -- "$1/out/.room"
  set -o noclobber
  head -c 262144 /dev/zero > "$1/out/.room"; status=$?
  rm -f -- "$1/out/.room"
  exit $status' fleetbench "$1" 2>&1 || echo "status $?"
exit 0
