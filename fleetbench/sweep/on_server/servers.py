"""What the servers of a measurement answer to /metrics, each asked by a thread of its own."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from .clock import Clock, Log

ANSWER_S = 5.0
LARGEST_ANSWER = 8 * 1024 * 1024
LONGEST_LINE = 20_000


def ask(connection: http.client.HTTPConnection, wanted: frozenset[str]) -> tuple[float, str]:
    """Return when /metrics answered, by the steady clock, and the lines of the wanted metrics."""
    give_up = time.monotonic() + ANSWER_S
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "identity"})
    response = connection.getresponse()
    at = time.monotonic()
    parts, size = [], 0
    while part := response.read(16384):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise ValueError("the answer does not end")
        if time.monotonic() > give_up:
            raise TimeoutError("timed out")
    if response.status != 200:
        raise ValueError(f"status {response.status}")
    lines = b"".join(parts).decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if line.split("{", 1)[0].split(" ", 1)[0] in wanted]
    return at, "\n".join(line for line in kept if len(line) < LONGEST_LINE)


def poll_server(
    of: int, place: list[Any], wanted: frozenset[str], clock: Clock, log: Log, stop: threading.Event
) -> None:
    """Ask one server at each tick until `stop`, and once more then."""
    connection = http.client.HTTPConnection(str(place[0]), int(place[1]), timeout=ANSWER_S)
    last = 0
    for tick in clock.ticks(stop):
        sample(of, tick, connection, wanted, clock, log)
        last = tick
    sample(of, last + 1, connection, wanted, clock, log)


def sample(
    of: int, tick: int, connection: http.client.HTTPConnection, wanted: frozenset[str], clock: Clock, log: Log
) -> None:
    """Ask once and write down what came of it; a broken connection is opened anew the next time."""
    began = time.monotonic()
    entry: dict[str, object] = {"tick": tick, "of": of}
    try:
        at, text = ask(connection, wanted)
        entry.update(at=round(clock.epoch + at - clock.mono, 4), took=round(at - began, 4), text=text)
    except (OSError, ValueError, http.client.HTTPException) as exc:
        connection.close()
        entry.update(at=round(clock.now(), 4), gap=(str(exc) or type(exc).__name__)[:200])
    log.add(json.dumps(entry))
