"""From the text of one of our units back to the spec that it was rendered from. Pure.

The text is the evidence of what was measured; the inventory may say something else by now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleetbench.errors import UsageError
from fleetbench.model import Config, Device, GpuSet, ServiceSpec
from fleetbench.units import environment, environment_in, exec_arguments, hash_in, hash_of

# Several files in one text, each below its path on the host, as `systemctl cat` prints them.
_FILE = re.compile(r"^# (/\S+)\n", re.MULTILINE)
_CACHES = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "CUDA_CACHE_PATH")
# Of these the text holds what the spec has not: its own hash, and where systemd puts the token.
_NOT_OF_THE_SPEC = ("FLEETBENCH_SPEC", "HF_TOKEN_PATH")
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")


def units_in(text: str) -> tuple[str, ...]:
    """Given the stored text of a trial's units, return the text of each server's unit, in order."""
    parts = _FILE.split(text)
    files = dict(zip(parts[1::2], parts[2::2], strict=True)) if len(parts) > 1 else {"": text}
    # Files are joined by an empty line, which belongs to none of them.
    texts = [
        part.removesuffix("\n") if path and part.endswith("\n\n") else part for path, part in files.items()
    ]
    return tuple(part for part in texts if exec_arguments(part)[1:2] == ("serve",))


def spec_in(text: str) -> ServiceSpec:
    """Given the text of a server's unit as `render` made it, return its spec.

    All arguments beyond those that every unit has are in `serve_args`. UsageError when the text is not what
    it was when it was hashed, or no unit of ours.
    """
    if not hash_in(text) or hash_of(text) != hash_in(text):
        raise UsageError(
            "the text of the unit is not the one that was measured",
            cause="its hash does not fit it: it was changed by hand, or a secret was left out",
            next_step="fleetbench verify RUN, or measure it again",
        )
    words, found = exec_arguments(text), environment_in(text)
    head = _Words(words[1:])
    model = head.after("serve")
    bind, port = head.after("--host"), head.after("--port")
    sizes = [head.after(f"--{name}-parallel-size") or "1" for name in ("tensor", "data", "pipeline")]
    ep, length = head.flag("--enable-expert-parallel"), head.after("--max-model-len")
    served_name = head.after("--served-model-name")
    user, prefix = (_setting(text, name) for name in ("User", "WorkingDirectory"))
    numbers = (port, *sizes, length or "1")
    if not (model and bind and user and prefix and all(_WHOLE.fullmatch(number) for number in numbers)):
        raise UsageError(
            "the unit was not written by fleetbench", next_step="invoke sweep, then promote its trial"
        )
    tp, dp, pp = map(int, sizes)
    gpus = _gpus(found.get("FLEETBENCH_GPUS", ""))
    persistent = "\n[Install]\n" in text
    bare = ServiceSpec(
        name=f"vllm-{port}" if persistent else f"vllm-sweep-{port}",
        model=model,
        port=int(port),
        gpus=gpus,
        config=Config(tp=tp, dp=dp, pp=pp, ep=ep, max_model_len=int(length) if length else None),
        user=user,
        prefix=prefix,
        venv=words[0].removesuffix("/bin/vllm"),
        build=found.get("FLEETBENCH_BUILD", ""),
        device=Device.ROCM if "HIP_VISIBLE_DEVICES" in found else Device.CUDA,
        served_name=served_name,
        bind=bind,
        serve_args=tuple(head.left),
        credential="\nLoadCredential=" in text,
        cache=_cache(found, prefix),
        persistent=persistent,
    )
    return _with_environment(bare, found)


def _with_environment(bare: ServiceSpec, found: Mapping[str, str]) -> ServiceSpec:
    """Return the spec with what is in its environment beyond what every unit has."""
    usual = dict(environment(bare))
    own = {
        name: value
        for name, value in found.items()
        if usual.get(name) != value and name not in _NOT_OF_THE_SPEC
    }
    return replace(bare, env=own)


class _Words:
    """The words of a command line, taken from the front in the order in which `serve_arguments` puts them."""

    def __init__(self, words: Sequence[str]) -> None:
        self.left = list(words)

    def after(self, name: str) -> str:
        """Take a name and the word behind it; empty, and nothing is taken, when something else comes."""
        if len(self.left) < 2 or self.left[0] != name:
            return ""
        del self.left[0]
        return self.left.pop(0)

    def flag(self, name: str) -> bool:
        """Take a flag, when it comes."""
        comes = self.left[:1] == [name]
        del self.left[: int(comes)]
        return comes


def _setting(text: str, name: str) -> str:
    found = re.search(rf"^{name}=(.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _gpus(text: str) -> GpuSet:
    try:
        return GpuSet.parse(text)
    except ValueError as exc:
        raise UsageError(f"GPUs of the unit cannot be read: {text!r}", cause=str(exc)) from None


def _cache(found: Mapping[str, str], prefix: str) -> str:
    """Return the name of the directory that the unit's caches are in."""
    inside = re.compile(re.escape(prefix) + r"/cache/([A-Za-z0-9_.@-]+)(?:/.*)?")
    match = next((m for name in _CACHES if (m := inside.fullmatch(found.get(name, "")))), None)
    return match[1] if match else ""
