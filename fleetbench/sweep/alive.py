"""Whether everything that serves a trial still does: asked again and again while a client measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetbench.service.diagnose import not_ready
from fleetbench.service.several import first_dead
from fleetbench.sweep.boots import refuse_reboot
from fleetbench.sweep.scrape import Endpoint
from fleetbench.sweep.watchdog import Watchdog
from fleetbench.transport.durable import DurableSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a unit that serves a trial; `endpoint` is where its counters are, None: it has none."""

    unit: str
    invocation: str
    endpoint: Endpoint | None = None


def invocation_of(starts: Sequence[Start]) -> str:
    """Return what tells these starts of a trial's servers from any others; a single server's own id."""
    return "+".join(start.invocation for start in starts if start.endpoint is not None)


class Alive:
    """All units of a trial: none may die, and no server may stand still for `stall_s` seconds."""

    def __init__(
        self,
        session: DurableSession,
        starts: Sequence[Start],
        *,
        boot: str,
        stall_s: float,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`boot` is the boot of the host that the units were started in; `confirm` raises when the host is
        somebody else's by now, who may have ended them."""
        self._session, self._boot, self._confirm = session, boot, confirm
        self._invocations = {start.unit: start.invocation for start in starts}
        self._watchdogs = [
            Watchdog(session, (start.endpoint,), start.unit, start.invocation, stall_s=stall_s)
            for start in starts
            if start.endpoint is not None
        ]

    def look(self) -> None:
        """Raise NotReady, with the cause, for the first unit that is not the start any more that it was, or
        hangs; HostRebooted when its host has another boot now."""
        dead = first_dead(self._session, self._invocations)
        if dead:
            refuse_reboot(self._session, self._boot)
            self._confirm()
            raise not_ready(self._session, dead, self._invocations[dead], served=True)
        for watchdog in self._watchdogs:
            watchdog.look()

    def rest(self) -> None:
        """Begin anew: between two measurements nobody asks the servers for anything."""
        for watchdog in self._watchdogs:
            watchdog.rest()
