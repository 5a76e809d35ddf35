"""Making a trial's GPUs and port free: what sweeps left is ended, what is somebody else's is named.

Memory counts as free when it is back at what the GPU holds when idle. That baseline is the least ever seen
on it without a process: before the first trial what the driver happens to hold, later what it came back to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import GpuSet
from fleetbench.service import lifecycle
from fleetbench.service.held import port_owner
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.holders import intruders, orphans
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

# For what is on its way out: a server that systemd stops, and a driver that frees 80 GB.
DYING_S = 120
# For a process that nobody has told to go: a short job of a user may be over.
FOREIGN_S = 15
# The kernel may have given the number to another process since the facts were read.
_KILL = r"""
unit=$1; shift
for pid in "$@"; do
  grep -qF "/$unit" "/proc/$pid/cgroup" 2>/dev/null && kill -KILL "$pid"
done
exit 0
"""


class IdleMemory:
    """The least memory (MiB) seen in use on each GPU while no process was on it."""

    def __init__(self) -> None:
        self._lowest: dict[int, int] = {}

    def note(self, facts: HostFacts) -> None:
        """Learn from a reading; a GPU with a process on it is not idle."""
        for gpu in () if isinstance(facts.gpus, Missing) else facts.gpus:
            if gpu.used_mib is not None and not gpu.processes:
                self._lowest[gpu.index] = min(gpu.used_mib, self._lowest.get(gpu.index, gpu.used_mib))

    @property
    def lowest(self) -> Mapping[int, int]:
        """By GPU index; a GPU that was never seen idle is not in it."""
        return dict(self._lowest)


def clear(ground: Ground, gpus: GpuSet, port: int) -> HostFacts:
    """Wait until GPUs and port are free, and return the facts of that moment.

    Processes of sweep units on these GPUs are ended first: none should run now, so they are what a trial or
    a dead controller left. NotReady names pid, program and unit of a foreign one.
    """
    session, said = ground.session, ground.said
    facts = ground.read_facts(session)
    found = defaultdict(list)
    for orphan in orphans(facts, gpus):
        said(f"ending what a sweep left: {orphan}")
        found[orphan.unit].append(orphan.pid)
    for unit, pids in found.items():
        _end(session, unit, pids)
    foreign = intruders(facts, gpus, ground.borrowed) or port_owner(facts, port)
    if not found:
        ground.idle.note(facts)
    facts = lifecycle.drain(
        session,
        gpus,
        ground.read_facts,
        baseline_mib=ground.idle.lowest,
        port=port,
        timeout_s=FOREIGN_S if foreign and not found else DYING_S,
        said=said,
    )
    ground.idle.note(facts)
    return facts


def _end(session: DurableSession, unit: str, pids: Collection[int]) -> None:
    session.read(bash(_KILL, unit, *map(str, pids)))
    lifecycle.stop(session, unit)  # with it goes what else is left in its cgroup
