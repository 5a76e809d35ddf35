"""One operator at a time where services are changed: the host's lease, as long as a verb works there.

A first look, without it, finds what is refused or needs no change, and leaves no trace on the host.

It is the lease that sweeps hold, so a sweep and a change keep out of each other's way. It owes nothing to
anybody: no timer goes with it, and that of a killed process ends by itself soon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fleetbench.audit import operator
from fleetbench.errors import CommandFailed, FleetbenchError, LeaseLost, NotReached
from fleetbench.results.controllers import died_here
from fleetbench.sweep.heartbeat import Either, Heartbeat
from fleetbench.sweep.lease import Hold, Holder, held, holder_of
from fleetbench.transport.durable import DurableSession, Stop
from fleetbench.verbs.common import say, session_to

# What the lease is for, where it is for no run. The same for all verbs: each takes over from a dead one.
CHANGE = "a change of services"
# Renewed four times in that; longer than a session waits for a host.
LEASE_S = 120.0
# A host that was waited for already is not waited for as long again for the sake of a lease that ends anyway.
RELEASE_PATIENCE_S = 10


class _UntilLost(Either):
    """Ends waiting as the given event does, and with LeaseLost when the host is no longer ours."""

    def __init__(self, hold: Hold, *events: Stop) -> None:
        super().__init__(*events)
        self._hold = hold

    def wait(self, timeout: float) -> bool:
        happened = super().wait(timeout)
        if self._hold.lost is not None:
            raise self._hold.lost
        return happened


@contextlib.contextmanager
def holding(session: DurableSession, what: str) -> Iterator[None]:
    """Hold the lease of the session's host while the body runs, for `what`; NotPossible names who has it.

    LeaseLost once it is somebody else's, or was ended by somebody: the session's waiting ends with it, and
    what was done there is not for this process to undo (`session.still_ours`).
    What was found out before may be out of date by now: the body looks once more.
    """
    host, said = session.host, say(session.host)
    before = holder_of(session)
    dead = before.controller if before is not None and _died(before) else ""
    hold = Hold(CHANGE, what, seconds=LEASE_S, predecessor=dead)
    hold.take(session)
    pulse = Heartbeat(session_to(host, known=True), hold, said=said)
    session.stop = _UntilLost(hold, *filter(None, (session.stop,)), pulse.lost)
    session.still_ours = lambda: _ask(hold, session)
    try:
        yield
    except LeaseLost as exc:
        raise LeaseLost(
            "the lease of this host was lost; what was changed there is left as it is",
            host=host.name,
            cause=exc.cause,
            next_step=f"invoke status --hosts {host.name}, then the same command again",
        ) from exc
    finally:
        pulse.stop()
        session.stop, session.patience_s = None, min(session.patience_s, RELEASE_PATIENCE_S)
        try:
            hold.release(session)
        except FleetbenchError as exc:
            said(f"its lease is not released, and ends {LEASE_S:.0f} s after it was renewed last: {exc.what}")


def _ask(hold: Hold, session: DurableSession) -> None:
    """Raise LeaseLost where the lease is known to be lost; a host that does not answer says nothing."""
    if hold.lost is not None:
        raise hold.lost
    with contextlib.suppress(NotReached, CommandFailed):
        hold.renew(session)


def refuse_held(session: DurableSession) -> None:
    """Raise NotPossible when somebody works on the host; a process of this operator that died does not."""
    holder = holder_of(session)
    if holder is not None and not _died(holder):
        raise held(session, holder)


def _died(holder: Holder) -> bool:
    mine = (holder.run, holder.operator) == (CHANGE, operator())
    return mine and died_here(holder.controller)
