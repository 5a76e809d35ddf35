# Read a model's weight files into the page cache, with whatever the disk has to spare.
# Arguments: prefix, model (name or path), memory in KiB that has to stay free. Runs as the service user.
# The last line says what was done; a model that is not there, or does not fit, is no failure.
set -u
export LC_ALL=C.UTF-8
prefix=$1 repo=$2 spare=$3
case $repo in
  /*) directory=$repo ;;
  *)
    hub=$prefix/models/huggingface/hub/models--${repo//\//--}
    head=$(cat "$hub/refs/main" 2>/dev/null)
    directory=$hub/snapshots/$head
    if [ -z "$head" ] || [ ! -d "$directory" ]; then
      directory=$(ls -td "$hub"/snapshots/*/ 2>/dev/null | head -n 1)
    fi ;;
esac
if [ -z "$directory" ] || [ ! -d "$directory" ]; then echo "no weights of $repo here"; exit 0; fi
# A snapshot holds links into the blobs; nothing but regular files is read.
files=()
while IFS= read -r -d '' file; do files+=("$file"); done < <(
  find -L "$directory" -maxdepth 1 -type f \
    \( -name '*.safetensors' -o -name '*.bin' -o -name '*.gguf' -o -name '*.pt' -o -name '*.pth' \) -print0 |
    sort -z
)
if [ ${#files[@]} -eq 0 ]; then echo "no weights of $repo here"; exit 0; fi
size=0
for file in "${files[@]}"; do size=$((size + $(stat -Lc %s -- "$file") / 1024)); done
there=0
if command -v fincore >/dev/null; then
  for file in "${files[@]}"; do
    resident=$(fincore -b -n -o RES -- "$file" 2>/dev/null)
    case $resident in ''|*[!0-9\ ]*) ;; *) there=$((there + resident / 1024)) ;; esac
  done
fi
missing=$((size - there))
if [ $((missing * 20)) -le "$size" ]; then echo "$((size / 1024)) MiB of weights are in memory already"; exit 0; fi
available=0
while read -r key value _; do [ "$key" = MemAvailable: ] && available=$value; done < /proc/meminfo
if [ $((available - missing)) -lt "$spare" ]; then
  echo "$((missing / 1024)) MiB of weights do not fit beside what runs: $((available / 1024)) MiB are available"
  exit 0
fi
# Four readers: one alone waits for the disk most of the time.
printf '%s\0' "${files[@]}" | xargs -0 -P 4 -I {} dd if={} of=/dev/null bs=8M status=none
echo "read $((missing / 1024)) MiB of weights ahead"
