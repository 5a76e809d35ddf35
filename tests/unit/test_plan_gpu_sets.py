"""Which GPUs an engine gets, from the topology where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST, MODEL, facts
from plan_cases import saved_facts

from fleetbench.errors import UsageError
from fleetbench.facts.values import Missing, Topology
from fleetbench.model import Config, GpuSet, Sweep
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.plan.hardware import catalogue, devices, facts_from_words
from fleetbench.plan.schedule import Place, gpu_set, trials

ALL = GpuSet(tuple(range(8)))


def topology(pairs: dict[tuple[int, int], str], nodes: tuple[int, ...], other: str = "SYS") -> Topology:
    """A topology from the links that are better than `other`."""
    count = len(nodes)
    rows = tuple(
        tuple("X" if a == b else pairs.get((min(a, b), max(a, b)), other) for b in range(count))
        for a in range(count)
    )
    return Topology(links=rows, numa_nodes=nodes)


# Bridges of NVLink between cards that are not neighbours: 0-3, 1-2, 4-7, 5-6.
BRIDGED = topology({(0, 3): "NV12", (1, 2): "NV12", (4, 7): "NV12", (5, 6): "NV12"}, (0, 0, 0, 0, 1, 1, 1, 1))


def indices(config: Config, known: Topology | Missing | None, available: GpuSet = ALL) -> list[str]:
    """The sets as text."""
    return [str(one) for one in gpu_sets(config, available, known)]


def test_without_a_topology_the_first_gpus_are_taken() -> None:
    assert indices(Config(tp=2), None) == ["0,1"]
    assert indices(Config(tp=2), Missing("no nvidia-smi")) == ["0,1"]
    assert indices(Config(tp=2, units=4), None) == ["0,1", "2,3", "4,5", "6,7"]


def test_gpus_behind_a_switch_are_taken_from_the_front_and_from_one_numa_node() -> None:
    known = saved_facts("8xh100").topology
    assert isinstance(known, Topology)
    assert indices(Config(tp=4), known) == ["0,1,2,3"]
    assert indices(Config(tp=2, units=2), known) == ["0,1", "2,3"]
    assert indices(Config(tp=2), known, GpuSet((3, 4, 5))) == ["4,5"]  # 3 is on the other node


def test_a_bridge_wins_over_neighbouring_numbers() -> None:
    assert indices(Config(tp=2), BRIDGED) == ["0,3"]
    assert sorted(indices(Config(tp=2, units=4), BRIDGED)) == ["0,3", "1,2", "4,7", "5,6"]
    assert indices(Config(tp=1), BRIDGED) == ["0"]


def test_tensor_parallel_neighbours_count_before_data_parallel_ones() -> None:
    # Pairs 0-1 and 2-3 are linked; a set of four in order has both pairs as tensor parallel groups.
    known = topology({(2, 3): "NV12", (4, 5): "NV12"}, (0,) * 6)
    assert indices(Config(tp=2, dp=2), known, GpuSet(tuple(range(6)))) == ["2,3,4,5"]


def test_one_numa_node_is_preferred_among_equal_links() -> None:
    known = topology({}, (0, 1, 0, 1), other="NODE")
    assert indices(Config(tp=2), known, GpuSet((0, 1, 2, 3))) == ["0,2"]


def test_too_few_gpus_or_a_topology_of_fewer_give_what_there_is() -> None:
    assert indices(Config(tp=16), BRIDGED) == [str(ALL)]
    assert indices(Config(tp=2), topology({(0, 1): "NV12"}, (0, 0)), GpuSet((4, 5, 6))) == ["4,5"]


def test_a_trial_gets_the_gpus_of_all_its_units() -> None:
    assert gpu_set(Config(tp=2, units=2), ALL, BRIDGED) == GpuSet((0, 1, 2, 3))
    place = Place.of(HOST, facts(topology=topology({(1, 3): "NV12"}, (0, 0, 0, 0))))
    (trial,) = trials(Sweep(name="s", parallel=(Config(tp=2),)), MODEL, [place])
    assert trial.gpus == GpuSet((1, 3))


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("8x H100 80GB", 8, "NVIDIA H100 80GB HBM3"),
        ("8×H200", 8, "NVIDIA H200"),
        ("2 h100 pcie", 2, "NVIDIA H100 PCIe"),
        ("1x NVIDIA A100 40GB", 1, "NVIDIA A100-SXM4-40GB"),
        ("4x Tesla V100-PCIE-16GB", 4, "Tesla V100-PCIE-16GB"),
        ("1x AMD Instinct MI210", 1, "AMD Instinct MI210"),
        ("1x RTX 4090", 1, "NVIDIA GeForce RTX 4090"),
    ],
)
def test_gpus_can_be_named_in_a_few_words(text: str, count: int, name: str) -> None:
    gpus = facts_from_words(text).gpus
    assert gpus
    assert (len(gpus), gpus[0].name) == (count, name)


@pytest.mark.parametrize(
    "text", ["", "0x H100", "8x", "8x H1000", "99999x H100", "8x \x1b[31mH100", "-1x H100"]
)
def test_words_that_name_no_gpus_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match="names no GPUs") as caught:
        facts_from_words(text)
    assert "h200" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_torch_sees_less_than_the_driver_prints() -> None:
    seen = {gpu.name: device.visible_gib for gpu, device in devices(saved_facts("8xh200"))}
    assert seen == {"NVIDIA H200": pytest.approx(139.80, abs=0.005)}
    for card in catalogue():
        assert 0.98 <= card.visible_mib / card.memory_mib <= 1.0
        assert min(card.bandwidth_gb_s, card.tflops, card.link_gb_s) > 0


def test_a_gpu_that_nobody_knows_is_guessed_from_what_the_driver_prints() -> None:
    known = facts_from_words("1x H100")
    assert known.gpus
    ((_, device),) = devices(replace(known, gpus=(replace(known.gpus[0], name="New", memory_mib=100_000),)))
    assert device.visible_gib == pytest.approx(100_000 * 0.99 / 1024)
