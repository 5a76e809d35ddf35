# Begin to sample beside a measurement, anew where something under this name was begun before. Arguments: unit,
# directory, user, limit in seconds, python, text of config.json, then name and text of each file of on_server/.
set -u
export LC_ALL=C.UTF-8
unit=$1 directory=$2 user=$3 limit=$4 python=$5 config=$6
shift 6
systemctl stop "$unit.service" 2>/dev/null
systemctl reset-failed "$unit.service" 2>/dev/null
rm -rf -- "$directory"
own_place "$directory" "$user" || exit 73
mkdir -m 0755 -- "$directory/on_server" || exit 73
while [ $# -gt 1 ]; do
  printf '%s\n' "$2" > "$directory/on_server/$1" || exit 73
  shift 2
done
printf '%s\n' "$config" > "$directory/config.json" || exit 73
[ -x "$python" ] || python=/usr/bin/python3
# It becomes the service user by itself, once its files and the power meter are open. When memory runs out, it is
# the first to go. Nothing it does can reach the measurement but by the little processor time that it takes.
systemd-run --quiet --collect --unit="$unit" --description="fleetbench: samples beside a measurement" \
  --property=Type=exec --property=RuntimeMaxSec="$limit" --property=TimeoutStopSec=8 \
  --property=OOMScoreAdjust=900 --property=MemoryMax=512M --property=TasksMax=256 \
  --property=NoNewPrivileges=yes --property=PrivateTmp=yes --property=ProtectSystem=strict \
  --property=ReadWritePaths="$directory" --property=CapabilityBoundingSet="CAP_SETUID CAP_SETGID CAP_DAC_READ_SEARCH" \
  --property=WorkingDirectory="$directory" --property=StandardOutput=null -- \
  "$python" -B -E -s -S -m on_server "$directory" || exit 74
