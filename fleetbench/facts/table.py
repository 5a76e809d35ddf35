"""Facts as one row a host, for people: what is there, and what an operator should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.facts.topology import weak_links
from fleetbench.facts.values import Gpu, HostFacts, Missing, Unit

_CLOCK_OFF_MS = 1000
_DISK_LOW_MIB = 10_240
_BUSY_SHARE = 0.05  # of a GPU's memory; an idle driver holds less than 1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """One line of `invoke hosts`. `-` stands for nothing, `?` for a fact that could not be read."""

    host: str
    os: str
    gpus: str
    driver: str
    vllm: str
    units: str
    disk: str
    problems: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, in the order of COLUMNS."""
        return (
            self.host,
            self.os,
            self.gpus,
            self.driver,
            self.vllm,
            self.units,
            self.disk,
            "; ".join(self.problems) or "-",
        )


COLUMNS = ("host", "os", "gpus", "driver / cuda", "vllm", "units", "disk free", "problems")


def overview(*facts: HostFacts) -> tuple[OverviewRow, ...]:
    """Given the facts of hosts, return one row each, in the same order."""
    return tuple(
        OverviewRow(
            host=one.host,
            os=_os(one),
            gpus=_gpus(one),
            driver=_driver(one),
            vllm=_vllm(one),
            units=_units(one),
            disk=_disk(one),
            problems=problems(one),
        )
        for one in facts
    )


def problems(facts: HostFacts) -> tuple[str, ...]:
    """Given facts, return what an operator should look at, one short sentence each."""
    reasons = dict.fromkeys(facts.missing.values())
    found = [one_line(reason, 120) for reason in reasons]
    if facts.clock_utc and not facts.root:
        found.append("not root: owners of listeners and other users' processes are unknown")
    found += _gpu_problems(facts)
    found += _unit_problems(facts)
    if facts.time_sync == "no":
        found.append("clock is not synchronised")
    if facts.time_offset_ms is not None and abs(facts.time_offset_ms) > _CLOCK_OFF_MS:
        found.append(f"clock is off by {abs(facts.time_offset_ms) / 1000:.1f} s")
    if not isinstance(facts.disks, Missing) and facts.disks and facts.disks[0].free_mib < _DISK_LOW_MIB:
        found.append(f"{_gib(facts.disks[0].free_mib)} free at {facts.disks[0].path}")
    if not isinstance(facts.venvs, Missing):
        found += [f"{one.path}: not finished" for one in facts.venvs.values() if not one.complete]
        found += [f"{one.path}: its Python is gone" for one in facts.venvs.values() if not one.python]
    return tuple(found)


def _gpu_problems(facts: HostFacts) -> Iterator[str]:
    if isinstance(facts.gpus, Missing):
        return
    names = sorted({gpu.name for gpu in facts.gpus})
    if len(names) > 1:
        yield f"different GPUs: {', '.join(names)}"
    said: dict[str, list[int]] = {}
    for gpu in facts.gpus:
        if gpu.mig.endswith("*"):
            said.setdefault("a change of the MIG mode waits for a reset", []).append(gpu.index)
        elif gpu.mig == "Enabled":
            said.setdefault("MIG is on", []).append(gpu.index)
        if (holder := _stray(gpu)) is not None:
            said.setdefault(holder, []).append(gpu.index)
    for sentence, indices in said.items():
        yield f"GPU{','.join(map(str, indices))}: {sentence}"
    if not isinstance(facts.topology, Missing):
        yield from weak_links(facts.topology)


def _stray(gpu: Gpu) -> str | None:
    """Memory in use that no unit of ours accounts for."""
    if gpu.memory_mib is None or gpu.used_mib is None or gpu.used_mib < gpu.memory_mib * _BUSY_SHARE:
        return None
    strangers = [one for one in gpu.processes if not one.unit.startswith(("vllm-", "fleetbench-"))]
    if strangers:
        names = ", ".join(f"{one.name} (pid {one.pid}, {one.unit or 'no unit'})" for one in strangers[:3])
        return f"held by {names}"
    return None if gpu.processes else f"{gpu.used_mib} MiB in use by no visible process"


def _unit_problems(facts: HostFacts) -> Iterator[str]:
    if isinstance(facts.units, Missing):
        return
    for unit in facts.units.values():
        if unit.active == "failed":
            yield f"{unit.name} failed ({unit.result}, status {unit.exit_code})"
        elif unit.sub == "auto-restart":
            yield f"{unit.name} restarts again and again ({unit.restarts} times)"
        if unit.need_reload:
            yield f"{unit.name}: its file changed since systemd read it"
        if unit.running and unit.spec and unit.running_spec and unit.spec != unit.running_spec:
            yield f"{unit.name} runs an older configuration than its file"
        if unit.drop_ins:
            yield f"{unit.name} is changed by {unit.drop_ins[0]}"


def _os(facts: HostFacts) -> str:
    return "?" if isinstance(facts.os, Missing) else one_line(facts.os.name, 40)


def _gpus(facts: HostFacts) -> str:
    if isinstance(facts.gpus, Missing):
        return "?"
    counted = Counter(gpu.name or "unnamed GPU" for gpu in facts.gpus)
    return ", ".join(f"{number}x {name}" for name, number in counted.items()) or "-"


def _driver(facts: HostFacts) -> str:
    if isinstance(facts.gpus, Missing):
        return "?"
    versions = dict.fromkeys(f"{gpu.driver or '?'} / {gpu.cuda}".removesuffix(" / ") for gpu in facts.gpus)
    return ", ".join(versions) or "-"


def _vllm(facts: HostFacts) -> str:
    if isinstance(facts.venvs, Missing):
        return "?"
    versions = dict.fromkeys(one.vllm for one in facts.venvs.values() if one.vllm and one.complete)
    return ", ".join(versions) or "-"


def _units(facts: HostFacts) -> str:
    if isinstance(facts.units, Missing):
        return "?"
    counted = Counter(_state(unit) for unit in facts.units.values() if unit.name.startswith("vllm-"))
    return ", ".join(f"{number} {state}" for state, number in sorted(counted.items())) or "-"


def _state(unit: Unit) -> str:
    return "restarting" if unit.sub == "auto-restart" else unit.active


def _disk(facts: HostFacts) -> str:
    if isinstance(facts.disks, Missing):
        return "?"
    return _gib(facts.disks[0].free_mib) if facts.disks else "-"


def _gib(mib: int) -> str:
    return f"{mib / 1024:.0f} GiB" if mib >= 10_240 else f"{mib / 1024:.1f} GiB"
