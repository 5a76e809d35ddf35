#!/usr/bin/env bash
# session.sh OUT LIMIT_S STEP…: steps of a visit to a GPU machine, each through fleetbench's own commands, on the host
# that host.sh and prepare.sh made. Prints what each took, keeps what it said in OUT/STEP.log, and at the end the
# runs and the store in OUT/runs.tar.xz. A step that may not be done LIMIT_S after the start is left out, and said.
#
#   hosts     facts of the host; what provisioning would change
#   deploy    a persistent 7B service on port 8001
#   ladder    a sweep over concurrency that borrows the service's GPU and gives it back
#   full      10,000 requests, 1,000 at a time, three times, against the persistent service
#   promote   the sweep's best trial as the persistent service
#   settings  what mends a server that waits for its host: two settings beside the default
#   failures  weights that do not fit, a context that does not fit, a GPU that a stranger holds, a port in use
#   large     30 billion parameters, 3 billion active, on the one GPU
set -uo pipefail
out=$1 limit=$2
shift 2
began=$SECONDS
mkdir -p "$out"
invoke() { python3 -m invoke "$@"; }
fleetbench() { python3 -m fleetbench "$@"; }

hosts() {
  invoke hosts
  invoke provision --hosts gpu-01 --check --diff
}

deploy() {
  invoke deploy --hosts gpu-01 --model qwen7b --port 8001 --gpus 0 --max-model-len 8192
  invoke status --hosts gpu-01
}

ladder() {
  invoke sweep --model qwen7b --hosts gpu-01 --check
  invoke sweep --model qwen7b --hosts gpu-01 --plain
  invoke status --hosts gpu-01
}

full() {
  invoke bench --hosts gpu-01 --port 8001 --concurrency 1000 --num-prompts 10000 --temperature 0.7 --plain
}

promote() {
  fleetbench recommend latest
  invoke promote "$(last sweep)" --best --hosts gpu-01 --check
  invoke promote "$(last sweep)" --best --hosts gpu-01
  invoke promote "$(last sweep)" --best --hosts gpu-01 --check
  invoke status --hosts gpu-01
}

settings() {
  invoke sweep --model qwen7b --sweep settings --hosts gpu-01 --plain
}

failures() {
  invoke sweep --model qwen72b --sweep too-large --hosts gpu-01 --try-all --plain
  invoke sweep --model qwen7b --sweep too-long --hosts gpu-01 --try-all --plain
  python3 - <<'X' &
import time
import torch
held = torch.empty(100 * 2**30, dtype=torch.uint8, device="cuda")
time.sleep(60)
X
  local stranger=$!
  sleep 15
  invoke sweep --model qwen7b --sweep too-large --hosts gpu-01 --plain
  kill "$stranger"
  python3 -m http.server 8009 --bind 127.0.0.1 &
  stranger=$!
  sleep 1
  invoke deploy --hosts gpu-01 --model qwen7b --port 8009 --gpus 0
  kill "$stranger"
}

large() {
  invoke sweep --model qwen3-coder --hosts gpu-01 --plain
}

last() {
  fleetbench runs --format json | python3 -c "
import json, sys
print(next(run['run'] for run in json.load(sys.stdin) if run['kind'] == '$1' and run['state'] == 'done'))"
}

# What each step takes on an H200, seconds.
declare -A seconds=([hosts]=25 [deploy]=130 [ladder]=360 [full]=430 [promote]=110 [settings]=330 [failures]=230 [large]=330)
for step in "$@"; do
  if ((SECONDS - began + seconds[$step] > limit)); then
    echo "== $step: left out, ${seconds[$step]} s do not fit"
    continue
  fi
  at=$SECONDS
  "$step" >"$out/$step.log" 2>&1
  echo "== $step: status $?, $((SECONDS - at)) s"
  tail -n 12 "$out/$step.log"
done
tar -C "$(dirname "$FLEETBENCH_RUNS")" -cf - runs | xz -3 -T0 >"$out/runs.tar.xz"
