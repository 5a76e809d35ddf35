"""Units that are nothing without each other: started, watched and stopped together, the dead one named."""

from __future__ import annotations

import pytest
from nouns import HOST

from fleetbench.errors import CommandFailed, NotReady
from fleetbench.service.several import first_dead, start_all, stop_all
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession, Rule

ONE, TWO = "vllm-sweep-8102.service", "vllm-sweep-8103.service"
BEGAN = {ONE: "aaa", TWO: "bbb"}


def shown(one: str = "active", two: str = "active", invocation: str = "bbb") -> str:
    blocks = [(ONE, "aaa", one), (TWO, invocation, two)]
    return "\n".join(
        f"Id={unit}\nInvocationID={start}\nActiveState={state}\n" for unit, start, state in blocks
    )


def ended(status: int, said: str = "") -> CommandResult:
    return CommandResult(command="", exit_status=status, stdout="", stderr=said)


def session(*rules: Rule) -> tuple[DurableSession, FakeSession]:
    fake = FakeSession(HOST, rules)
    return DurableSession(HOST, lambda: fake), fake


def test_all_are_started_by_one_command_and_each_start_is_remembered() -> None:
    through, fake = session(("systemctl show", shown()))
    began: dict[str, str] = {}
    start_all(through, (ONE, TWO), began)
    assert began == BEGAN
    assert f"systemctl start {ONE} {TWO}" in fake.commands
    assert fake.commands.index(f"systemctl reset-failed {ONE} {TWO}") < fake.commands.index(
        f"systemctl start {ONE} {TWO}"
    )


def test_behind_a_guard_units_are_asked_to_start_once_and_then_waited_for() -> None:
    through, fake = session(("systemctl show -p Id", shown()))
    asked: list[tuple[str, ...]] = []
    began: dict[str, str] = {}
    start_all(through, (ONE, TWO), began, guard=lambda *words: asked.append(words))
    assert asked == [("systemctl", "start", "--no-block", ONE, TWO)]
    assert not any(command.startswith("systemctl start") for command in fake.commands)
    assert began == BEGAN


def test_behind_a_guard_the_one_that_ends_at_once_is_named() -> None:
    through, _ = session(
        ("ended at once", ended(1, f"{TWO} ended at once")),
        ("fleetbench vllm-sweep-8103.service", f"Result=exit-code\n\n{ONE}\n"),
        ("-p Id", shown(two="failed")),
    )
    with pytest.raises(NotReady) as caught:
        start_all(through, (ONE, TWO), {}, guard=lambda *_: None)
    assert (caught.value.unit, caught.value.invocation) == (TWO, "bbb")


def test_the_one_that_does_not_start_is_named_with_its_own_journal() -> None:
    through, fake = session(
        ("systemctl start", ended(1, "Job failed")),
        ("fleetbench vllm-sweep-8103.service", f"Result=exit-code\n\n{ONE}\n"),
        ("-p Id", shown(two="failed")),
    )
    began: dict[str, str] = {}
    with pytest.raises(NotReady) as caught:
        start_all(through, (ONE, TWO), began)
    assert (caught.value.unit, caught.value.invocation) == (TWO, "bbb")
    assert began == BEGAN, "the journals of those that started are wanted too"
    assert any(f"fleetbench {TWO} bbb" in command for command in fake.commands)


@pytest.mark.parametrize(
    ("answer", "dead"),
    [
        (shown(), ""),
        (shown(two="failed"), TWO),
        (shown(one="inactive", two="failed"), ONE),
        (shown(two="deactivating"), TWO),
        (shown(invocation="ccc"), TWO),
        (shown(invocation=""), TWO),
        ("", ONE),
        (f"Id={TWO}\nInvocationID=bbb\nActiveState=active\n", ONE),
    ],
)
def test_one_look_finds_the_first_that_is_not_the_start_that_it_was(answer: str, dead: str) -> None:
    through, fake = session(("systemctl show", answer))
    assert first_dead(through, BEGAN) == dead
    assert len(fake.commands) == 1


def test_stopping_accepts_what_is_not_there_and_nothing_else() -> None:
    through, fake = session(("systemctl stop", ended(5, "Unit not loaded")))
    said: list[str] = []
    stop_all(through, (ONE, TWO), said=said.append)
    assert fake.commands == [f"systemctl stop {ONE} {TWO}"]
    assert said == [f"stopping {ONE}, {TWO}"]
    stop_all(through, ())
    assert len(fake.commands) == 1
    with pytest.raises(CommandFailed, match="cannot stop"):
        stop_all(session(("systemctl stop", ended(1, "Access denied")))[0], (ONE,))
