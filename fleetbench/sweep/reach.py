"""Under which address a bench client reaches a server."""

from __future__ import annotations

from fleetbench.errors import NotPossible
from fleetbench.inventory.ssh_options import resolve
from fleetbench.model import Host
from fleetbench.service.lifecycle import address_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  compared, not bound


def server_address(host: Host, client: Host, bind: str) -> str:
    """Given a server's host, its client's host and what the server is bound to, return the address to use.

    NotPossible when the server listens to its own host only and the client is another one.
    """
    if client.name == host.name:
        return address_of(bind)
    if bind in LOOPBACK:
        raise NotPossible(
            f"the service listens on {bind} only",
            host=host.name,
            cause=f"the client is to run on {client.name}",
            next_step="measure without --client, or deploy it with --bind 0.0.0.0",
        )
    return host.address or resolve(host).hostname if bind in ANYWHERE else bind
