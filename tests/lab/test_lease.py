"""One operator at a time, and production back by itself when the controller is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from lab_under_test import LabUnderTest

from fleetbench.errors import NotPossible
from fleetbench.lab import lab as labs
from fleetbench.model import Build, Host
from fleetbench.sweep import lease
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.open import durable

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


def test_a_second_operator_is_told_who_has_the_host(session: DurableSession) -> None:
    assert lease.holder_of(session) is None
    lease.take(session, "run-1", "sweep coder", seconds=60)
    lease.take(session, "run-1", "sweep coder", seconds=60)  # the same run, resumed
    with pytest.raises(NotPossible) as caught:
        lease.take(session, "run-2", "sweep other", seconds=60)
    text = str(caught.value)
    assert "is locked by" in text
    assert "sweep coder" in text
    assert f"invoke unlock --hosts {session.host.name}" in text
    with pytest.raises(NotPossible):
        lease.refuse_locked(session)
    lease.release(session, "run-2")
    assert lease.holder_of(session) is not None
    lease.release(session, "run-1")
    assert lease.holder_of(session) is None


def test_a_lease_that_is_not_renewed_ends_by_itself(session: DurableSession) -> None:
    lease.take(session, "run-1", "sweep coder", seconds=2)
    time.sleep(2.5)
    assert lease.holder_of(session) is None
    lease.take(session, "run-2", "sweep other", seconds=60)
    assert not lease.renew(session, "run-1", "sweep coder", seconds=60)


def test_a_lease_that_a_reboot_ended_is_had_again_but_not_one_that_was_given_back(
    session: DurableSession,
) -> None:
    lease.take(session, "run-1", "sweep coder", seconds=60)
    session.read(("rm", "-r", "/run/fleetbench"))  # what a reboot does
    assert lease.renew(session, "run-1", "sweep coder", seconds=60)
    lease.arm(session, [])
    lease.give_up(session)
    assert not lease.renew(session, "run-1", "sweep coder", seconds=60)
    lease.take(session, "run-1", "sweep coder", seconds=60)  # resumed on purpose
    assert lease.renew(session, "run-1", "sweep coder", seconds=60)


def test_a_heartbeat_keeps_the_lease_and_notices_its_loss(session: DurableSession) -> None:
    lease.take(session, "run-1", "sweep coder", seconds=2)
    said: list[str] = []
    own = durable(session.host, patience_s=60)
    pulse = lease.Heartbeat(own, "run-1", "sweep coder", seconds=2, said=said.append)
    time.sleep(4)
    assert lease.holder_of(session) is not None
    lease.give_up(session)
    assert pulse.lost.wait(10)
    assert "lost" in said[-1]
    pulse.stop()


def test_production_comes_back_when_nobody_renews(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str]
) -> None:
    host = lab.names[0]
    enter(host, "bash", "-c", UNITS)
    lease.take(session, "run-1", "sweep coder", seconds=4)
    lease.arm(session, ["vllm-8051.service"], check_every_s=1)
    session.close()  # the controller is gone
    active = labs.enter(host, ("systemctl", "is-active", "vllm-8051"), settings=lab.settings)
    assert active.stdout.strip() == "inactive"
    give_up = time.monotonic() + 30
    while active.stdout.strip() != "active":
        assert time.monotonic() < give_up, active.stdout
        time.sleep(0.3)
        active = labs.enter(host, ("systemctl", "is-active", "vllm-8051"), settings=lab.settings)
    left = "ls /run/systemd/system | grep vllm; ls /run/fleetbench | grep -E 'lease|loan'; true"
    assert enter(host, "bash", "-c", left) == ""
    timers = ("systemctl", "list-timers", "--all", "--no-legend", "fleetbench-deadman*")
    assert enter(host, *timers).strip() == ""


def test_a_renewed_loan_is_left_alone(
    lab: LabUnderTest, session: DurableSession, enter: Callable[..., str]
) -> None:
    enter(lab.names[0], "bash", "-c", UNITS)
    lease.take(session, "run-1", "sweep coder", seconds=60)
    lease.arm(session, ["vllm-8051.service"], check_every_s=1)
    time.sleep(3)
    assert "active\n" in enter(lab.names[0], "systemctl", "is-active", "vllm-sweep-8151")
    lease.release(session, "run-1")
    assert enter(lab.names[0], "bash", "-c", "ls /run/fleetbench") == ""
