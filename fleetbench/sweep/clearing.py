"""Making a trial's GPUs and port free: what sweeps left is ended, what is somebody else's is named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from fleetbench.facts.values import HostFacts
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


def clear(ground: Ground, gpus: GpuSet, port: int, *more: int) -> HostFacts:
    """Wait until GPUs and port, and `more` ports, are free, and return the facts of that moment.

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
    ground.idle.note(facts)
    facts = lifecycle.drain(
        session,
        gpus,
        ground.read_facts,
        baseline_mib=ground.idle.lowest,
        port=port,
        timeout_s=FOREIGN_S if foreign and not found else DYING_S,
        said=said,
        facts=None if found else facts,
    )
    for other in more:
        if port_owner(facts, other):
            facts = lifecycle.drain(
                session, GpuSet(), ground.read_facts, port=other, timeout_s=FOREIGN_S, said=said
            )
    ground.idle.note(facts)
    return facts


def _end(session: DurableSession, unit: str, pids: Collection[int]) -> None:
    session.read(bash(_KILL, unit, *map(str, pids)))
    lifecycle.stop(session, unit)  # with it goes what else is left in its cgroup
