"""Who changes the services of a host has it to himself: a second change, or a sweep, is refused meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from invoked import Running, until
from standin_host import Fleet

HOST = "lab-01"
RESTART = ("restart", "--hosts", HOST, "--port", "8001")


@pytest.fixture(scope="module")
def run(booted_fleet: Fleet) -> str:
    """The id of a sweep with one trial, whose server loads for seconds."""
    booted_fleet.on(HOST, "mkdir -p /etc/fleetbench")
    done = booted_fleet.invoke("sweep", "--model", "slow", "--hosts", HOST, "--sweep", "single")
    assert done.status == 0, done.err
    shutil.copytree(booted_fleet.runs, booted_fleet.place / "measured")
    return done.out.split()[-1]


@pytest.fixture
def fleet(booted_fleet: Fleet, run: str) -> Iterator[Fleet]:
    """Idle hosts, and a store with the sweep."""
    booted_fleet.clean()
    shutil.copytree(booted_fleet.place / "measured", booted_fleet.runs)
    yield booted_fleet
    booted_fleet.clean()


def under_way(fleet: Fleet, run: str) -> Running:
    """Alice's promotion, whose server loads."""
    words = ("promote", run, "--trial", "1", "--hosts", HOST, "--port", "8001")
    going = fleet.begin(*words, SUDO_USER="alice")
    going.wait_for("loading")
    return going


def traces(fleet: Fleet) -> str:
    """What there is of leases and timers."""
    return fleet.on(HOST, "ls /run/fleetbench; systemctl list-units --all --plain --no-legend 'fleetbench-*'")


def main_pid(fleet: Fleet) -> str:
    return fleet.on(HOST, "systemctl show vllm-8001 -P MainPID")


def test_other_changes_and_a_sweep_are_refused_while_a_promotion_is_under_way(fleet: Fleet, run: str) -> None:
    others = (
        ("promote", run, "--trial", "1", "--port", "8001"),
        ("promote", run, "--trial", "1", "--port", "8002", "--gpus", "3", "--check"),
        ("sweep", "--model", "good", "--sweep", "single"),
        ("deploy", "--model", "good", "--port", "8002", "--gpus", "3"),
        ("restart", "--port", "8001"),
        ("remove", "--port", "8001"),
        ("provision",),
    )
    fleet.deploy("other", gpus="0,1")
    going = under_way(fleet, run)
    going.pause()  # for longer than the server loads, and not as long as the lease lasts
    running = [fleet.begin(*words, "--hosts", HOST, SUDO_USER="bob") for words in others]
    for words, other in zip(others, running, strict=True):
        refused = other.done()
        assert refused.status == 1, f"{words}: {refused.err}"
        assert "is locked by alice@" in refused.err, f"{words}: {refused.err}"
        assert f"(promote {run}/1)" in refused.err, f"{words}: {refused.err}"
    going.wake()
    done = going.done()
    assert done.status == 0, done.err
    assert fleet.model_on(HOST) == "standin/slow"
    assert traces(fleet) == ""
    for words in (RESTART, ("remove", "--hosts", HOST, "--port", "8001")):
        after = fleet.invoke(*words, SUDO_USER="bob")
        assert after.status == 0, after.err
        assert traces(fleet) == ""


def test_the_lease_of_a_killed_promotion_stops_and_starts_nothing_and_is_unlocked_as_any(
    fleet: Fleet, run: str
) -> None:
    going = under_way(fleet, run)
    going.kill()
    pid = main_pid(fleet)
    assert traces(fleet) == "lease", "no timer, no loan"
    refused = fleet.invoke(*RESTART, SUDO_USER="bob")
    assert refused.status == 1
    assert "is locked by alice@" in refused.err
    unlocked = fleet.invoke("unlock", "--hosts", HOST, "--yes", SUDO_USER="bob")
    assert unlocked.status == 0, unlocked.err
    until(lambda: fleet.serves(HOST))
    assert main_pid(fleet) == pid
    assert fleet.invoke(*RESTART, SUDO_USER="bob").status == 0
    assert traces(fleet) == ""


def test_who_was_killed_need_not_wait_for_his_own_lease(fleet: Fleet, run: str) -> None:
    under_way(fleet, run).kill()
    again = fleet.invoke(*RESTART, SUDO_USER="alice")
    assert again.status == 0, again.err
    assert traces(fleet) == ""


def test_a_promotion_that_lost_its_host_puts_nothing_back(fleet: Fleet, run: str) -> None:
    fleet.deploy("other", gpus="0,1")
    going = under_way(fleet, run)
    going.pause()
    unlocked = fleet.invoke("unlock", "--hosts", HOST, "--yes", SUDO_USER="bob")
    assert unlocked.status == 0, unlocked.err
    fleet.on(HOST, "systemctl stop vllm-8001")
    going.wake()
    done = going.done(60)
    assert done.status == 1
    assert "the lease of this host was lost; what was changed there is left as it is" in done.err
    assert "unlocked by bob@" in done.err
    assert "standin/slow" in fleet.on(
        HOST, "systemctl cat vllm-8001; systemctl is-active vllm-8001 && exit 9; exit 0"
    )
