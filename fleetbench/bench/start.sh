# Start a bench client once. Arguments: unit, directory, user, limit in seconds, credential, text of handover.py,
# number of environment assignments, the assignments, then python, the directory of a preloaded client, the word
# for the program, and the command. Prints one word:
#   finished   it has run and left its exit status
#   started    it was started now
#   running    it runs since earlier
#   ended      its unit was killed before it could leave an exit status
#   lost       it was started under another boot and never finished
# Asking twice is the same as asking once: the decision is made here, next to systemd.
# The directory is root's, its "out" the client's: root never writes where the service user could plant a link.
set -u
export LC_ALL=C.UTF-8
unit=$1 directory=$2 user=$3 limit=$4 credential=$5 handover=$6 count=$7
shift 7
assignments=()
while [ "$count" -gt 0 ]; do assignments+=("--setenv=$1"); shift; count=$((count - 1)); done
python=$1
shift
boot=$(cat /proc/sys/kernel/random/boot_id)

if [ -e "$directory/out/exit_status" ]; then echo finished; exit 0; fi
case $(systemctl show "$unit.service" -p LoadState -p ActiveState | sort | tr '\n' ' ') in
  "ActiveState=failed "*) echo ended; exit 0 ;;
  *"LoadState=loaded "*) echo running; exit 0 ;;
esac
if [ -e "$directory/boot" ]; then
  if [ "$(cat "$directory/boot")" = "$boot" ]; then echo ended; else echo lost; fi
  exit 0
fi
own_place "$directory" "$user" || exit 73
[ -d "$directory/out" ] || mkdir -m 0755 -- "$directory/out" || exit 73
chown -- "$user:" "$directory/out" || exit 73
printf '%s\n' "$handover" > "$directory/handover.py" || exit 73
printf '%s\n' "$boot" > "$directory/boot.part" && mv -f "$directory/boot.part" "$directory/boot" || exit 73
client_properties "$user" "$credential"
# RemainAfterExit keeps a finished unit loaded: an unloaded one looks like one that never was.
systemd-run --quiet --unit="$unit" --description="fleetbench: vllm bench serve" --property=RemainAfterExit=yes \
  --property=RuntimeMaxSec="$limit" --property=TimeoutStopSec=10 \
  --property=WorkingDirectory="$directory/out" "${properties[@]}" "${assignments[@]}" -- \
  /bin/bash -c '
    exec > stdout 2> stderr
    if [ -n "${CREDENTIALS_DIRECTORY:-}" ]; then export HF_TOKEN_PATH="$CREDENTIALS_DIRECTORY/hf_token"; fi
    "$@"
    status=$?
    printf "%s\n" "$status" > exit_status.part && mv -f exit_status.part exit_status
    exit "$status"' fleetbench-bench "$python" -I -S "$directory/handover.py" "$@" || exit 74
echo started
