# Fills the cache that lab hosts share, under the very paths that they see: uv keys what it has unpacked by
# where the wheel was found. /srv is covered by an empty file system for this process alone (unshare --mount).
#
# Arguments: WHEELS CACHE PYTHON UV KEY JOBS; the requirements come on standard input.
set -eu
wheels=$1 cache=$2 python=$3 uv=$4 key=$5 jobs=$6
unset PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

aside=$(mktemp -d)
mkdir "$aside/wheels" "$aside/uv"
mount --bind "$wheels" "$aside/wheels" # first: the cache itself may be below /srv
mount --bind "$cache" "$aside/uv"
mount -t tmpfs tmpfs /srv
mkdir /srv/wheels /srv/uv
mount --move "$aside/wheels" /srv/wheels
mount --move "$aside/uv" /srv/uv
rmdir "$aside/wheels" "$aside/uv" "$aside"

# Installs into the covering file system, which is gone at the end. --target: no venv is needed.
UV_CACHE_DIR=/srv/uv UV_LINK_MODE=symlink "$uv" pip install --quiet --python "$python" --target /srv/installed \
  --no-config --no-deps --no-index --find-links "/srv/wheels/$key" --requirement -

# Bytecode beside what is unpacked: uv links it into each venv like any other file. Not below *.data, where a
# wheel may have files only. Some packages carry templates that are no valid Python, hence no status.
"$python" -m compileall -q -j "$jobs" -x '\.data/' /srv/uv/archive-* >/dev/null 2>&1 || true
