"""Ctrl-C, SIGTERM and a closed terminal while services change: one is enough, more interrupt nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from nouns import HOST

from fleetbench import console, fleet
from fleetbench.errors import CommandFailed, ConnectionLost, Exit, Interrupted, NotReached, NotUndone
from fleetbench.fleet import HostOutcome, Status
from fleetbench.model import Host
from fleetbench.verbs.ending import Ending
from fleetbench.verbs.interruption import SIGNALS
from fleetbench.verbs.unit_files import kept_on


def until(true: Callable[[], object]) -> None:
    give_up = time.monotonic() + 10
    while not true() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert true()


@pytest.fixture
def listened_to() -> Iterator[None]:
    """Signals as an interactive shell leaves them: a job in the background of a script ignores SIGINT."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("listened_to")
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_signal_ends_the_work_and_further_ones_are_answered(
    monkeypatch: pytest.MonkeyPatch, first: signal.Signals, hosts: int
) -> None:
    told: list[str] = []
    monkeypatch.setattr(console, "progress", lambda text, **_: told.append(text))
    ending = Ending()
    sent = threading.Lock()

    def work(host: object) -> Status:
        with ending.changing(HOST):
            with sent:
                if not ending.stop.is_set():
                    os.kill(os.getpid(), first)
                    until(ending.stop.is_set)
                    for number in SIGNALS:
                        os.kill(os.getpid(), number)
            until(lambda: len(told) >= 4)
        raise Interrupted("interrupted (the previous unit was put back)")

    all_hosts = [replace(HOST, name=f"host-{number}") for number in range(hosts)]
    before = [signal.getsignal(number) for number in SIGNALS]
    outcomes = ending.on_each(all_hosts, work, status_of=lambda status: status, parallel=2)
    assert told[0] == "ending; put back first: h100-01"
    assert all(line.startswith("still being put back: h100-01") for line in told[1:])
    assert ending.exit_status(outcomes) is Exit.INTERRUPTED
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.usefixtures("listened_to")
def test_a_signal_that_the_kernel_gives_to_another_thread_is_noticed() -> None:
    ending = Ending()

    def work(host: Host) -> Status:
        if host.name == "host-0":
            time.sleep(0.3)  # by then the main thread waits, and nothing but its own time wakes it
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        until(ending.stop.is_set)
        return Status.OK

    hosts = [replace(HOST, name=f"host-{number}") for number in range(2)]
    outcomes = ending.on_each(hosts, work, status_of=lambda status: status, parallel=2)
    assert ending.stop.is_set()
    assert not any(outcome.error for outcome in outcomes)


def test_what_was_not_put_back_is_a_failure_and_no_interruption() -> None:
    ending = Ending()
    ended = HostOutcome(HOST, Status.FAILED, None, Interrupted("x"))
    left = HostOutcome(HOST, Status.FAILED, None, NotUndone("x"))
    untried = HostOutcome(HOST, Status.NOT_TRIED)
    well = HostOutcome(HOST, Status.CHANGED)
    assert ending.exit_status([untried]) is Exit.NOT_REACHED
    ending.stop.set()
    assert ending.exit_status([ended, untried]) is Exit.INTERRUPTED
    assert ending.exit_status([ended, left]) is Exit.FAILED
    assert ending.exit_status([well]) is Exit.OK


def test_a_host_that_is_lost_while_it_is_changed_has_failed() -> None:
    def work(_: object) -> Status:
        with Ending().changing(HOST):
            raise ConnectionLost("no answer", host=HOST.name)

    outcomes = fleet.on_each([HOST], work)
    assert isinstance(outcomes[0].error, CommandFailed)
    assert not isinstance(outcomes[0].error, NotReached)
    assert fleet.exit_status(outcomes) is Exit.FAILED


def test_a_text_that_could_not_be_put_back_is_kept_for_its_owner_only(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("runs")
    monkeypatch.setenv("FLEETBENCH_RUNS", str(place))
    path = kept_on(HOST)("vllm-8001.service", "[Unit]\n")
    assert path == str(place / "left" / HOST.name / "vllm-8001.service")
    assert (place / "left" / HOST.name / "vllm-8001.service").stat().st_mode & 0o777 == 0o600
    # The next failure finds the unit that did not work: the text that served stays.
    other = kept_on(HOST)("vllm-8001.service", "[Unit]\nDescription=does not work\n")
    assert other == f"{path}.1"
    assert kept_on(HOST)("vllm-8001.service", "[Unit]\n") == path
    assert (place / "left" / HOST.name / "vllm-8001.service").read_text() == "[Unit]\n"
    monkeypatch.setenv("FLEETBENCH_RUNS", "/proc/nowhere")
    assert kept_on(HOST)("vllm-8001.service", "[Unit]\n") == ""
