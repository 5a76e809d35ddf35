"""Whose turn it is: a run is taken over from a controller that is dead, and never from one that lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleetbench.errors import NotPossible, NotReached
from fleetbench.model import Host
from fleetbench.results.controllers import died_here, this_controller
from fleetbench.results.rows import RunRow
from fleetbench.sweep.lease import Holder, holder_of
from fleetbench.transport.durable import DurableSession


def predecessor_of(run: RunRow, hosts: Iterable[Host], open_session: Callable[[Host], DurableSession]) -> str:
    """Return the controller that worked on a run before, if it is known to be dead; else an empty text.

    Whether a process lives is known on its own machine only. For one elsewhere, which may have the same store
    or another copy of it, the lease on the run's hosts speaks: NotPossible while it has one. A host that is
    away has no say.
    """
    if run.controller == this_controller():
        return ""  # it was made just now
    before = run.controller if died_here(run.controller) else ""
    for host in hosts:
        session = open_session(host)
        try:
            holder = holder_of(session)
        except NotReached:
            continue
        finally:
            session.close()
        if holder is None or holder.run != run.id or holder.controller == before:
            continue
        if not died_here(holder.controller):
            raise _belongs(run, host, holder)
        before = holder.controller
    return before


def _belongs(run: RunRow, host: Host, holder: Holder) -> NotPossible:
    return NotPossible(
        f"run {run.id} belongs to {holder.operator}, whose controller works on it",
        host=host.name,
        cause=f"process {holder.controller}; its lease has {holder.left_s} s left",
        next_step="wait for it; if it is dead, until its lease has run out, or: invoke unlock"
        f" --hosts {host.name}",
    )
