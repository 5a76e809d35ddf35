"""The life of services on real hosts: deployed, rebooted, killed, failing, taken, restarted, removed."""

from __future__ import annotations

import json
import time

import pytest
from invoked import until
from standin_host import OUT_OF_MEMORY, Fleet

from fleetbench.lab import lab as labs

UNIT = "/etc/systemd/system/vllm-8001.service"


def main_pid(fleet: Fleet, name: str = "lab-01") -> str:
    return fleet.on(name, "systemctl show vllm-8001 -P MainPID")


def gpu_holders(fleet: Fleet, name: str = "lab-01") -> list[str]:
    return fleet.on(name, "nvidia-smi --query-compute-apps=pid --format=csv,noheader").split()


def test_a_deployed_service_serves_and_the_second_deploy_changes_nothing(fleet: Fleet) -> None:
    first = fleet.deploy("good", gpus="0,1")
    assert "serves standin/good" in first.err
    assert fleet.serves("lab-01")
    pid = main_pid(fleet)
    again = fleet.deploy("good", gpus="0,1")
    assert "vllm-8001.service: no changes" in again.err
    assert main_pid(fleet) == pid
    assert fleet.on("lab-01", "systemctl is-enabled vllm-8001") == "enabled"


def test_check_says_what_would_change_and_writes_nothing(fleet: Fleet) -> None:
    before = fleet.listing("lab-01")
    asked = ("deploy", "--hosts", "lab-01", "--model", "good", "--gpus", "0", "--check")
    done = fleet.invoke(*asked, "--format", "json")
    assert done.status == 2
    assert "would write " + UNIT in done.err
    assert "+ExecStart=" in done.out
    assert fleet.listing("lab-01") == before
    assert not fleet.runs.exists()


def test_after_a_reboot_the_service_comes_back_by_itself(fleet: Fleet) -> None:
    fleet.deploy()
    labs.reboot("lab-01", settings=fleet.settings)
    until(lambda: fleet.serves("lab-01"))
    labs.reboot("lab-01", hard=True, settings=fleet.settings)
    until(lambda: fleet.serves("lab-01"))


def test_a_killed_server_is_restarted_and_no_orphan_holds_its_memory(fleet: Fleet) -> None:
    fleet.deploy("child", gpus="2")
    pid = main_pid(fleet)
    worker = fleet.on("lab-01", "pgrep -f '[w]orker$'")
    assert worker.isdigit(), "the stand-in forked a worker in a session of its own"
    fleet.on("lab-01", f"kill -9 {pid}")
    until(lambda: main_pid(fleet) not in ("0", pid) and fleet.serves("lab-01"))
    assert fleet.on("lab-01", f"test -e /proc/{worker} && echo there") == ""
    assert set(gpu_holders(fleet)) == {main_pid(fleet)}
    shown = json.loads(fleet.invoke("status", "--hosts", "lab-01", "--format", "json").out)
    assert [(row["unit"], row["state"], row["restarts"]) for row in shown] == [
        ("vllm-8001", "active/running", 1)
    ]


@pytest.mark.parametrize("model", ["exit", "exit-late"])
def test_a_server_that_ends_is_explained_in_seconds_and_its_unit_removed(fleet: Fleet, model: str) -> None:
    before = fleet.on("lab-01", "ls -A /etc/systemd/system")
    started = time.monotonic()
    done = fleet.invoke("deploy", "--hosts", "lab-01", "--model", model, "--gpus", "0")
    assert time.monotonic() - started < 30
    assert done.status == 1
    (error,) = done.errors
    assert error.startswith("error: lab-01: vllm-8001.service did not become ready")
    assert "memory" in error
    assert OUT_OF_MEMORY[:40] in error
    assert "the new unit was removed again" in error
    assert len(error.splitlines()) <= 3
    assert fleet.on("lab-01", "ls -A /etc/systemd/system") == before
    assert fleet.on("lab-01", "systemctl list-units --all --no-legend 'vllm-*'") == ""


def test_a_server_that_dies_of_its_first_request_never_counts_as_ready(fleet: Fleet) -> None:
    done = fleet.invoke("deploy", "--hosts", "lab-01", "--model", "first", "--gpus", "0")
    assert done.status == 1
    assert "the kernel of the first request is broken" in done.errors[0]
    assert fleet.on("lab-01", f"ls {UNIT}") == ""


def test_when_a_change_does_not_work_the_previous_service_is_put_back(fleet: Fleet) -> None:
    fleet.deploy("good")
    text = fleet.on("lab-01", f"cat {UNIT}")
    changed = ("deploy", "--hosts", "lab-01", "--gpus", "0")
    started = time.monotonic()
    for model, words in (("exit", ()), ("hang", ("--timeout", "2"))):
        done = fleet.invoke(*changed, "--model", model, *words)
        assert done.status == 1
        assert "the previous unit was put back and started" in done.errors[0]
        until(lambda: fleet.serves("lab-01"))
        assert fleet.on("lab-01", f"cat {UNIT}") == text
        assert fleet.model_on("lab-01") == "standin/good"
    assert "no answer within 2 s" in done.errors[0]
    assert time.monotonic() - started < 60
    assert "no changes" in fleet.deploy("good").err


def test_a_deploy_that_cannot_begin_does_not_touch_the_service_that_runs(fleet: Fleet) -> None:
    fleet.deploy("good")
    pid = main_pid(fleet)
    (fleet.place / "file").write_text("not a directory")
    asked = ("deploy", "--hosts", "lab-01", "--model", "other", "--gpus", "0")
    done = fleet.invoke(*asked, FLEETBENCH_RUNS=str(fleet.place / "file" / "runs"))
    assert done.status == 1
    assert "cannot write" in done.errors[0]
    assert main_pid(fleet) == pid


def test_after_a_kill_the_same_deploy_waits_for_what_the_first_one_started(
    fleet: Fleet,
) -> None:
    deploying = fleet.begin("deploy", "--hosts", "lab-01", "--model", "slow", "--gpus", "0")
    deploying.wait_for("loading")
    deploying.kill()
    pid = main_pid(fleet)
    again = fleet.deploy("slow")
    assert "no changes" in again.err
    assert fleet.serves("lab-01")
    assert main_pid(fleet) == pid
    fleet.on("lab-01", "chmod 0 /opt/vllm/venvs/*/bin/vllm; systemctl kill -s KILL vllm-8001")
    try:
        broken = fleet.invoke("deploy", "--hosts", "lab-01", "--model", "slow", "--gpus", "0")
    finally:
        fleet.on("lab-01", "chmod 755 /opt/vllm/venvs/*/bin/vllm")
    assert broken.status == 1, "no change to make is not the same as a service that serves"


def test_a_port_that_somebody_else_has_is_refused_with_its_owner(fleet: Fleet) -> None:
    server = "systemd-run --unit=foreign python3 -m http.server 8001"
    fleet.on("lab-01", server)
    until(lambda: ":8001 " in fleet.on("lab-01", "ss -Htln"))
    before = fleet.listing("lab-01")
    done = fleet.invoke("deploy", "--hosts", "lab-01", "--model", "good", "--gpus", "0")
    assert done.status == 1
    assert "port 8001 is in use" in done.errors[0]
    assert "foreign.service" in done.errors[0]
    assert fleet.listing("lab-01") == before


def test_a_gpu_that_somebody_else_has_is_refused_with_its_owner(fleet: Fleet) -> None:
    fleet.deploy("good", gpus="1,2")
    deploy = ("deploy", "--hosts", "lab-01", "--model", "good", "--port", "8002", "--tp", "2")
    taken = fleet.invoke(*deploy, "--gpus", "2,3")
    assert taken.status == 1
    assert "GPU 2 belongs to vllm-8001.service" in taken.errors[0]
    foreign = "systemd-run --unit=foreign bash -c 'mkdir -p /run/fake-gpu-apps; "
    fleet.on("lab-01", foreign + 'echo "3 9000 python train.py" > /run/fake-gpu-apps/$$$$; exec sleep 600\'')
    until(lambda: len(gpu_holders(fleet)) == 3)
    holder = fleet.on("lab-01", "systemctl show foreign -P MainPID")
    done = fleet.invoke(*deploy, "--gpus", "0,3")
    assert done.status == 1
    assert "GPU 3 is in use" in done.errors[0]
    assert f"pid {holder}" in done.errors[0]
    assert "9000 MiB" in done.errors[0]
    assert fleet.on("lab-01", "ls /etc/systemd/system/vllm-8002.service") == ""


def test_a_rolling_restart_restarts_one_host_after_the_other_and_stops_at_the_first_failure(
    fleet: Fleet,
) -> None:
    fleet.deploy("good", host="@lab")
    pids = [main_pid(fleet, name) for name in fleet.names]
    done = fleet.invoke("restart", "--hosts", "@lab")
    assert done.status == 0, done.err
    said = [line for line in done.err.splitlines() if "stopping" in line or "serves" in line]
    assert [line.split()[1] for line in said] == ["lab-01:", "lab-01:", "lab-02:", "lab-02:"]
    now = [main_pid(fleet, name) for name in fleet.names]
    assert not set(pids) & set(now)
    fleet.on("lab-01", "chmod 0 /opt/vllm/venvs/*/bin/vllm")
    try:
        failed = fleet.invoke("restart", "--hosts", "@lab", "--format", "json")
    finally:
        fleet.on("lab-01", "chmod 755 /opt/vllm/venvs/*/bin/vllm")
    assert failed.status == 1
    assert [row["outcome"] for row in json.loads(failed.out)] == ["failed", "not tried"]
    assert main_pid(fleet, "lab-02") == now[1]


def test_a_service_on_one_address_only_is_found_there(fleet: Fleet) -> None:
    address = fleet.settings.address(1)
    fleet.deploy("good", "--bind", address)
    assert fleet.invoke("restart", "--hosts", "lab-01", "--timeout", "30").status == 0


def test_status_and_logs_show_what_runs_and_remove_takes_it_away(fleet: Fleet) -> None:
    fleet.deploy("good", "--served-name", 'it\'s "$HOME"; %n')
    assert fleet.model_on("lab-01") == 'it\'s "$HOME"; %n'
    (row,) = json.loads(fleet.invoke("status", "--hosts", "lab-01", "--format", "json").out)
    assert (row["host"], row["unit"], row["state"], row["boot"], row["gpus"], row["port"]) == (
        ("lab-01", "vllm-8001", "active/running", "enabled", "0", 8001)
    )
    assert "Application startup complete." in fleet.invoke("logs", "--hosts", "lab-01").out
    wrong = fleet.invoke("logs", "--hosts", "lab-01", "--port", "8009")
    assert wrong.status == 1
    assert "vllm-8001" in wrong.errors[0]
    assert fleet.invoke("remove", "--hosts", "lab-01", "--check").status == 2
    assert fleet.serves("lab-01")
    assert fleet.invoke("remove", "--hosts", "lab-01").status == 0
    assert fleet.on("lab-01", f"ls {UNIT}; systemctl list-units --all --no-legend 'vllm-*'") == ""
    assert "no changes" in fleet.invoke("remove", "--hosts", "lab-01").err


def test_logs_follow_until_ctrl_c(fleet: Fleet) -> None:
    fleet.deploy("good")
    following = fleet.begin("logs", "--hosts", "lab-01", "--follow", "--lines", "3")
    until(lambda: "startup complete" in following.out)
    fleet.on("lab-01", "systemctl restart vllm-8001")
    until(lambda: following.out.count("startup complete") >= 2)
    following.interrupt()
    assert following.done().status == 130


def test_ctrl_c_during_a_deploy_on_two_hosts_takes_both_back(fleet: Fleet) -> None:
    fleet.deploy("good", host="lab-02")
    before = fleet.on("lab-01", "ls -A /etc/systemd/system")
    deploying = fleet.begin("deploy", "--hosts", "@lab", "--model", "hang", "--gpus", "0")
    for name in fleet.names:
        until(lambda name=name: "standin/hang" in fleet.on(name, "pgrep -af 'vllm serve'"))
    deploying.interrupt()
    done = deploying.done(60)
    assert done.status == 130, done.err
    assert fleet.on("lab-01", "ls -A /etc/systemd/system") == before
    until(lambda: fleet.serves("lab-02"))
    assert fleet.model_on("lab-02") == "standin/good"
