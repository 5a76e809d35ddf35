# Have a bench client imported before it is needed, unless it is. Arguments: unit, directory, user, credential,
# name below /run that its socket is in, seconds after which it ends when idle, seconds after which it takes no
# execution, seconds that one may take, python, vllm, text of preloaded.py, then environment assignments.
# Prints "running" or "started".
set -u
export LC_ALL=C.UTF-8
unit=$1 directory=$2 user=$3 credential=$4 place=$5 idle=$6 lifetime=$7 limit=$8 python=$9 vllm=${10} program=${11}
shift 11
case $(systemctl show "$unit.service" -P ActiveState) in
  active | activating)
    if [ "$(cat "$directory/vllm" 2>/dev/null)" = "$vllm" ]; then echo running; exit 0; fi
    systemctl stop "$unit.service" ;; # a trial with another build
esac
assignments=()
for assignment in "$@"; do assignments+=("--setenv=$assignment"); done
own_place "$directory" "$user" || exit 73
printf '%s\n' "$program" > "$directory/preloaded.py" && printf '%s\n' "$vllm" > "$directory/vllm" || exit 73
client_properties "$user" "$credential"
# The socket's directory is made by systemd, in /run where nobody else can, for this user alone; it goes with the
# unit. One thread of OpenBLAS, none of pyarrow's jemalloc: a process with threads cannot be forked. No GPU is
# shown to it: vLLM's imports initialise CUDA, which would hold every GPU (0.25.1 on an H200). A child that the
# kernel kills for memory is its own affair.
systemd-run --quiet --collect --unit="$unit" --description="fleetbench: vllm bench serve, imported" \
  --property=RuntimeDirectory="$place" --property=RuntimeDirectoryMode=0700 --property=OOMPolicy=continue \
  --property=RuntimeMaxSec=$((lifetime + limit + 60)) --property=TimeoutStopSec=5 \
  --property=StandardOutput=null "${properties[@]}" "${assignments[@]}" \
  --setenv=OPENBLAS_NUM_THREADS=1 --setenv=JE_ARROW_MALLOC_CONF=background_thread:false \
  --setenv=CUDA_VISIBLE_DEVICES= -- \
  /bin/bash -c '
    if [ -n "${CREDENTIALS_DIRECTORY:-}" ]; then export HF_TOKEN_PATH="$CREDENTIALS_DIRECTORY/hf_token"; fi
    exec "$@"' fleetbench-preload "$python" "$directory/preloaded.py" "/run/$place" "$vllm" "$idle" "$lifetime" || exit 74
echo started
