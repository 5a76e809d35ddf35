"""A lease is renewed from a thread of its own, and its loss reaches whoever waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fleetbench.errors import FleetbenchError, LeaseLost
from fleetbench.sweep.lease import Hold
from fleetbench.transport.durable import DurableSession, Stop


class Either:
    """An event that has happened when one of several has."""

    def __init__(self, *events: Stop) -> None:
        self._events = events

    def is_set(self) -> bool:
        """True once one of the events is set."""
        return any(event.is_set() for event in self._events)

    def wait(self, timeout: float) -> bool:
        """Wait at most that long for one of them."""
        give_up = time.monotonic() + timeout
        while not self.is_set() and time.monotonic() < give_up:
            self._events[0].wait(min(0.2, max(0.0, give_up - time.monotonic())))
        return self.is_set()


class Heartbeat:
    """Renews a lease from a thread with a session of its own, until `stop`.

    `lost` is set when the host says that the lease is this controller's no longer; the sweep then ends.
    """

    def __init__(self, session: DurableSession, hold: Hold, *, said: Callable[[str], None]) -> None:
        self._session, self._hold, self._said = session, hold, said
        self._ended = threading.Event()
        self.lost = threading.Event()
        session.stop, session.patience_s = self._ended, hold.seconds / 4
        self._thread = threading.Thread(target=self._beat, name=f"lease-{session.host.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection; the lease stays until it is released or runs out."""
        self._ended.set()
        self._thread.join(timeout=30)
        self._session.close()

    def _beat(self) -> None:
        while not self._ended.wait(self._hold.seconds / 4):
            try:
                self._hold.renew(self._session)
            except LeaseLost:
                self.lost.set()
                return
            except FleetbenchError as exc:
                if not self._ended.is_set():
                    self._said(f"cannot renew the lease: {exc.what}")
