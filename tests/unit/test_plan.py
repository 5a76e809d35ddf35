"""From a named sweep to trials on hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST, MODEL, facts, gpu, unit

from fleetbench.errors import NotPossible, UsageError
from fleetbench.facts.values import Listener, Missing
from fleetbench.model import Config, Device, GpuSet, Sweep
from fleetbench.plan.candidates import candidates
from fleetbench.plan.schedule import Place, free_port, gpu_name, gpu_set, trials


def test_all_means_every_power_of_two_that_fits() -> None:
    found = candidates(Sweep(name="s"), MODEL, 8)
    assert [(c.tp, c.dp) for c in found] == [
        (1, 1),
        (2, 1),
        (1, 2),
        (4, 1),
        (2, 2),
        (1, 4),
        (8, 1),
        (4, 2),
        (2, 4),
        (1, 8),
    ]
    assert {c.max_model_len for c in found} == {65536}


def test_a_strategy_is_all_gpus_that_one_way_at_each_length() -> None:
    sweep = Sweep(name="s", parallel=("tp", "pp"), max_model_len=(2048, 8192))
    assert [c.label for c in candidates(sweep, MODEL, 4)] == [
        "tp=4 dp=1 len=2048",
        "tp=1 dp=1 pp=4 len=2048",
        "tp=4 dp=1 len=8192",
        "tp=1 dp=1 pp=4 len=8192",
    ]


def test_a_configuration_of_its_own_length_keeps_it_and_appears_once() -> None:
    sweep = Sweep(name="s", parallel=(Config(max_model_len=512), Config()), max_model_len=(1024, 2048))
    assert [c.max_model_len for c in candidates(sweep, MODEL, 1)] == [512, 1024, 2048]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown strategy"):
        candidates(Sweep(name="s", parallel=("sp",)), MODEL, 2)


def test_hosts_of_one_kind_share_the_trials_and_others_do_all() -> None:
    h100 = [Place.of(replace(HOST, name=f"h{i}"), facts()) for i in range(2)]
    other = Place.of(
        replace(HOST, name="h200"), facts(gpus=tuple(replace(gpu(i), name="NVIDIA H200") for i in range(4)))
    )
    sweep = Sweep(name="s", parallel=(Config(), Config(tp=2), Config(tp=4)))
    found = trials(sweep, MODEL, [*h100, other])
    assert [(t.number, t.host, t.config.tp, str(t.gpus)) for t in found] == [
        (1, "h0", 1, "0"),
        (2, "h1", 2, "0,1"),
        (3, "h0", 4, "0,1,2,3"),
        (4, "h200", 1, "0"),
        (5, "h200", 2, "0,1"),
        (6, "h200", 4, "0,1,2,3"),
    ]


def test_each_configuration_is_tried_once_before_any_is_started_again() -> None:
    place = Place.of(HOST, facts())
    sweep = Sweep(name="s", parallel=(Config(), Config(tp=2)), starts=2)
    found = trials(sweep, MODEL, [place])
    assert [(t.number, t.config.tp) for t in found] == [(1, 1), (2, 2), (3, 1), (4, 2)]


def test_a_trial_that_needs_more_gpus_than_there_are_gets_all_of_them() -> None:
    assert gpu_set(Config(tp=8), GpuSet((0, 1))) == GpuSet((0, 1))


def test_the_first_free_port_is_taken_and_a_sweep_units_own_counts_as_free() -> None:
    held = facts(listeners=(Listener(address="0.0.0.0", port=8101, pid=3),))
    assert free_port(HOST, held) == 8102
    left = replace(held, units={"vllm-sweep-8101.service": unit(8101, "0", name="vllm-sweep-8101.service")})
    assert free_port(HOST, left) == 8101
    with pytest.raises(NotPossible):
        free_port(replace(HOST, sweep_ports=(8101, 8101)), held)


def test_each_of_several_servers_gets_a_free_port_behind_the_balancers() -> None:
    listeners = (Listener(address="0.0.0.0", port=8103, pid=3),)
    place = Place.of(HOST, facts(listeners=listeners))
    sweep = Sweep(name="s", parallel=(Config(tp=2), Config(units=3)))
    one, three = trials(sweep, MODEL, [place])
    assert (one.port, one.member_ports) == (8101, ())
    assert (three.port, three.member_ports) == (8101, (8102, 8104, 8105))


def test_a_plan_with_several_servers_is_refused_where_there_are_too_few_ports() -> None:
    sweep = Sweep(name="s", parallel=(Config(units=3),))
    narrow = replace(HOST, sweep_ports=(8101, 8103))
    with pytest.raises(NotPossible, match="needs 4 ports, and of 8101 to 8103 3 are free"):
        trials(sweep, MODEL, [Place.of(narrow, facts())])


def test_a_host_whose_gpus_cannot_be_seen_is_refused_with_the_reason() -> None:
    with pytest.raises(NotPossible, match="no GPU can be seen"):
        Place.of(HOST, facts(gpus=Missing("driver/library version mismatch")))


@pytest.mark.parametrize(
    ("text", "indices"), [("0,1", (0, 1)), ("0-3", (0, 1, 2, 3)), ("3,0-1,1", (0, 1, 3)), ("", ())]
)
def test_gpu_sets_are_read_in_any_order(text: str, indices: tuple[int, ...]) -> None:
    assert GpuSet.parse(text).indices == indices


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "-1", "0;1", "9999"])
def test_nonsense_is_no_gpu_set(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a GPU|backwards"):
        GpuSet.parse(text)


def test_a_build_that_serves_from_processors_names_no_gpu() -> None:
    """The GPUs of such a host (in a lab: stand-ins) have no part in what is measured."""
    seen = facts()
    on_gpus, on_processors = (
        replace(HOST, build=replace(HOST.build, device=device)) for device in (Device.CUDA, Device.CPU)
    )
    assert gpu_name(on_gpus, seen) == seen.gpu_name
    assert seen.gpu_name
    assert gpu_name(on_processors, seen) == ""
