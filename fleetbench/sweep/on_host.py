"""One host's part of a sweep: stay there while there is work, wait while there may be more, or be lost."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.errors import FleetbenchError, NotReached
from fleetbench.model import Host, TrialState
from fleetbench.results.rows import RunRow
from fleetbench.sweep import lease
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.loan import Returned
from fleetbench.sweep.stay import stay
from fleetbench.sweep.work import Work


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How a host's part of the sweep ended: states of the trials that are its own, what could not be given
    back, and what was given back otherwise than it was taken."""

    states: tuple[TrialState, ...]
    problems: tuple[FleetbenchError, ...]
    remarks: tuple[str, ...] = ()


def on_host(engine: Engine, run: RunRow, host: Host, work: Work) -> HostEnd:
    """Do trials on a host while there are any for it; production is given back whenever there is none."""
    ends: list[Returned] = []
    try:
        if not work.has(host.name) and _holds(engine, run, host):
            ends.append(stay(engine, run, host, work))  # an earlier controller's loan, nothing else to do
        while work.wait(host.name, engine.stop.is_set):
            ends.append(stay(engine, run, host, work))
    except NotReached as exc:
        if exc.host == host.name:
            work.lose(host.name, exc)
        raise
    finally:
        work.leave(host.name)
    states = tuple(row.state for row in engine.store.trials(run.id) if row.host == host.name)
    return HostEnd(
        states,
        tuple(problem for end in ends for problem in end.problems),
        tuple(remark for end in ends for remark in end.remarks),
    )


def _holds(engine: Engine, run: RunRow, host: Host) -> bool:
    """True when the run has not given the host back: a loan is open, or the lease is still its own."""
    if any(loan.host == host.name for loan in engine.store.loans(run.id, only_open=True)):
        return True
    session = engine.open_session(host)
    try:
        holder = lease.holder_of(session)
    finally:
        session.close()
    return holder is not None and holder.run == run.id
