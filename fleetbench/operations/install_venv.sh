# Builds one venv at its final path; runs as the service user in a transient unit, so a lost connection, a
# killed controller or a second start does no harm.
#
# Arguments: VENV PYTHON DIRECTORY LOCK_HASH PACKAGE VERSION
#   DIRECTORY holds requirements.txt (the lock), indexes.txt (options, may hold passwords) and the shim.
#
# A venv counts as there only once its stamp is written, and the stamp is written last. Scripts in a venv carry
# its absolute path, so it cannot be built elsewhere and moved; a half-made one is removed and made again.
set -euo pipefail
export LC_ALL=C.UTF-8 NO_COLOR=1
unset PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH
venv=$1 python=$2 directory=$3 lock=$4 package=$5 version=$6
stamp=$venv/.fleetbench-complete

say() { printf 'fleetbench: %s\n' "$*"; }
fail() { printf 'fleetbench: error: %s\n' "$*" >&2; exit 1; }

if [[ -f $stamp && $(head -n 1 -- "$stamp") == "$lock" ]]; then
  say "$venv is complete already"
  exit 0
fi
if [[ -e $venv ]]; then
  say "removing a half-made or older $venv"
  rm -f -- "$stamp" # first: from here on it is not complete, whatever happens
  rm -rf -- "$venv"
fi
# /tmp is small or in memory on many hosts; wheels of several GB are unpacked here.
TMPDIR=$(mktemp -d -- "${TMPDIR:-/var/tmp}/fleetbench-install.XXXXXX")
export TMPDIR
trap 'rm -rf -- "$TMPDIR"' EXIT
# torch would run what it finds in /tmp/torchinductor_USER, and anybody can put that there first.
export TORCHINDUCTOR_CACHE_DIR=$TMPDIR/inductor TRITON_CACHE_DIR=$TMPDIR/triton

# What still has to be compiled (a dependency without a wheel) may use every core.
MAX_JOBS=$(nproc)
export MAX_JOBS CMAKE_BUILD_PARALLEL_LEVEL=$MAX_JOBS

options=(--no-deps --only-binary "$package" --requirement "$directory/indexes.txt"
  --requirement "$directory/requirements.txt")
grep -q -- '--hash=' "$directory/requirements.txt" && options+=(--require-hashes)

uv=
for candidate in "$(command -v uv || true)" "${FLEETBENCH_UV:-}"; do
  [[ -n $candidate && -x $candidate ]] && "$candidate" --version >/dev/null 2>&1 && uv=$candidate && break
done
if [[ -n $uv ]]; then
  say "making $venv with $("$uv" --version)"
  "$python" -m venv --without-pip -- "$venv"
  "$uv" pip install --python "$venv/bin/python" --index-strategy unsafe-best-match --no-progress "${options[@]}"
else
  say "making $venv with pip (no uv here)"
  "$python" -m venv -- "$venv"
  "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --no-cache-dir --no-compile \
    --progress-bar off "${options[@]}"
fi
cp -- "$directory/requirements.txt" "$venv/.fleetbench-lock.txt"

if [[ $package != vllm ]]; then
  say "naming $package as vllm for its own command line"
  "$venv/bin/python" -I "$directory/name_as_vllm.py" "$package"
fi
# A server with bytecode starts in half the time. Some packages carry templates that are no valid Python, so the
# status of compileall says nothing; the import below does.
say "compiling bytecode with $(nproc) processes"
"$venv/bin/python" -m compileall -q -j "$(nproc)" "$venv/lib" >"$TMPDIR/compile.log" 2>&1 ||
  say "$(grep -c '^\*\*\* Error' "$TMPDIR/compile.log" || true) files are no valid Python (templates)"

say "checking: import vllm"
"$venv/bin/python" -c 'import vllm' || fail "import vllm does not work in $venv"
say "checking: vllm --version"
shown=$("$venv/bin/vllm" --version 2>"$TMPDIR/version.err" | tail -n 1) ||
  { tail -n 20 -- "$TMPDIR/version.err" >&2; fail "vllm --version does not work in $venv"; }
[[ $shown == *"${version%%+*}"* ]] || fail "vllm --version says '$shown', expected $version"

# The stamp must not reach the disk before what it vouches for: a power cut would leave it alone there.
sync -f -- "$venv"
printf '%s\n%s\n' "$lock" "$shown" >"$stamp.new"
mv -f -- "$stamp.new" "$stamp"
say "complete: vllm $shown"
