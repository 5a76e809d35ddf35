"""What cannot work is refused before anything is changed, with host, cause and next step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nouns import BUILD, HOST, facts, gpu, spec, unit

from fleetbench.errors import FleetbenchError, NotPossible, UsageError
from fleetbench.facts.values import File, GpuProcess, HostFacts, Listener, Missing, Venv
from fleetbench.model import Config, Device, ServiceSpec, Workload
from fleetbench.preflight import refuse, refuse_missing_venvs, refuse_prompts, refuse_without_nginx

HALF_MADE = {HOST.venv: Venv(path=HOST.venv, complete=False)}
STRANGER = GpuProcess(pid=77, name="python", used_mib=9000)


def test_a_service_that_can_work_is_not_refused() -> None:
    refuse(HOST, spec(), facts())


@pytest.mark.parametrize(
    ("wanted", "known", "words"),
    [
        (spec(), facts(venvs={}), "is not there"),
        (spec(), facts(venvs=HALF_MADE), "is half-made"),
        (spec(), facts(venvs=Missing("permission denied")), "permission denied"),
        (spec(), facts(files={}), "does not lead to"),
        (
            spec(),
            facts(files={HOST.venv_link: File(path=HOST.venv_link, kind="link", target="venvs/vllm-0.9.2")}),
            "does not lead to",
        ),
        (spec(), facts(accounts={}), "user vllm does not exist"),
        (spec(gpus=(0, 9)), facts(), "GPU 9 does not exist"),
        (spec(), facts(gpus=Missing("NVML: driver/library mismatch")), "driver/library mismatch"),
        (spec(), facts(units={"vllm-8002.service": unit(8002, "1,2")}), "belongs to vllm-8002"),
        (
            spec(),
            facts(units={"vllm-8002.service": unit(8002, "1", active="inactive", sub="dead")}),
            "belongs to vllm-8002",
        ),
        (spec(), facts(gpus=(gpu(0), gpu(1, STRANGER))), "pid 77"),
        (
            spec(),
            facts(listeners=(Listener(address="127.0.0.1", port=8001, pid=5, process="nginx"),)),
            "port 8001 is in use",
        ),
        (
            spec(8003),
            facts(units={"vllm-8002.service": unit(8003, "3", name="vllm-8002.service", active="failed")}),
            "belongs to vllm-8002",
        ),
    ],
)
def test_what_is_missing_or_taken_is_named(wanted: ServiceSpec, known: HostFacts, words: str) -> None:
    with pytest.raises(NotPossible) as caught:
        refuse(HOST, wanted, known)
    assert words in str(caught.value)
    assert str(caught.value).startswith("h100-01: ")
    assert len(str(caught.value).splitlines()) <= 3


def test_parallel_sizes_must_match_the_gpus_given() -> None:
    with pytest.raises(UsageError, match="needs 4 GPUs, got 2"):
        refuse(HOST, spec(config=Config(tp=2, dp=2)), facts())


def test_one_unit_is_one_server_and_never_several_under_one_name() -> None:
    with pytest.raises(UsageError, match="units=2: a unit is one server"):
        refuse(HOST, spec(config=Config(units=2)), facts())


def test_several_servers_need_nginx_and_one_does_not() -> None:
    refuse_without_nginx(HOST, [Config(tp=2), Config(dp=2)], facts())
    refuse_without_nginx(HOST, [Config(units=2)], facts(tools={"nginx": "/usr/sbin/nginx"}))
    with pytest.raises(NotPossible, match="units=2 needs nginx") as caught:
        refuse_without_nginx(HOST, [Config(tp=2), Config(units=2)], facts())
    assert "balancer = true" in caught.value.next_step
    assert "invoke provision --hosts h100-01" in caught.value.next_step


def test_the_unit_itself_and_what_is_borrowed_are_no_obstacle() -> None:
    own = facts(
        units={"vllm-8001.service": unit(8001, "0,1")},
        gpus=(gpu(0, replace(STRANGER, unit="vllm-8001.service")), gpu(1)),
        listeners=(Listener(address="0.0.0.0", port=8001, pid=5, unit="vllm-8001.service"),),
    )
    refuse(HOST, spec(), own)
    sweep = spec(8101, name="vllm-sweep-8101", persistent=False, venv=HOST.venv)
    stopped = facts(units={"vllm-8001.service": unit(8001, "0,1", active="inactive", sub="dead")})
    with pytest.raises(NotPossible):
        refuse(HOST, spec(8002), stopped)  # it will be back at boot
    refuse(HOST, sweep, stopped)  # and by then the sweep unit is gone
    running = facts(units={"vllm-8001.service": unit(8001, "0,1")})
    with pytest.raises(NotPossible):
        refuse(HOST, sweep, running)
    refuse(HOST, sweep, running, ours=("vllm-8001.service",))


def test_a_disabled_stopped_unit_holds_nothing() -> None:
    idle: dict[str, Any] = {"active": "inactive", "sub": "dead", "enabled": "disabled"}
    refuse(HOST, spec(), facts(units={"vllm-8002.service": unit(8002, "0,1", **idle)}))


def test_a_cpu_build_needs_no_gpu() -> None:
    host = replace(HOST, build=replace(BUILD, device=Device.CPU))
    refuse(host, spec(gpus=(), device=Device.CPU, config=Config(tp=2)), facts(gpus=()))


def test_every_refusal_names_a_next_step() -> None:
    with pytest.raises(FleetbenchError) as caught:
        refuse(HOST, spec(), facts(venvs={}))
    assert caught.value.next_step == "invoke provision --hosts h100-01"


OTHER = replace(BUILD, name="old", version="0.10.1.1")
THIRD = replace(BUILD, name="new", version="0.33.0")


def test_a_venv_that_a_sweep_needs_is_named_with_the_command_that_makes_it() -> None:
    refuse_missing_venvs(HOST, [BUILD], facts())
    with pytest.raises(NotPossible) as caught:
        refuse_missing_venvs(HOST, [BUILD, OTHER, THIRD], facts())
    assert caught.value.what == "no venv of build old, new"
    assert "/opt/vllm/venvs/vllm-0.10.1.1 is not there" in caught.value.cause
    assert caught.value.next_step == "invoke provision --hosts h100-01 --build old,new"


def test_the_hosts_own_venv_is_needed_too_because_its_client_measures() -> None:
    path = replace(HOST, build=OTHER).venv
    only_other = facts(venvs={path: Venv(path=path, complete=True)})
    with pytest.raises(NotPossible) as caught:
        refuse_missing_venvs(HOST, [OTHER], only_other)
    assert caught.value.next_step == "invoke provision --hosts h100-01"
    with pytest.raises(NotPossible, match="is not there"):
        refuse_missing_venvs(HOST, [], facts(venvs=HALF_MADE))
    with pytest.raises(NotPossible, match="cannot see the venvs"):
        refuse_missing_venvs(HOST, [], facts(venvs=Missing("permission denied")))


def test_a_client_that_cannot_read_prompts_is_refused_where_it_would_have_to() -> None:
    custom = Workload(dataset="custom", prompts="p.jsonl")
    with pytest.raises(NotPossible) as caught:
        refuse_prompts(HOST, [Workload(), custom], facts())
    assert "has no pandas" in caught.value.cause
    refuse_prompts(HOST, [Workload(), Workload(dataset="sharegpt", prompts="s.json")], facts())
    able = {HOST.venv: Venv(path=HOST.venv, packages={"pandas": "2.3.0"}, complete=True)}
    refuse_prompts(HOST, [custom], facts(venvs=able))
