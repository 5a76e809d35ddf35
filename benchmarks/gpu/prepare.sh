#!/usr/bin/env bash
# prepare.sh PLACE SITE MODELS WHEELS: on the host that host.sh booted in PLACE, what `invoke provision` would make
# if there were a network: service user, directories, a venv that counts as complete. And beside it a controller.
#
# SITE: vLLM and what it needs, unpacked, without torch, which the machine's own python3 has. MODELS: directories
# of models. WHEELS: fleetbench's dependencies. Prints the environment that the commands need.
set -euo pipefail
fs=$1/fs place=$1 site=$2 models=$3 wheels=$4 version=0.25.1
home=$fs/opt/vllm venv=/opt/vllm/venvs/vllm-$version controller=/opt/fleetbench-controller
install -d "$home"/{venvs,runs,models,cache,.cache} "$fs/etc/fleetbench"
chroot "$fs" useradd -r -d /opt/vllm -s /bin/bash vllm 2>/dev/null || true
# A venv of the interpreter that the machine's own venv was made with; torch by a path file.
base=$(python3 -c 'import sys; print(sys._base_executable)')
torch=$(python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
chroot "$fs" "$base" -m venv --without-pip "$venv"
packages=$(echo "$fs$venv"/lib/python3.*/site-packages)
cp -a "$site/." "$packages/"
echo "$torch" >"$packages/zz-torch.pth"
cat >"$fs$venv/bin/vllm" <<X
#!$venv/bin/python
import sys

from vllm.entrypoints.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
X
chmod 755 "$fs$venv/bin/vllm"
ln -sfn "venvs/vllm-$version" "$home/venv-vllm"
printf 'carried\n%s\n' "$version" >"$fs$venv/.fleetbench-complete"
cp -a "$models/." "$home/models/"
chroot "$fs" chown -R vllm:vllm /opt/vllm/models /opt/vllm/cache /opt/vllm/.cache
chroot "$fs" chown vllm:vllm /opt/vllm/venvs

python3 -m pip install -q --no-index --no-deps --no-compile --target "$controller/site" "$wheels"/*.whl
install -m 755 "$fs/usr/bin/ssh" /usr/local/bin/ssh
cp -an "$fs/opt/hostlib" /opt/
echo /opt/hostlib >/etc/ld.so.conf.d/zz-hostlib.conf
ldconfig 2>/dev/null || true
cp -a "$(dirname "$0")/inventory" "$controller/inventory"
cat >"$controller/inventory/ssh_config" <<X
Host gpu-01
  HostName 127.0.0.1
  Port 2222
  User root
  IdentityFile $place/id
  UserKnownHostsFile $place/known_hosts
  StrictHostKeyChecking yes
X
echo "export PYTHONPATH=$PWD:$controller/site FLEETBENCH_INVENTORY=$controller/inventory FLEETBENCH_RUNS=$controller/runs"
