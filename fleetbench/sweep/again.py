"""Whether a server that did not start is worth another try, and with what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fleetbench.errors import NotReady
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import Failure, Host
from fleetbench.results.rows import TrialRow
from fleetbench.service.held import PORT_TAKEN
from fleetbench.sweep.balancer import SWEEP_PREFIX
from fleetbench.sweep.ground import Ground

# Somebody else has the port of the trial: vLLM found out itself, or we did before it was started.
_PORT_KINDS = (PORT_TAKEN, "port-in-use")


def passing(exc: NotReady) -> Failure | None:
    """Return the failure of a start that may not happen a second time; None when it will.

    A port that was taken in the meantime (another one is used then), a process that is still dying, GPU
    memory that is not free yet, a coordinator that was slow.
    """
    failure = exc.failure
    if not isinstance(failure, Failure):
        return None
    return failure if failure.retryable or failure.kind in _PORT_KINDS else None


def row_for_another_try(ground: Ground, row: TrialRow, failure: Failure, facts: HostFacts) -> TrialRow:
    """Return the trial for its second try: on another port when it lost its own, written down first.

    Of several only those ports change that somebody else has: what runs on the others goes on.
    """
    if failure.kind not in _PORT_KINDS:
        return row
    others = {
        port
        for each in ground.store.trials(row.run_id)
        if each.host == row.host and each.number != row.number
        for port in (each.port, *each.member_ports)
    }
    if row.member_ports:
        wanted = (row.port, *row.member_ports)
        port, *members = others_where_taken(ground.host, facts, wanted, others=others)
        ports = tuple(members)
    else:
        port, ports = another_port(ground.host, facts, row.port, others=others) or row.port, ()
    if (port, ports) == (row.port, row.member_ports):
        return row
    ground.store.set_trial(row.run_id, row.number, port=port, member_ports=ports)
    return replace(row, port=port, member_ports=ports)


def another_port(host: Host, facts: HostFacts, port: int, *, others: Collection[int] = ()) -> int | None:
    """Return the next sweep port after `port` that nobody listens on; None when there is none.

    `others` are those of other trials of the host, which may not have begun yet.
    """
    first, last = host.sweep_ports
    listening = () if isinstance(facts.listeners, Missing) else (item.port for item in facts.listeners)
    taken = {port, *others, *listening}
    return next(
        (each for each in (*range(port + 1, last + 1), *range(first, port)) if each not in taken), None
    )


def others_where_taken(
    host: Host, facts: HostFacts, ports: Sequence[int], *, others: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the ports, with the next free sweep port in the place of each that is taken by somebody else."""
    first, last = host.sweep_ports
    listeners = () if isinstance(facts.listeners, Missing) else facts.listeners
    foreign = {item.port for item in listeners if not item.unit.startswith(SWEEP_PREFIX)}
    taken = {*others, *(item.port for item in listeners)}
    order = [*range(max(ports) + 1, last + 1), *range(first, max(ports))]
    free = (other for other in order if other not in taken and other not in ports)
    return tuple(next(free, port) if port in foreign else port for port in ports)
