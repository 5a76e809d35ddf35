"""What serves a trial: one server as ever, or several on GPU sets and ports of their own behind nginx."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nouns import BUILD, HOST, MODEL, facts

from fleetbench.errors import NotPossible, UsageError
from fleetbench.facts.values import HostFacts, Topology
from fleetbench.model import Config, Device, GpuSet, TrialState, Workload
from fleetbench.results.rows import TrialRow
from fleetbench.sweep.arrangement import Arrangement, arrange, as_json, streams
from fleetbench.units import environment, render, spec_hash

NGINX = {"nginx": "/usr/sbin/nginx"}


def row(config: Config, **changed: Any) -> TrialRow:
    whole = TrialRow(
        run_id="r",
        number=1,
        host=HOST.name,
        gpus=GpuSet((0, 1, 2, 3)),
        port=8101,
        config=config,
        workloads=(Workload(max_concurrency=64), Workload(num_prompts=500)),
        repeats=1,
        state=TrialState.PENDING,
        member_ports=(8102, 8104),
    )
    return replace(whole, **changed)


def two(known: HostFacts | None = None, **changed: Any) -> Arrangement:
    """tp=2 units=2 on four GPUs."""
    return arrange(HOST, MODEL, row(Config(tp=2, units=2), **changed), known or facts(tools=NGINX, cpus=32))


def test_one_server_is_its_own_front_and_needs_no_nginx() -> None:
    wanted = arrange(HOST, MODEL, row(Config(tp=4), member_ports=()), facts())
    (member,) = wanted.members
    assert wanted.balancer is None
    assert (wanted.unit, wanted.units, wanted.port) == (member.unit, (member.unit,), 8101)
    assert (wanted.text, wanted.spec_hash) == (render(member), spec_hash(member))
    assert wanted.evidence == {"unit.service": wanted.text}
    assert wanted.journals({member.unit: "abc"}) == {"server.journal": "abc"}
    assert wanted.role(member.unit) == ""


def test_several_have_gpu_sets_and_ports_of_their_own_and_only_the_balancer_is_reached_from_outside() -> None:
    wanted = two()
    assert [(m.name, m.port, str(m.gpus), m.bind) for m in wanted.members] == [
        ("vllm-sweep-8102", 8102, "0,1", "127.0.0.1"),
        ("vllm-sweep-8104", 8104, "2,3", "127.0.0.1"),
    ]
    assert {(m.config.tp, m.config.units, m.config.max_model_len) for m in wanted.members} == {(2, 1, 65536)}
    assert wanted.balancer is not None
    assert (wanted.unit, wanted.port, wanted.bind) == ("vllm-sweep-8101.service", 8101, "0.0.0.0")
    assert wanted.balancer.members == (8102, 8104)
    assert (wanted.balancer.workers, wanted.balancer.streams) == (16, 500)
    assert wanted.address == "127.0.0.1"
    assert wanted.units == tuple(f"vllm-sweep-{port}.service" for port in (8101, 8102, 8104))


def test_gpu_sets_follow_the_links_as_the_plan_did() -> None:
    far, near = "SYS", "NV18"
    links = (("X", far, near, far), (far, "X", far, near), (near, far, "X", far), (far, near, far, "X"))
    linked = facts(tools=NGINX, topology=Topology(links=links))
    assert [str(member.gpus) for member in two(linked).members] == ["0,2", "1,3"]


def test_servers_that_start_together_do_not_compile_into_the_same_cache() -> None:
    first, second = two().members
    places = [dict(environment(member))["VLLM_CACHE_ROOT"] for member in (first, second)]
    assert places == ["/opt/vllm/cache/sweep/vllm", "/opt/vllm/cache/sweep-2/vllm"]
    alone = arrange(HOST, MODEL, row(Config(tp=4), member_ports=()), facts()).members[0]
    assert dict(environment(alone))["VLLM_CACHE_ROOT"] == places[0]


def test_the_hash_changes_with_every_member_and_with_the_balancer() -> None:
    other_port, other_load = two(member_ports=(8102, 8105)), two(workloads=(Workload(max_concurrency=9),))
    assert len({two().spec_hash, other_port.spec_hash, other_load.spec_hash}) == 3
    assert two().spec_hash == two().spec_hash


def test_everything_that_was_served_is_kept_under_its_name() -> None:
    wanted = two()
    names = ["vllm-sweep-8101.service", "vllm-sweep-8101.conf"]
    names += ["vllm-sweep-8102.service", "vllm-sweep-8104.service"]
    assert list(wanted.evidence) == names
    assert wanted.text.count("# /run/") == 4
    began = {unit: unit[-12:-8] for unit in wanted.units}
    assert wanted.journals(began) == {f"vllm-sweep-{port}.journal": port for port in ("8101", "8102", "8104")}
    assert as_json(wanted, began)[1] == {
        "unit": "vllm-sweep-8104.service",
        "port": 8104,
        "gpus": [2, 3],
        "invocation": "8104",
    }


def test_a_message_says_which_of_several_it_is_about() -> None:
    wanted = two()
    assert wanted.role("vllm-sweep-8101.service") == "the balancer on port 8101"
    assert wanted.role("vllm-sweep-8104.service") == "server 2 of 2 (GPU 2,3, port 8104)"
    assert wanted.role("vllm-8001.service") == ""


@pytest.mark.parametrize(
    ("config", "known", "error", "words"),
    [
        (Config(tp=2, units=2), facts(), NotPossible, "needs nginx"),
        (Config(tp=4, units=2), facts(tools=NGINX), UsageError, "needs 8 GPUs, got 4"),
        (Config(tp=1, units=3), facts(tools=NGINX), UsageError, "needs 3 ports beside the balancer's, got 2"),
    ],
)
def test_what_is_lacking_is_named(
    config: Config, known: HostFacts, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        arrange(HOST, MODEL, row(config), known)


def test_servers_on_a_cpu_host_have_no_gpus() -> None:
    host = replace(HOST, build=replace(BUILD, device=Device.CPU))
    wanted = arrange(host, MODEL, row(Config(units=2), gpus=GpuSet()), facts(tools=NGINX, gpus=()))
    assert [str(member.gpus) for member in wanted.members] == ["", ""]
    assert wanted.role(wanted.members[1].unit) == "server 2 of 2 (port 8104)"


def test_all_requests_may_be_in_flight_where_the_concurrency_is_open() -> None:
    assert streams((Workload(max_concurrency=8), Workload(num_prompts=3, max_concurrency=64))) == 64
    assert streams((Workload(max_concurrency=8), Workload(num_prompts=700))) == 700
