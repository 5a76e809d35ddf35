"""From a sweep to the service that comes back at boot: what was measured, proven, or everything as before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from invoked import Done, until
from standin_host import OUT_OF_MEMORY, Fleet

from fleetbench.lab import lab as labs

UNIT = "/etc/systemd/system/vllm-8001.service"


@pytest.fixture(scope="module")
def sweeps(booted_fleet: Fleet) -> dict[str, str]:
    """The id of one sweep of each model: `good` with single servers and several, `second-exits` with one."""
    found = {}
    done = booted_fleet.enter("lab-01", "dnf -y -q install nginx")
    assert done.returncode == 0, done.stderr
    for name in booted_fleet.names:
        booted_fleet.on(name, "mkdir -p /etc/fleetbench")
    for model, sweep in (("good", "promoted"), ("second-exits", "single"), ("slow", "single")):
        done = booted_fleet.invoke("sweep", "--model", model, "--hosts", "lab-01", "--sweep", sweep)
        assert done.status == 0, done.err
        found[model] = done.out.split()[-1]
    shutil.copytree(booted_fleet.runs, booted_fleet.place / "measured")
    return found


@pytest.fixture
def measured(booted_fleet: Fleet, sweeps: dict[str, str]) -> Iterator[Fleet]:
    """Idle hosts, and a store with the sweeps."""
    booted_fleet.clean()
    shutil.copytree(booted_fleet.place / "measured", booted_fleet.runs)
    yield booted_fleet
    for name in booted_fleet.names:
        booted_fleet.on(name, "rm -f /etc/fleetbench/*")
    booted_fleet.clean()


def promote(fleet: Fleet, run: str, *words: str, hosts: str = "lab-01") -> Done:
    return fleet.invoke("promote", run, "--hosts", hosts, *words)


def promoted(fleet: Fleet, run: str, *words: str, hosts: str = "lab-01") -> Any:
    """The row of the only host that a promotion changed."""
    done = promote(fleet, run, *words, "--format", "json", hosts=hosts)
    assert done.status == 0, done.err
    (row,) = json.loads(done.out)
    return row


def main_pid(fleet: Fleet, port: int = 8001, name: str = "lab-01") -> str:
    return fleet.on(name, f"systemctl show vllm-{port} -P MainPID")


def units_on(fleet: Fleet, name: str = "lab-01") -> str:
    return fleet.on(name, "cd /etc/systemd/system; ls -d vllm-* multi-user.target.wants/vllm-*")


def test_the_best_of_a_sweep_becomes_the_very_service_and_comes_back_at_boot(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    run = sweeps["good"]
    measured.deploy("other", gpus="0,1")
    before = measured.listing("lab-01")
    check = promote(measured, run, "--best", "--port", "8001", "--check")
    assert check.status == 2, check.err
    assert "would write " + UNIT in check.err
    assert "-ExecStart=/opt/vllm/venv-vllm/bin/vllm serve standin/other" in check.out
    assert "a cache of its own" in check.out
    assert measured.listing("lab-01") == before

    (best,) = measured.shown("recommend", run)
    number = best["best"]["trial"]
    row = promoted(measured, run, "--best", "--port", "8001")
    assert (row["outcome"], row["promoted"]) == ("changed", f"{run}/{number}")
    assert row["measured_spec"] == row["service_spec"]
    assert row["not_as_measured"] == []
    assert measured.model_on("lab-01") == "standin/good"
    assert measured.serves("lab-01")
    with measured.store() as store:
        trial = store.trials(run)[number - 1]
    assert f"--tensor-parallel-size {trial.config.tp}" in measured.on(
        "lab-01", f"cat {UNIT} /etc/systemd/system/*"
    )
    pid = main_pid(measured)
    again = promote(measured, run, "--best", "--port", "8001")
    assert again.status == 0, again.err
    assert "no changes" in again.err
    assert main_pid(measured) == pid
    lines = [json.loads(line) for line in (measured.runs / "audit.jsonl").read_text().splitlines()]
    assert {"lab-01"} == {line["host"] for line in lines if line["plan"] == f"promote {run}/{number}"}

    labs.reboot("lab-01", settings=measured.settings)
    until(lambda: measured.serves("lab-01"))
    assert measured.model_on("lab-01") == "standin/good"
    status = json.loads(measured.invoke("status", "--hosts", "lab-01", "--format", "json").out)
    notes = [row["note"] for row in status if row["unit"] == "vllm-8001"]
    assert f"promoted from {run} trial {number} (" in notes[0]
    assert "tok/s at c=2)" in notes[0]
    assert "restart pending" not in str(status)


def test_a_promotion_that_does_not_come_up_leaves_the_old_service_serving(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    measured.deploy("other", gpus="0,1")
    text = measured.on("lab-01", f"cat {UNIT}")
    done = promote(measured, sweeps["second-exits"], "--trial", "1", "--port", "8001", "--gpus", "1")
    assert done.status == 1
    (error,) = done.errors
    assert OUT_OF_MEMORY[:40] in error
    assert "the previous unit was put back and started; vllm-8001.service serves standin/other again" in error
    assert len(error.splitlines()) <= 3
    assert measured.serves("lab-01")
    assert measured.on("lab-01", f"cat {UNIT}") == text
    assert units_on(measured).split() == ["multi-user.target.wants/vllm-8001.service", "vllm-8001.service"]
    assert "no changes" in measured.deploy("other", gpus="0,1").err


def test_rolling_over_hosts_ends_at_the_first_that_fails_and_the_others_are_as_they_were(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    run = sweeps["second-exits"]
    measured.deploy("good", "--port", "8002", host="lab-02", gpus="0")
    measured.deploy("other", host="lab-02", gpus="1")
    done = promote(measured, run, "--trial", "1", "--port", "8001", "--format", "json", hosts="lab-01,lab-02")
    assert done.status == 1, done.err
    rows = json.loads(done.out)
    assert [(row["host"], row["outcome"]) for row in rows] == [("lab-01", "changed"), ("lab-02", "failed")]
    (error,) = done.errors
    assert error.startswith("error: lab-02: vllm-8001.service")
    assert "serves standin/other again" in error
    assert measured.model_on("lab-01") == "standin/second-exits"
    assert measured.model_on("lab-02") == "standin/other"
    words = ("--trial", "1", "--port", "8001", "--gpus", "1", "--format", "json")
    first = promote(measured, run, *words, hosts="lab-01,lab-02")
    assert first.status == 1
    assert [row["outcome"] for row in json.loads(first.out)] == ["failed", "not tried"]
    assert measured.model_on("lab-01") == "standin/second-exits"


def test_several_servers_come_with_a_balancer_and_go_when_one_replaces_them(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    run = sweeps["good"]
    row = promoted(measured, run, "--trial", "2")
    assert row["unit"] == "vllm-8001 (nginx), vllm-8002, vllm-8003"
    assert row["measured_spec"] == row["service_spec"]
    pids = [main_pid(measured, port) for port in (8001, 8002, 8003)]
    assert "no changes" in promote(measured, run, "--trial", "2").err
    assert [main_pid(measured, port) for port in (8001, 8002, 8003)] == pids
    labs.reboot("lab-01", settings=measured.settings)
    until(lambda: all(measured.serves("lab-01", port) for port in (8001, 8002, 8003)))
    shown = json.loads(measured.invoke("status", "--hosts", "lab-01", "--format", "json").out)
    notes = {row["unit"]: row["note"] for row in shown}
    assert notes["vllm-8001"].startswith(
        f"nginx in front of vllm-8002, vllm-8003; promoted from {run} trial 2"
    )
    measured.on("lab-01", "systemctl stop vllm-8002")
    assert all(measured.serves("lab-01") for _ in range(4)), "a server that is down is left out"
    measured.on("lab-01", "systemctl start vllm-8002")

    before, files = units_on(measured), "cat /etc/systemd/system/vllm-* /etc/fleetbench/*"
    texts = measured.on("lab-01", files)
    done = promote(measured, sweeps["second-exits"], "--trial", "1", "--port", "8001", "--gpus", "1")
    assert done.status == 1
    (error,) = done.errors
    assert OUT_OF_MEMORY[:40] in error
    assert (units_on(measured), measured.on("lab-01", files)) == (before, texts)
    assert all(measured.serves("lab-01", port) for port in (8001, 8002, 8003))

    single = promoted(measured, run, "--trial", "1")
    assert single["unit"] == "vllm-8001"
    assert measured.serves("lab-01")
    assert units_on(measured).split() == ["multi-user.target.wants/vllm-8001.service", "vllm-8001.service"]
    left = "pgrep -a nginx; ls /etc/fleetbench; ss -Htln 'sport >= :{first} and sport <= :8099'"
    assert measured.on("lab-01", left.format(first=8002)) == ""
    assert promoted(measured, run, "--trial", "2")["outcome"] == "changed"
    assert measured.invoke("remove", "--hosts", "lab-01", "--port", "8001").status == 0
    assert units_on(measured) == ""
    assert measured.on("lab-01", left.format(first=8001)) == ""


def test_ctrl_c_puts_the_old_service_back_and_a_killed_promotion_is_finished_by_the_same_words(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    words = ("promote", sweeps["slow"], "--trial", "1", "--hosts", "lab-01", "--port", "8001")
    measured.deploy("other", gpus="0,1")
    going = measured.begin(*words)
    going.wait_for("loading")
    going.interrupt()
    assert going.done(60).status == 130
    until(lambda: measured.model_on("lab-01") == "standin/other")
    going = measured.begin(*words)
    going.wait_for("loading")
    going.kill()
    pid = main_pid(measured)
    again = measured.invoke(*words)
    assert again.status == 0, again.err
    assert "no changes" in again.err
    assert main_pid(measured) == pid
    assert measured.model_on("lab-01") == "standin/slow"


def test_what_would_not_be_what_was_measured_is_refused_with_its_reason(
    measured: Fleet, sweeps: dict[str, str]
) -> None:
    run = sweeps["good"]
    listing = measured.listing("lab-01")
    failed = promote(measured, run, "--trial", "3")
    assert (failed.status, "trial 3" in failed.errors[0]) == (1, True)
    unknown = promote(measured, run, "--trial", "9")
    assert "its trials are 1 to 3" in unknown.errors[0]
    assert measured.listing("lab-01") == listing
    measured.on("lab-01", "echo VLLM_ATTENTION_BACKEND=FLASHINFER > /etc/fleetbench/vllm-8001.env")
    changed = promote(measured, run, "--trial", "1")
    assert "/etc/fleetbench/vllm-8001.env changes the unit" in changed.errors[0]
    assert "--anyway" in changed.errors[0]
    measured.on("lab-01", "rm /etc/fleetbench/vllm-8001.env")
    drop_in = "/etc/systemd/system/vllm-8001.service.d"
    measured.on("lab-01", f"mkdir {drop_in}; echo [Service] > {drop_in}/override.conf")
    left = promote(measured, run, "--trial", "1")
    assert f"{drop_in}/override.conf changes the unit" in left.errors[0]
    measured.on("lab-01", f"rm -r {drop_in}")
    labs.gpus("lab-01", "4x H200", settings=measured.settings)
    other = promote(measured, run, "--trial", "1")
    assert "H200, measured on NVIDIA H100" in other.errors[0], other.err
    assert units_on(measured) == ""
