"""Who else listens on the port of a server that is measured.

vLLM opens its port with SO_REUSEPORT (every server up to 0.24, with several API servers also later): a second
one starts on the same port without a word, and the kernel gives it a share of the connections.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.errors import one_line
from fleetbench.results.rows import Finding, Verdict
from fleetbench.service import watch
from fleetbench.transport.durable import DurableSession


def stranger(session: DurableSession, unit: str, port: int, address: str) -> str:
    """Return pid and unit of somebody else who listens on the port of a unit; empty: nobody, or not seen."""
    command, token = watch.command(unit, port, address=address, lines=1)
    now = watch.parse(session.read(command, timeout_s=60).stdout, token)
    return one_line(now.foreign_owner(unit), 120)


def second_listener(port: int, other: str) -> Iterator[Finding]:
    """Yield the finding on somebody else, where there is one."""
    if other:
        yield Finding(
            rule="second-listener",
            verdict=Verdict.INVALID,
            text=f"{other} listens on port {port}, too, and answered a part of the requests",
            numbers={"port": port},
        )
