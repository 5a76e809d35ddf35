"""One operator at a time, and production back by itself when the controller is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from invoked import until
from lab_under_test import LabUnderTest

from fleetbench.errors import CommandFailed, LeaseLost, NotPossible
from fleetbench.lab import lab as labs
from fleetbench.model import Build, Host
from fleetbench.sweep import lease
from fleetbench.sweep.heartbeat import Heartbeat
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.open import durable
from fleetbench.verbs.holding import refuse_held

UNITS = r"""
printf '[Service]\nExecStart=/bin/sleep 1000\n' > /etc/systemd/system/vllm-8051.service
printf '[Service]\nExecStart=/bin/sleep 1000\n' > /run/systemd/system/vllm-sweep-8151.service
systemctl daemon-reload
systemctl start vllm-sweep-8151
"""
CLEAN = r"""
systemctl stop vllm-8051 vllm-sweep-8151 fleetbench-deadman.timer
rm -rf /etc/systemd/system/vllm-8051.service /run/systemd/system/vllm-sweep-8151.service /run/fleetbench
systemctl daemon-reload
exit 0
"""


@pytest.fixture
def session(lab: LabUnderTest, enter: Callable[..., str]) -> Iterator[DurableSession]:
    """A session to the first host, which has no lease before and nothing of this test after."""
    build = Build(name="b", version="0.32.0")
    host = Host(name=lab.names[0], build=build, ssh_config=str(lab.ssh_config))
    enter(lab.names[0], "bash", "-c", CLEAN)
    opened = durable(host, patience_s=60)
    yield opened
    opened.close()
    enter(lab.names[0], "bash", "-c", CLEAN)


def hold(run: str, what: str = "sweep coder", *, seconds: float = 60, predecessor: str = "") -> lease.Hold:
    """A lease as this process would have it for a run."""
    return lease.Hold(run, what, seconds=seconds, predecessor=predecessor)


def test_a_second_operator_is_told_who_has_the_host(session: DurableSession) -> None:
    assert lease.holder_of(session) is None
    first = hold("run-1")
    first.take(session)
    first.take(session)  # the same run, resumed
    second = hold("run-2", "sweep other")
    with pytest.raises(NotPossible) as caught:
        second.take(session)
    text = str(caught.value)
    assert "is locked by" in text
    assert "sweep coder" in text
    assert f"invoke unlock --hosts {session.host.name}" in text
    with pytest.raises(NotPossible):
        refuse_held(session)
    second.release(session)
    assert lease.holder_of(session) is not None
    first.release(session)
    assert lease.holder_of(session) is None


def test_another_controller_of_the_same_run_has_it_only_when_the_first_is_dead(
    session: DurableSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "this_controller", lambda: "elsewhere:1:1")
    first = hold("run-1")
    first.take(session)
    monkeypatch.undo()
    with pytest.raises(NotPossible, match="is locked by"):
        hold("run-1").take(session)
    heir = hold("run-1", predecessor="elsewhere:1:1")
    heir.take(session)
    with pytest.raises(LeaseLost):
        first.renew(session)
    heir.renew(session)
    heir.release(session)


def test_a_lease_that_is_not_renewed_ends_by_itself(session: DurableSession) -> None:
    first = hold("run-1", seconds=2)
    first.take(session)
    time.sleep(2.5)
    assert lease.holder_of(session) is None
    hold("run-2", "sweep other").take(session)
    with pytest.raises(LeaseLost) as lost:
        first.renew(session)
    assert "sweep other" in lost.value.cause


def test_a_lease_is_had_again_after_a_reboot_and_in_no_other_way(session: DurableSession) -> None:
    first = hold("run-1")
    first.take(session)
    session.read(("rm", "-r", "/run/fleetbench"))  # another run had it and gave it back
    with pytest.raises(LeaseLost):
        first.renew(session)
    first._boot = "another boot"
    first.renew(session)
    first.arm(session, [])
    lease.give_up(session, "unlocked by bob")
    with pytest.raises(LeaseLost) as lost:
        first.renew(session)
    assert lost.value.cause == "unlocked by bob"
    first.take(session)  # resumed on purpose
    first.renew(session)


def test_a_command_runs_only_while_the_lease_is_ours(session: DurableSession) -> None:
    first = hold("run-1")
    first.take(session)
    first.do(session, "touch", "/run/fleetbench/done")
    assert session.read(("ls", "/run/fleetbench/done")).ok
    with pytest.raises(CommandFailed):
        first.do(session, "false")
    lease.give_up(session, "unlocked")
    with pytest.raises(LeaseLost):
        first.do(session, "touch", "/run/fleetbench/late")
    assert not session.read(("ls", "/run/fleetbench/late")).ok


def test_a_heartbeat_keeps_the_lease_and_notices_its_loss(session: DurableSession) -> None:
    first = hold("run-1", seconds=2)
    first.take(session)
    own = durable(session.host, patience_s=60)
    pulse = Heartbeat(own, first, said=lambda _: None)
    time.sleep(4)
    assert lease.holder_of(session) is not None
    lease.give_up(session, "unlocked by bob")
    assert pulse.lost.wait(10)
    assert "unlocked by bob" in str(first.lost)
    pulse.stop()


def test_production_comes_back_when_nobody_renews(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str]
) -> None:
    host = lab.names[0]
    enter(host, "bash", "-c", UNITS)
    first = hold("run-1", seconds=4)
    first.take(session)
    first.arm(session, ["vllm-8051.service"])
    session.close()  # the controller is gone
    until(lambda: is_active(lab, "vllm-8051"))
    left = "ls /run/systemd/system | grep vllm; ls /run/fleetbench | grep -E 'lease|loan'; true"
    assert enter(host, "bash", "-c", left) == ""
    timers = ("systemctl", "list-timers", "--all", "--no-legend", "fleetbench-deadman*")
    until(lambda: enter(host, *timers).strip() == "")


def test_what_a_run_that_died_owes_is_given_back_before_another_one_borrows(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str]
) -> None:
    enter(lab.names[0], "bash", "-c", UNITS)
    first = hold("run-1", seconds=1)
    first.take(session)
    first.seconds = 240  # the timer looks once a minute: the next run comes first
    first.arm(session, ["vllm-8051.service"])
    first.seconds = 1
    first.renew(session)
    time.sleep(1.5)
    second = hold("run-2")
    second.take(session)
    assert is_active(lab, "vllm-8051")
    assert not is_active(lab, "vllm-sweep-8151")
    assert lease.owed_on(session) == ()
    second.arm(session, ["vllm-8051.service"])
    second.arm(session, ["vllm-8052.service"])
    assert lease.owed_on(session) == ("vllm-8051.service", "vllm-8052.service")
    second.release(session)


@pytest.mark.parametrize("moment", ["waits for the lock", "found its script gone"])
def test_a_look_that_the_end_of_the_loan_overtakes_leaves_nothing(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str], moment: str
) -> None:
    """The timer may begin its look at the very moment at which the loan is released."""
    first = hold("run-1", seconds=240)  # the first look by itself is a minute away
    first.take(session)
    first.arm(session, ["vllm-8051.service"])
    look = "systemctl start --no-block fleetbench-deadman.service; sleep 1"
    if moment == "waits for the lock":
        script = (
            f"exec 9> /run/fleetbench/.lock; flock 9; {look}; systemctl is-active fleetbench-deadman; exit 0"
        )
        assert enter(lab.names[0], "bash", "-c", script).strip() in ("active", "activating")
    else:
        script = f"mv /run/fleetbench/restore.sh /run/r; {look}; mv /run/r /run/fleetbench/restore.sh"
        enter(lab.names[0], "bash", "-c", script)
    first.release(session)
    left = "systemctl list-units --all --plain --no-legend 'fleetbench-*'; ls /run/systemd/transient"
    until(lambda: "fleetbench" not in enter(lab.names[0], "bash", "-c", left))


def test_a_renewed_loan_is_left_alone(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str]
) -> None:
    enter(lab.names[0], "bash", "-c", UNITS)
    first = hold("run-1", seconds=4)
    first.take(session)
    first.arm(session, ["vllm-8051.service"])
    first.seconds = 60
    first.renew(session)
    time.sleep(3)
    assert is_active(lab, "vllm-sweep-8151")
    first.release(session)
    assert enter(lab.names[0], "bash", "-c", "ls /run/fleetbench") == ""


def is_active(lab: LabUnderTest, unit: str) -> bool:
    """True when a unit of the first host runs."""
    asked = labs.enter(lab.names[0], ("systemctl", "is-active", unit), settings=lab.settings)
    return asked.stdout.strip() == "active"
