# Print where the Rust client of a venv is, and the help of its `bench serve`; nothing when there is none.
# Arguments: venv, user.
export LC_ALL=C.UTF-8
for program in "$1"/lib/python3*/site-packages/vllm/vllm-rs; do
  [ -f "$program" ] || continue
  printf '%s\n' "$program"
  runuser -u "$2" -- timeout 10 "$program" bench serve --help 2>/dev/null < /dev/null | head -c 100000
  exit 0
done
exit 0
