"""What differs between the unit that was measured and the service that it becomes, with reasons. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fleetbench.errors import without_secrets
from fleetbench.promotion.candidate import Candidate
from fleetbench.promotion.target import Target
from fleetbench.promotion.unit_text import units_in
from fleetbench.units import environment_in, exec_arguments, render

_CACHE = "a cache of its own: the first start compiles anew"
_BOOT = "it comes back at boot, and after a crash, within bounds"
_HOME = "user and directories of this host"
_GPUS = "the GPUs that it gets"
_WHERE = "where clients reach it"
_LINK = "the link that services follow, to the same venv"
_WHY = {
    "Description": _WHERE,
    "X-Fleetbench-Promoted": "which trial it was made from, for `invoke status`",
    "StartLimitIntervalSec": _BOOT,
    "StartLimitBurst": _BOOT,
    "Restart": _BOOT,
    "RestartSec": _BOOT,
    "TimeoutStopSec": _BOOT,
    "WantedBy": _BOOT,
    "EnvironmentFile": "KEY=value lines of operators, where they write some",
    "LoadCredential": "whether this host has a Hugging Face token",
    "HF_TOKEN_PATH": "whether this host has a Hugging Face token",
    "User": _HOME,
    "WorkingDirectory": _HOME,
    "ReadWritePaths": _HOME,
    "ProtectHome": _HOME,
    "HOME": _HOME,
    "HF_HOME": _HOME,
    "FLEETBENCH_SPEC": "the hash over the whole text",
    "FLEETBENCH_PORT": _WHERE,
    "--host": _WHERE,
    "--port": _WHERE,
    "--served-model-name": "the name that clients ask for",
    "FLEETBENCH_GPUS": _GPUS,
    "CUDA_VISIBLE_DEVICES": _GPUS,
    "HIP_VISIBLE_DEVICES": _GPUS,
    "PATH": _LINK,
    "program": _LINK,
    "VLLM_CACHE_ROOT": _CACHE,
    "TRITON_CACHE_DIR": _CACHE,
    "TORCHINDUCTOR_CACHE_DIR": _CACHE,
    "FLASHINFER_WORKSPACE_BASE": _CACHE,
    "CUDA_CACHE_PATH": _CACHE,
    "XDG_CACHE_HOME": _CACHE,
}
# Beside what it is known for, a name may be one that the inventory sets.
_OTHER = "this decides how fast it is, or the template has changed since"
_PLACE_WORDS = ("--host", "--port", "--served-model-name")
_SETTING = re.compile(r"^([A-Za-z][A-Za-z-]*)=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Settings that differ for one reason: their names, and the values of the first; empty: not set."""

    names: tuple[str, ...]
    measured: str
    becomes: str
    why: str


def differences_of(found: Candidate, target: Target) -> tuple[Difference, ...]:
    """Return what differs between the texts of the first server's units, and of what stands in front."""
    before = _settings(units_in(found.trial.unit_text)[0])
    after = _settings(render(target.units.members[0]))
    singles = [
        (name, _shown(name, before), _shown(name, after), _WHY.get(name, _OTHER))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    groups = itertools.groupby(sorted(singles, key=_order), key=lambda single: single[3])
    together = [(why, list(each)) for why, each in groups]
    return tuple(
        Difference(names=tuple(one[0] for one in each), measured=each[0][1], becomes=each[0][2], why=why)
        for why, each in together
    ) + tuple(_front(target))


def _shown(name: str, settings: dict[str, str]) -> str:
    """Return a value as it may be shown: what looks like a secret, by its name too, is left out."""
    return without_secrets(f"{name}={settings.get(name, '')}").removeprefix(f"{name}=")


def _order(single: tuple[str, str, str, str]) -> int:
    """Return where a difference stands: those of one reason together, as in the table of reasons."""
    return [*dict.fromkeys(_WHY.values()), _OTHER].index(single[3])


def _front(target: Target) -> Iterator[Difference]:
    if target.units.balancer is not None:
        yield Difference(
            names=("nginx",),
            measured="every failure of a server shows",
            becomes="a server that is down is left out for 5 s",
            why="clients of a service want an answer",
        )


def _settings(text: str) -> dict[str, str]:
    """Return the settings of a unit by name, and those of its environment and command line by theirs."""
    found = {m[1]: m[2] for m in _SETTING.finditer(text) if m[1] not in ("Environment", "ExecStart")}
    words = list(exec_arguments(text))
    found |= environment_in(text) | {"program": words[0] if words else ""}
    for name in _PLACE_WORDS:
        if name in words[:-1]:
            place = words.index(name)
            found[name] = words[place + 1]
            del words[place : place + 2]
    return found | {"arguments": " ".join(words[1:])}
