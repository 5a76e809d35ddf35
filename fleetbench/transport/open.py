"""Which transport a host of the inventory has."""

from __future__ import annotations

from collections.abc import Callable

from fleetbench.model import Host
from fleetbench.transport.base import Session, Timeouts
from fleetbench.transport.durable import Change, DurableSession, Stop


def open_session(host: Host, timeouts: Timeouts | None = None) -> Session:
    """Connect to a host of the inventory. NotReached when it does not answer."""
    if host.transport == "local":
        from fleetbench.transport.local import LocalSession

        return LocalSession(host, timeouts)
    from fleetbench.transport.ssh import SshSession

    return SshSession(host, timeouts)


def durable(
    host: Host,
    *,
    patience_s: float = 300,
    known: bool = True,
    said: Callable[[str], None] = lambda _: None,
    stop: Stop | None = None,
    record: Callable[[Change], None] = lambda _: None,
) -> DurableSession:
    """A session to a host that reconnects by itself. Nothing is connected before the first use."""
    return DurableSession(
        host,
        lambda: open_session(host),
        patience_s=patience_s,
        known=known,
        said=said,
        stop=stop,
        record=record,
    )
