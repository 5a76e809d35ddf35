"""Many hosts: nobody waits for anybody, and each host has an outcome."""

from __future__ import annotations

import threading
from dataclasses import replace

from nouns import HOST

from fleetbench import fleet
from fleetbench.errors import CommandFailed, Exit, NotReached
from fleetbench.model import Host

HOSTS = tuple(replace(HOST, name=f"h{i}") for i in range(6))


def test_one_failure_does_not_stop_the_others_and_the_order_is_kept() -> None:
    def work(host: Host) -> str:
        if host.name == "h2":
            raise CommandFailed("no room")
        if host.name == "h4":
            raise NotReached("no answer")
        return host.name.upper()

    outcomes = fleet.on_each(HOSTS, work)
    assert [o.host.name for o in outcomes] == [h.name for h in HOSTS]
    assert [o.value for o in outcomes] == ["H0", "H1", None, "H3", None, "H5"]
    assert outcomes[2].status is fleet.Status.FAILED
    assert str(outcomes[2].error).startswith("h2: no room")
    assert outcomes[4].status is fleet.Status.NOT_REACHED


def test_an_unexpected_exception_is_that_hosts_outcome_only() -> None:
    def work(host: Host) -> int:
        return 1 // (0 if host.name == "h0" else 1)

    outcomes = fleet.on_each(HOSTS, work)
    assert outcomes[0].status is fleet.Status.FAILED
    assert all(o.value == 1 for o in outcomes[1:])


def test_after_too_many_failures_no_further_host_is_started() -> None:
    tried: list[str] = []

    def work(host: Host) -> None:
        tried.append(host.name)
        raise CommandFailed("no")

    outcomes = fleet.on_each(HOSTS, work, parallel=1, max_failures=0)
    assert tried == ["h0"]
    assert [o.status for o in outcomes[1:]] == [fleet.Status.NOT_TRIED] * 5
    assert fleet.exit_status(outcomes) is Exit.FAILED


def test_no_more_hosts_run_at_once_than_asked_for() -> None:
    running, most, lock = 0, 0, threading.Lock()
    gate = threading.Barrier(2, timeout=10)

    def work(_: Host) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait()
        with lock:
            running -= 1

    fleet.on_each(HOSTS, work, parallel=2)
    assert most == 2


def test_the_worst_outcome_decides_the_exit_status() -> None:
    def status_of(*states: fleet.Status) -> Exit:
        outcomes: list[fleet.HostOutcome[None]] = [fleet.HostOutcome(HOST, state) for state in states]
        return fleet.exit_status(outcomes)

    ok, would, away, failed = (
        fleet.Status.OK,
        fleet.Status.WOULD_CHANGE,
        fleet.Status.NOT_REACHED,
        fleet.Status.FAILED,
    )
    assert status_of(ok, fleet.Status.CHANGED) is Exit.OK
    assert status_of(ok, would) is Exit.CHANGES_PENDING
    assert status_of(ok, would, away) is Exit.NOT_REACHED
    assert status_of(failed, away) is Exit.FAILED
