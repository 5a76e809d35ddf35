"""The shape of a model from the config.json that lies on a host."""

from __future__ import annotations

from collections.abc import Mapping

from fleetbench.errors import FleetbenchError
from fleetbench.plan.architecture import Architecture, read_architecture
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

KEPT = ("config.json", "model.safetensors.index.json")
# A model is a directory on the host, or a repository in the service user's Hugging Face cache.
# 4 MB are more than any config.json or weight index has.
_READ = r"""
export LC_ALL=C.UTF-8
prefix=$1 repo=$2
case $repo in
  /*) directory=$repo ;;
  *)
    snapshots=$prefix/models/huggingface/hub/models--${repo//\//--}/snapshots
    directory=$(ls -td "$snapshots"/*/ 2>/dev/null | head -n 1) ;;
esac
[ -n "$directory" ] && [ -f "$directory/config.json" ] || exit 1
head -c 4000000 "$directory/config.json"
printf '\n\036\n'
head -c 4000000 "$directory/model.safetensors.index.json" 2>/dev/null
exit 0
"""


def architecture_on(session: DurableSession, prefix: str, repo: str) -> tuple[Architecture | None, str]:
    """Return a model's shape from the host whose service user lives in `prefix`, else why there is none."""
    texts = texts_on(session, prefix, repo)
    if texts is None:
        return None, f"{repo} is not on the host yet"
    try:
        return read_architecture(*texts), ""
    except FleetbenchError as exc:
        return None, exc.what


def texts_on(session: DurableSession, prefix: str, repo: str) -> tuple[str, str] | None:
    """Return a model's config.json and weight index (empty: it has none) from a host; None: not there."""
    answer = session.read(bash(_READ, prefix, repo), timeout_s=30)
    config, _, index = answer.stdout.partition("\n\x1e\n")
    return (config, index) if answer.ok else None


def architecture_in(files: Mapping[str, bytes]) -> Architecture | None:
    """Given what is kept of a model by name, return its shape; None when nothing was kept, or it has none."""
    config, index = (files.get(name, b"").decode("utf-8", "replace") for name in KEPT)
    try:
        return read_architecture(config, index) if config else None
    except FleetbenchError:
        return None
