"""The lab itself: its hosts behave like machines, and nothing of them is left afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_under_test import LabUnderTest, own_settings

from fleetbench.errors import UsageError
from fleetbench.lab import cgroups, interpreter, machine, network
from fleetbench.lab import lab as labs
from fleetbench.lab.commands import mounts, run
from fleetbench.lab.inventory import LabHost
from fleetbench.lab.settings import LabError

Enter = Callable[..., str]


def wait_for(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_host_looks_like_rocky_and_all_its_units_are_well(lab: LabUnderTest) -> None:
    done = lab.ssh("lab-01", ". /etc/os-release; echo $ID $VERSION_ID; cat /etc/redhat-release; hostname")
    assert done.stdout.splitlines() == ["rocky 9.6", "Rocky Linux release 9.6 (Blue Onyx)", "lab-01"], (
        done.stderr
    )
    assert lab.ssh("lab-01", "systemctl is-system-running").stdout.strip() == "running"
    assert lab.ssh("lab-01", "rpm -E %rhel%dist").stdout.strip() == "9.el9"


def test_each_host_answers_under_its_own_key(lab: LabUnderTest) -> None:
    for name in lab.names:
        done = lab.ssh(name, "hostname; cat /etc/machine-id")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == name


def test_hosts_reach_each_other_but_not_the_world(lab: LabUnderTest) -> None:
    assert lab.ssh("lab-01", "ping -c1 -W2 lab-02").returncode == 0
    started = time.monotonic()
    refused = lab.ssh("lab-01", "curl -sS --max-time 20 http://example.invalid/")
    assert refused.returncode == 6, refused  # could not resolve
    assert time.monotonic() - started < 5


def test_dnf_installs_a_python_that_can_make_environments(lab: LabUnderTest) -> None:
    python = interpreter.find().name
    assert lab.ssh("lab-02", f"command -v {python}").returncode != 0
    done = lab.ssh("lab-02", f"dnf -y install {python} {python}-devel", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    check = f"{python} -c 'import bz2, ctypes, ensurepip, lzma, readline, sqlite3, ssl, venv'"
    assert lab.ssh("lab-02", check).returncode == 0
    assert lab.ssh("lab-02", f"rpm -V {python} {python}-libs {python}-devel").stdout == ""
    made = lab.ssh(
        "lab-02", f"{python} -m venv /root/v && /root/v/bin/python -m pip --version", timeout_s=120
    )
    assert "/root/v/lib" in made.stdout, made.stderr
    again = lab.ssh("lab-02", f"dnf -y install {python}")
    assert again.returncode == 0
    assert "Nothing to do." in again.stdout
    assert lab.ssh("lab-02", "dnf -y install no-such-package").returncode == 1
    headers = f"test -e $({python} -c 'import sysconfig as s; print(s.get_paths()[\"include\"])')/Python.h"
    assert lab.ssh("lab-02", headers).returncode == 0


def test_a_signal_to_a_process_group_of_a_host_stays_inside(lab: LabUnderTest) -> None:
    assert labs.enter("lab-01", ["bash", "-c", "kill -9 0"], settings=lab.settings).returncode != 0
    assert labs.enter("lab-01", ["true"], settings=lab.settings).returncode == 0


def test_a_reboot_keeps_the_disk_and_changes_the_boot_id(lab: LabUnderTest, enter: Enter) -> None:
    boot_id = enter("lab-01", "cat", "/proc/sys/kernel/random/boot_id")
    journal = "journalctl --list-boots --no-pager -q | wc -l"
    boots = int(enter("lab-01", "bash", "-c", journal))
    enter("lab-01", "bash", "-c", "echo kept > /root/mark; echo gone > /run/mark")
    seconds = labs.reboot("lab-01", settings=lab.settings)
    assert seconds < 30
    assert enter("lab-01", "cat", "/root/mark") == "kept\n"
    assert labs.enter("lab-01", ["cat", "/run/mark"], settings=lab.settings).returncode == 1
    assert int(enter("lab-01", "bash", "-c", journal)) == boots + 1
    assert enter("lab-01", "cat", "/proc/sys/kernel/random/boot_id") != boot_id


def test_a_reboot_asked_for_over_ssh_comes_back_too(lab: LabUnderTest) -> None:
    first = cgroups.first_process(lab.settings, "lab-01")
    lab.ssh("lab-01", "systemctl reboot")
    wait_for(lambda: cgroups.first_process(lab.settings, "lab-01") not in (first, None))
    wait_for(lambda: lab.ssh("lab-01", "systemctl is-system-running").stdout.strip() == "running")


def test_after_a_power_cut_enabled_services_come_back(lab: LabUnderTest, enter: Enter) -> None:
    unit = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    labs.enter("lab-01", ["tee", "/etc/systemd/system/stay.service"], stdin=unit, settings=lab.settings)
    enter("lab-01", "systemctl", "enable", "stay.service")
    seconds = labs.reboot("lab-01", hard=True, settings=lab.settings)
    assert seconds < 30
    assert enter("lab-01", "systemctl", "is-active", "stay.service") == "active\n"


def test_a_host_without_power_is_down_until_it_is_started(lab: LabUnderTest) -> None:
    labs.kill("lab-02", settings=lab.settings)
    assert cgroups.processes(lab.settings, "lab-02") == ()
    assert lab.ssh("lab-02", "true").returncode == 255
    assert [host.running for host in labs.listing(lab.settings)] == [True, False]
    with pytest.raises(LabError, match="is not running"):
        labs.enter("lab-02", ["true"], settings=lab.settings)
    labs.start("lab-02", settings=lab.settings)
    assert lab.ssh("lab-02", "true").returncode == 0
    labs.stop("lab-02", settings=lab.settings)
    assert cgroups.processes(lab.settings, "lab-02") == ()
    assert labs.up(2, settings=lab.settings)[1].running


def test_up_again_keeps_running_hosts_as_they_are(lab: LabUnderTest) -> None:
    before = cgroups.first_process(lab.settings, "lab-01")
    hosts = labs.up(2, gpus=["8x L4"], settings=lab.settings)
    assert cgroups.first_process(lab.settings, "lab-01") == before
    assert [host.name for host in hosts] == ["lab-01", "lab-02"]
    assert "H100" in hosts[0].gpus


def test_the_network_can_be_cut_and_mended_while_commands_go_on(lab: LabUnderTest, enter: Enter) -> None:
    enter("lab-01", "systemd-run", "--unit=counter", "sleep", "60")
    labs.net("lab-01", "down", settings=lab.settings)
    try:
        assert lab.ssh("lab-01", "true").returncode == 255
        assert enter("lab-01", "systemctl", "is-active", "counter") == "active\n"
    finally:
        labs.net("lab-01", "up", settings=lab.settings)
    assert lab.ssh("lab-01", "systemctl stop counter").returncode == 0


def test_a_slow_line_is_slow_and_then_fast_again(lab: LabUnderTest) -> None:
    command = "head -c 40000 > /dev/null"
    payload = "x" * 40_000

    def send() -> float:
        import subprocess

        argv = ["ssh", "-F", str(lab.ssh_config), "lab-01", command]
        started = time.monotonic()
        subprocess.run(argv, input=payload, text=True, check=True, timeout=60)
        return time.monotonic() - started

    labs.net("lab-01", 128, settings=lab.settings)
    try:
        slow = send()
    finally:
        labs.net("lab-01", 0, settings=lab.settings)
    assert slow > 2 > send()
    with pytest.raises(UsageError, match="not a state"):
        labs.net("lab-01", "sideways", settings=lab.settings)


def test_a_long_line_delays_every_packet_until_it_is_taken_away(lab: LabUnderTest, enter: Enter) -> None:
    def round_trip_ms() -> float:
        text = enter("lab-01", "ping", "-c3", "-i0.2", lab.settings.gateway).strip()
        return float(text.rpartition(" = ")[2].split("/")[0])

    with labs.slow("lab-01", 50, settings=lab.settings):
        assert 100 <= round_trip_ms() < 200
        assert lab.ssh("lab-01", "true").returncode == 0
    assert round_trip_ms() < 50
    assert not network.exists(lab.settings.delay_links(1)[0])


def used_mib(lab: LabUnderTest) -> list[int]:
    done = lab.ssh("lab-01", "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
    assert done.returncode == 0, done.stdout
    return [int(line) for line in done.stdout.split()]


def test_a_server_occupies_its_gpus_until_it_ends(lab: LabUnderTest) -> None:
    assert used_mib(lab) == [0, 0, 0, 0]
    lab.ssh("lab-01", "systemd-run --setenv=CUDA_VISIBLE_DEVICES=0,1 --unit=vllm-8001 sleep 600")
    assert used_mib(lab) == [60000, 60000, 0, 0]
    pid = lab.ssh("lab-01", "systemctl show -P MainPID vllm-8001").stdout.strip()
    apps = lab.ssh("lab-01", "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits")
    assert apps.stdout.splitlines() == [f"{pid}, 60000", f"{pid}, 60000"]
    unprivileged = lab.ssh(
        "lab-01",
        "setpriv --reuid=nobody --clear-groups nvidia-smi --query-gpu=memory.used "
        "--format=csv,noheader,nounits",
    )
    assert unprivileged.stdout.split() == ["60000", "60000", "0", "0"]
    lab.ssh("lab-01", "systemctl stop vllm-8001")
    assert used_mib(lab) == [0, 0, 0, 0]


def test_what_a_killed_server_leaves_behind_still_holds_its_gpu(lab: LabUnderTest) -> None:
    server = "bash -c 'sleep 601 & exec sleep 602'"
    lab.ssh(
        "lab-01",
        "systemd-run --setenv=CUDA_VISIBLE_DEVICES=3 --property=KillMode=process --unit=vllm-8003 " + server,
    )
    assert used_mib(lab) == [0, 0, 0, 60000]
    lab.ssh(
        "lab-01", "systemctl kill --signal=KILL --kill-who=main vllm-8003; systemctl reset-failed vllm-8003"
    )
    wait_for(lambda: lab.ssh("lab-01", "systemctl is-active vllm-8003").stdout.strip() != "active")
    orphan = lab.ssh("lab-01", "pgrep -f 'sleep 601'").stdout.strip()
    assert used_mib(lab) == [0, 0, 0, 60000]
    lab.ssh("lab-01", f"kill {orphan}")
    wait_for(lambda: used_mib(lab) == [0, 0, 0, 0])


def test_a_shell_and_a_bench_client_hold_no_gpu(lab: LabUnderTest) -> None:
    lab.ssh("lab-01", "systemd-run --setenv=CUDA_VISIBLE_DEVICES=2 --unit=fleetbench-bench-x sleep 600")
    done = lab.ssh(
        "lab-01", "export CUDA_VISIBLE_DEVICES=1; nvidia-smi --query-gpu=memory.used --format=csv,noheader"
    )
    lab.ssh("lab-01", "systemctl stop fleetbench-bench-x")
    assert done.stdout.split("\n")[:4] == ["0 MiB"] * 4


def test_a_driver_can_break_and_cards_can_change(lab: LabUnderTest) -> None:
    labs.gpus("lab-01", "broken=1|2x H200", settings=lab.settings)
    broken = lab.ssh("lab-01", "nvidia-smi")
    assert (broken.returncode, "communicate with the NVIDIA driver" in broken.stdout) == (9, True)
    labs.gpus("lab-01", "", settings=lab.settings)
    assert lab.ssh("lab-01", "nvidia-smi").returncode == 127
    labs.gpus("lab-01", "4x H100", settings=lab.settings)
    assert used_mib(lab) == [0, 0, 0, 0]


def test_amd_hosts_have_amd_tools_only(lab: LabUnderTest) -> None:
    assert lab.ssh("lab-02", "nvidia-smi").returncode == 127
    assert "MI300X" in lab.ssh("lab-02", "amd-smi static").stdout
    assert '"card1"' in lab.ssh("lab-02", "rocm-smi --showmeminfo vram --json").stdout


def test_a_changed_host_key_is_refused(fresh_host: LabUnderTest) -> None:
    assert fresh_host.ssh("lab-01", "true").returncode == 0
    labs.host_key("lab-01", settings=fresh_host.settings)
    refused = fresh_host.ssh("lab-01", "true")
    assert refused.returncode == 255
    assert "Host key verification failed" in refused.stderr


def test_a_host_without_gpus_has_no_gpu_tools(fresh_host: LabUnderTest) -> None:
    assert fresh_host.ssh("lab-01", "command -v nvidia-smi rocm-smi amd-smi").stdout == ""


def test_other_users_of_this_machine_do_not_reach_the_hosts_disks(lab: LabUnderTest) -> None:
    """A host's root may put set-user-ID programs there, which would run as this machine's root."""
    for place in (lab.settings.state, lab.settings.images):
        assert place.parent.stat().st_mode & 0o777 == 0o700


def test_unknown_hosts_are_named(lab: LabUnderTest) -> None:
    with pytest.raises(LabError, match="no such lab host"):
        labs.down(["lab-77"], settings=lab.settings)
    with pytest.raises(UsageError, match="1 to 200"):
        labs.up(0, settings=lab.settings)


def test_down_leaves_nothing_behind(lab: LabUnderTest, tmp_path: Path) -> None:
    settings = own_settings("td")
    before = {
        name: (Path("/proc/sys") / name).read_text() for name in (*machine.INOTIFY, *machine.FORWARDING)
    }
    hosts = labs.up(2, nat=True, inventory=tmp_path, settings=settings)
    assert all(isinstance(host, LabHost) for host in hosts)
    group = cgroups.directories(settings)[0]
    processes = cgroups.processes(settings, "lab-01")
    assert processes
    assert labs.down(["lab-01"], settings=settings) == ("lab-01",)
    assert [host.name for host in labs.listing(settings)] == ["lab-02"]
    assert "lab-01" not in (tmp_path / "lab" / "hosts.toml").read_text()
    assert labs.down(settings=settings) == ("lab-02",)
    assert not group.exists()
    wait_for(lambda: not any(Path("/proc", str(pid)).exists() for pid in processes))  # reaped by init
    assert not list(Path("/run/netns").glob(f"fb-{settings.name}-*"))
    assert not network.exists(settings.bridge)
    assert not network.exists(settings.link(1))
    assert mounts(settings.state) == ()
    assert not settings.state.exists()
    assert not (tmp_path / "lab").exists()
    assert settings.table not in run(["nft", "list", "tables"])
    assert settings.name not in machine.labs()
    assert not list(machine.RUN.glob(f"*{settings.name}[.-]*"))
    after = {name: (Path("/proc/sys") / name).read_text() for name in machine.INOTIFY}
    assert after == {name: before[name] for name in machine.INOTIFY}  # the session's lab still runs
