"""Whether a server that did not start is worth another try, and with what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fleetbench.errors import NotReady
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import Failure, Host
from fleetbench.results.rows import TrialRow
from fleetbench.service.held import PORT_TAKEN
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
    """Return the trial for its second try: on another port when it lost its own, written down first."""
    if failure.kind not in _PORT_KINDS:
        return row
    others = {each.port for each in ground.store.trials(row.run_id) if each.host == row.host}
    port = another_port(ground.host, facts, row.port, others=others)
    if port is None:
        return row
    ground.store.set_trial(row.run_id, row.number, port=port)
    return replace(row, port=port)


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
