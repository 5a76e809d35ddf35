"""A server that is up and does nothing: found out by its own counters, long before the client gives up.

vLLM's API process answers /health while the engine behind it stands still, and the bench client waits for
hours. What counts is work: prompt tokens, generated tokens, answered requests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from fleetbench.errors import NotReady
from fleetbench.service.diagnose import hanging
from fleetbench.service.metrics import Reading
from fleetbench.sweep.scrape import Endpoint, scrape
from fleetbench.transport.durable import DurableSession

# So many looks in a row have to find no work. Time alone would not do: while the host cannot be reached
# nobody looks, and the server works on.
LOOKS = 6


class Watchdog:
    """Looks at the counters of a trial's servers while a client measures.

    It barks after `stall_s` seconds in which requests wait and no work is done, or in which a server whose
    metrics could be read before does not answer any more. A version without such counters is not watched.
    """

    def __init__(
        self,
        session: DurableSession,
        endpoints: Sequence[Endpoint],
        unit: str,
        invocation: str,
        *,
        stall_s: float,
    ) -> None:
        self._session, self._endpoints, self._stall_s = session, endpoints, stall_s
        self._unit, self._invocation = unit, invocation
        self._next = 0.0
        self._last: Reading | None = None
        self._still = 0

    def look(self) -> None:
        """Look when it is time to; NotReady when the server hangs."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._stall_s / LOOKS
        seen = scrape(self._session, self._endpoints).reading
        if seen is not None and None in seen.work:
            return
        self._still = self._still + 1 if idle_between(self._last, seen) else 0
        self._last = seen or self._last
        if self._still >= LOOKS:
            raise self._bark(seen)

    def rest(self) -> None:
        """Begin anew: between two measurements nobody asks the server for anything."""
        self._last, self._still = None, 0

    def _bark(self, seen: Reading | None) -> NotReady:
        if seen is None:
            what = "it does not answer /metrics any more"
        else:
            what = f"{seen.running or 0} requests run, {seen.waiting or 0} wait, and no token came"
        return hanging(self._session, self._unit, self._invocation, f"{what} for {self._stall_s:g} s")


def idle_between(before: Reading | None, now: Reading | None) -> bool:
    """True when a server had something to do and did nothing of it between two looks, or went silent."""
    if before is None:
        return False
    if now is None:
        return True
    return now.work == before.work and bool((now.running or 0) + (now.waiting or 0))
