"""Who is on a trial's GPUs, judged by the cgroup that the kernel keeps for each process. Pure.

A process stays in the cgroup of the unit that started it, whatever session or parent it has later: one in a
sweep unit is ours to end, everything else belongs to somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import GpuSet

_SWEEP_UNIT = re.compile(r"vllm-sweep-\d{1,5}(?:-\d{1,3})?\.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds memory of a GPU; `unit` is empty when no service started it."""

    gpu: int
    pid: int
    name: str
    unit: str = ""
    used_mib: int | None = None

    @property
    def of_a_sweep(self) -> bool:
        """True when a unit of a sweep started it: this run's, or one whose controller died."""
        return _SWEEP_UNIT.fullmatch(self.unit) is not None

    def __str__(self) -> str:
        unit = f"unit {self.unit}" if self.unit else "no unit"
        size = f", {self.used_mib} MiB" if self.used_mib is not None else ""
        return one_line(f"pid {self.pid} ({self.name}, {unit}{size}) on GPU {self.gpu}", 200)


def holders(facts: HostFacts, gpus: GpuSet) -> tuple[Holder, ...]:
    """Return every process on GPUs of the set; none when the GPUs cannot be seen."""
    if isinstance(facts.gpus, Missing):
        return ()
    return tuple(
        Holder(
            gpu=gpu.index,
            pid=process.pid,
            name=process.name,
            unit=process.unit,
            used_mib=process.used_mib,
        )
        for gpu in facts.gpus
        if gpu.index in gpus.indices
        for process in gpu.processes
    )


def orphans(facts: HostFacts, gpus: GpuSet) -> tuple[Holder, ...]:
    """Return what sweep units have left on the GPUs; asked when none of them should run there."""
    return tuple(holder for holder in holders(facts, gpus) if holder.of_a_sweep)


def intruders(facts: HostFacts, gpus: GpuSet, ours: Collection[str]) -> tuple[Holder, ...]:
    """Return everybody on the GPUs who is not in one of our units."""
    return tuple(
        holder for holder in holders(facts, gpus) if holder.unit not in ours and not holder.of_a_sweep
    )
