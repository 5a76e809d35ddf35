"""One look at the metrics of a trial's servers, through the SSH connection. It never waits for a host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fleetbench.errors import FleetbenchError, one_line
from fleetbench.service import http
from fleetbench.service.metrics import Reading, read, total
from fleetbench.transport.durable import DurableSession

# Where one server answers, as its own host reaches it: address and port.
Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What the servers said of themselves, added up.

    Attributes:
        reading: None when one of them did not answer; `problem` then says why.
        text: all answers, each under a comment that names its endpoint.
        at: UTC, seconds since the epoch.
    """

    reading: Reading | None
    text: str
    at: float
    problem: str = ""


def scrape(session: DurableSession, endpoints: Sequence[Endpoint]) -> Scrape:
    """Read the metrics of each endpoint once. What cannot be read is a gap, not an error."""
    at, texts, readings, problem = time.time(), [], [], "" if endpoints else "no server to ask"
    for address, port in endpoints:
        try:
            # Not patiently: a measurement does not wait for its evidence.
            with session.forward(port, address) as local:
                text = http.metrics(local)
        except FleetbenchError as exc:
            problem = one_line(f"{exc.what}: {exc.cause}" if exc.cause else exc.what, 200)
            break
        readings.append(read(text))
        texts.append(f"# fleetbench: {address} port {port}\n{text}")
    if problem:
        return Scrape(reading=None, text="".join(texts), at=at, problem=problem)
    return Scrape(reading=total(readings), text="".join(texts), at=at)
