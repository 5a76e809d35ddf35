"""A session that outlives its connection."""

from __future__ import annotations

import threading

import pytest
from nouns import HOST

from fleetbench.errors import ConnectionLost, HostKeyRefused, Interrupted, NotReached
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import Change, DurableSession
from fleetbench.transport.fake import FakeSession

LOST = ConnectionLost("the connection broke")


def breaking(times: int) -> FakeSession:
    """A fake host whose connection breaks the first `times` times that `true` is run."""
    left = [times]

    def answer(_: str) -> CommandResult | Exception:
        if left[0]:
            left[0] -= 1
            return LOST
        return CommandResult(command="true", exit_status=0, stdout="done", stderr="")

    return FakeSession(HOST, [("true", answer)])


def test_nothing_is_connected_before_the_first_use() -> None:
    opened: list[int] = []

    def opener() -> FakeSession:
        opened.append(1)
        return FakeSession(HOST)

    session = DurableSession(HOST, opener)
    assert opened == []
    session.run(("true",))
    session.run(("true",))
    assert len(opened) == 1


def test_a_command_that_changes_something_is_never_repeated() -> None:
    fake = breaking(1)
    session = DurableSession(HOST, lambda: fake)
    with pytest.raises(ConnectionLost):
        session.run(("true",))
    assert fake.commands == ["true"]


def test_reading_waits_for_the_host_and_says_so_once() -> None:
    fake, said, opened = breaking(3), list[str](), list[int]()

    def opener() -> FakeSession:
        opened.append(1)
        return fake

    session = DurableSession(HOST, opener, said=said.append)
    assert session.read(("true",)).stdout == "done"
    assert len(opened) == 4
    assert len(said) == 2
    assert "asking again" in said[0]
    assert said[1] == "reachable again"


def test_patience_ends() -> None:
    session = DurableSession(HOST, lambda: breaking(10**6), patience_s=0)
    with pytest.raises(ConnectionLost):
        session.read(("true",))


def test_a_wrong_host_key_is_not_waited_for() -> None:
    tries: list[int] = []

    def opener() -> FakeSession:
        tries.append(1)
        raise HostKeyRefused("unknown key")

    with pytest.raises(HostKeyRefused):
        DurableSession(HOST, opener).read(("true",))
    assert len(tries) == 1


def test_round_trips_add_up_over_connections() -> None:
    fakes = [breaking(1), FakeSession(HOST)]
    session = DurableSession(HOST, lambda: fakes.pop(0))
    with pytest.raises(NotReached):
        session.run(("true",))
    session.run(("true",))
    assert session.round_trips == 2


def test_after_an_interrupt_nothing_more_is_asked_until_it_is_lifted() -> None:
    stop = threading.Event()
    session = DurableSession(HOST, lambda: FakeSession(HOST), stop=stop)
    stop.set()
    with pytest.raises(Interrupted):
        session.read(("true",))
    session.stop = None
    assert session.read(("true",)).ok


def test_a_host_that_never_answered_is_waited_for_only_when_it_is_known_to_be_there() -> None:
    tries: list[int] = []

    def opener() -> FakeSession:
        tries.append(1)
        if len(tries) < 3:
            raise NotReached("no route")
        return FakeSession(HOST)

    with pytest.raises(NotReached):
        DurableSession(HOST, opener, known=False).read(("true",))
    assert len(tries) == 1
    assert DurableSession(HOST, opener).read(("true",)).ok


def test_an_interrupt_ends_the_waiting_for_a_host_that_does_not_answer() -> None:
    stop = threading.Event()

    def opener() -> FakeSession:
        stop.set()
        raise NotReached("no route")

    with pytest.raises(Interrupted):
        DurableSession(HOST, opener, stop=stop).read(("true",))


def test_a_change_goes_on_record_with_what_came_of_it() -> None:
    found: list[Change] = []
    answers = CommandResult(command="", exit_status=5, stdout="", stderr="Unit x not loaded.\n")
    fake = FakeSession(HOST, [("systemctl stop", answers), ("systemctl start", ConnectionLost("gone"))])
    session = DurableSession(HOST, lambda: fake, patience_s=0, record=found.append)
    assert session.change(("systemctl", "restart", "x"), step="restart x").ok
    session.change(("systemctl", "stop", "x"), step="stop x")
    with pytest.raises(ConnectionLost):
        session.change(("systemctl", "start", "x"), step="start x")
    session.put(b"text", "/run/x", step="write /run/x")
    session.put(b"text", "/run/y")
    session.read(("true",))
    assert [(each.step, each.cause) for each in found] == [
        ("restart x", ""),
        ("stop x", "Unit x not loaded."),
        ("start x", "gone"),
        ("write /run/x", ""),
    ]
    assert found[0].argv == ("systemctl", "restart", "x")
