"""The probe on real hosts: real systemd, real cgroups, stand-ins for the GPUs only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetbench.facts.probe import read
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.lab import lab, requirements, settings
from fleetbench.model import Build, Host
from fleetbench.transport.base import Session, bash, check
from fleetbench.transport.open import open_session

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(requirements.missing()), reason=requirements.missing()),
]
UNIT = """\
[Unit]
Description=Stand-in of vLLM on port 8001
[Service]
Type=exec
Environment=FLEETBENCH_SPEC={spec} FLEETBENCH_PORT=8001 "FLEETBENCH_GPUS=0,1"
Environment=CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1
ExecStart=/usr/bin/python3 -m http.server 8001
[Install]
WantedBy=multi-user.target
"""
PATH = "/etc/systemd/system/vllm-8001.service"


def own_lab() -> settings.Settings:
    """A lab beside the operator's own."""
    name = "t-facts"
    return replace(settings.from_environment(), name=name, subnet=settings.derived_subnet(name))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    own = own_lab()
    inventory = tmp_path_factory.mktemp("inventory")
    lab.up(1, gpus=["driver=570.172.08 cuda=12.8|4x H100"], inventory=inventory, settings=own)
    try:
        host = Host(
            name="lab-01",
            build=Build(name="cuda", version="0.10.1.1"),
            ssh_config=str(next(Path(inventory).rglob("ssh_config"))),
        )
        opened = open_session(host)
        yield opened
        opened.close()
    finally:
        lab.down(settings=own)


def facts_of(session: Session) -> HostFacts:
    return read(session, paths=(PATH,), packages=("rocky-release", "python3.12"))


def test_a_bare_host_is_described_in_one_round_trip(session: Session) -> None:
    before = session.round_trips
    facts = facts_of(session)
    assert session.round_trips == before + 1
    assert dict(facts.missing) == {}
    assert not isinstance(facts.os, Missing)
    assert (facts.os.id, facts.os.package_manager, facts.root) == ("rocky", "dnf", True)
    assert set(facts.packages) == {"rocky-release"}
    assert not isinstance(facts.gpus, Missing)
    assert [(gpu.name, gpu.cuda) for gpu in facts.gpus] == [("NVIDIA H100 80GB HBM3", "12.8")] * 4
    assert not isinstance(facts.topology, Missing)
    assert facts.topology.links[0][1] == "NV18"
    assert not isinstance(facts.listeners, Missing)
    assert {(one.port, one.unit) for one in facts.listeners} >= {(22, "ssh.service")}
    assert facts.units == {}


def test_a_unit_is_followed_from_its_file_to_its_process_and_port(session: Session) -> None:
    session.put(UNIT.format(spec="aaaaaaaaaaaa").encode(), PATH)
    check(session, bash("systemctl daemon-reload && systemctl enable --now vllm-8001"))
    session.put(UNIT.format(spec="bbbbbbbbbbbb").encode(), PATH)
    for _ in range(50):
        facts = facts_of(session)
        assert not isinstance(facts.listeners, Missing)
        if any(one.port == 8001 for one in facts.listeners):
            break
    assert not isinstance(facts.units, Missing)
    unit = facts.units["vllm-8001.service"]
    assert unit.running
    assert (unit.spec, unit.running_spec) == ("bbbbbbbbbbbb", "aaaaaaaaaaaa")
    assert (unit.port, unit.gpus, unit.enabled, unit.need_reload) == (8001, "0,1", "enabled", True)
    (listener,) = [one for one in facts.listeners if one.port == 8001]
    assert (listener.pid, listener.unit) == (unit.main_pid, "vllm-8001.service")
    assert facts.files[PATH].text == UNIT.format(spec="bbbbbbbbbbbb")


def test_a_stopped_and_disabled_unit_is_still_seen(session: Session) -> None:
    check(session, bash("systemctl daemon-reload && systemctl disable --now vllm-8001"))
    facts = facts_of(session)
    assert not isinstance(facts.units, Missing)
    unit = facts.units["vllm-8001.service"]
    assert (unit.active, unit.enabled, unit.running_spec, unit.spec) == (
        "inactive",
        "disabled",
        "",
        "bbbbbbbbbbbb",
    )


def test_a_main_process_that_wiped_its_environment_is_known_by_its_helper(session: Session) -> None:
    """As vLLM does when it renames itself; the stand-in starts again without any environment."""
    start = "systemd-run --unit=vllm-8002 --collect --setenv=FLEETBENCH_SPEC=cccccccccccc"
    check(session, bash(f"{start} bash -c 'sleep 300 & exec env -i sleep 301'; sleep 0.5"))
    facts = facts_of(session)
    check(session, bash("systemctl stop vllm-8002"))
    assert not isinstance(facts.units, Missing)
    assert facts.units["vllm-8002.service"].running_spec == "cccccccccccc"


def test_a_process_on_the_gpus_is_named_with_its_unit(session: Session) -> None:
    check(session, bash("systemd-run --unit=fleetbench-job --collect sleep 300"))
    held = "mkdir -p /run/fake-gpu-apps; p=$(systemctl show -P MainPID fleetbench-job)"
    check(session, bash(f"{held}; echo 2 5000 sleeper > /run/fake-gpu-apps/$p"))
    facts = facts_of(session)
    check(session, bash("systemctl stop fleetbench-job"))
    assert not isinstance(facts.gpus, Missing)
    (process,) = facts.gpus[2].processes
    assert (process.unit, process.used_mib) == ("fleetbench-job.service", 5000)
    assert not isinstance(facts.units, Missing)
    assert facts.units["fleetbench-job.service"].enabled == "transient"


def test_a_broken_driver_hides_nothing_else(session: Session) -> None:
    lab.gpus("lab-01", "broken=1|4x H100", settings=own_lab())
    facts = facts_of(session)
    assert isinstance(facts.gpus, Missing)
    assert "NVIDIA driver" in facts.gpus.reason
    assert not isinstance(facts.units, Missing)
