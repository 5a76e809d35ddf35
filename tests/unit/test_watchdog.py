"""A server that is up and does nothing is found out, one that only takes its time is not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from nouns import HOST

from fleetbench.errors import NotReady
from fleetbench.service.metrics import Reading
from fleetbench.sweep import watchdog as module
from fleetbench.sweep.scrape import Endpoint, Scrape
from fleetbench.sweep.watchdog import LOOKS, Watchdog
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

BUSY = Reading(prompt_tokens=100, generation_tokens=50, requests=3, running=8, waiting=2)
STALL_S = 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that goes on by one look's distance whenever somebody asks for it."""
    ticks = itertools.count(1)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(ticks) * STALL_S / LOOKS)


def watching(monkeypatch: pytest.MonkeyPatch, readings: Sequence[Reading | None]) -> Watchdog:
    """A watchdog that sees these readings, the last one for ever."""
    left = list(readings)

    def seen(_: DurableSession, __: Sequence[Endpoint]) -> Scrape:
        reading = left.pop(0) if len(left) > 1 else left[0]
        return Scrape(reading=reading, text="", at=0, problem="" if reading else "no answer")

    monkeypatch.setattr(module, "scrape", seen)
    journal = "INFO 01-01 00:00:00 [core.py:1] Application startup complete."
    fake = FakeSession(HOST, [("tail -c 4000000", f"Result=success\nInvocationID=abc\n\n{journal}\n")])
    return Watchdog(
        DurableSession(HOST, lambda: fake), [("127.0.0.1", 1)], "u.service", "abc", stall_s=STALL_S
    )


@pytest.mark.usefixtures("clock")
def test_requests_that_wait_for_a_server_that_does_nothing_are_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watchdog = watching(monkeypatch, [BUSY])
    for _ in range(LOOKS):
        watchdog.look()
    with pytest.raises(NotReady) as caught:
        watchdog.look()

    failure = caught.value.failure
    assert failure.kind == "server-hangs"
    assert failure.cause.startswith("it hangs: 8 requests run, 2 wait, and no token came for 60 s")
    assert caught.value.invocation == "abc"


@pytest.mark.usefixtures("clock")
def test_a_server_that_goes_silent_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = watching(monkeypatch, [BUSY, None])
    for _ in range(LOOKS):
        watchdog.look()
    with pytest.raises(NotReady, match="does not answer /metrics any more for 60 s"):
        watchdog.look()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "readings",
    [
        [replace(BUSY, generation_tokens=50 + count) for count in range(40)],  # a token a look
        [replace(BUSY, running=0, waiting=0)],  # the client still imports
        [None],  # never had metrics
        [Reading()],  # a version without these counters
        [BUSY, BUSY, BUSY, BUSY, BUSY, replace(BUSY, requests=4)] * 6,
    ],
)
def test_a_server_that_works_waits_or_cannot_be_seen_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, readings: list[Reading | None]
) -> None:
    watchdog = watching(monkeypatch, readings)
    for _ in range(min(len(readings), 30) if len(readings) > 1 else 3 * LOOKS):
        watchdog.look()


@pytest.mark.usefixtures("clock")
def test_between_two_measurements_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = watching(monkeypatch, [BUSY])
    for _ in range(4 * LOOKS):
        watchdog.look()
        watchdog.rest()


def test_it_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = watching(monkeypatch, [BUSY])
    for _ in range(100):
        watchdog.look()  # within one look's distance
