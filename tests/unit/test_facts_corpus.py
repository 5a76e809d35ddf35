"""GPU tables that people pasted, read where they stand: right values, or a stated Missing.

The right answers are in the corpus's index; the checks here are keyed by its case ids.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from facts_answers import BARE, SHARED, Ended, facts_of

from fleetbench.facts import amd, nvidia, topology
from fleetbench.facts.values import Gpu, Missing, Topology

CORPUS = SHARED / "corpus"
CAPTURES = SHARED / "captures" / "gpu"
KINDS = ("nvidia-smi", "nvidia-smi-error", "rocm-smi", "amd-smi", "topo")
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside the repository")


def memory(gpus: tuple[Gpu, ...]) -> list[tuple[int | None, int | None]]:
    return [(gpu.used_mib, gpu.memory_mib) for gpu in gpus]


def one_table(text: str) -> nvidia.Table:
    (table,) = nvidia.tables(text)
    return table


def c01(text: str) -> None:
    table = one_table(text)
    assert (table.driver, table.cuda, table.idle) == ("575.57.08", "12.9", True)
    assert [gpu.name for gpu in table.gpus] == ["NVIDIA GeForce RTX 3090"] * 2
    assert memory(table.gpus) == [(0, 24576)] * 2
    assert [gpu.processes for gpu in table.gpus] == [(), ()]


def c02(text: str) -> None:
    table = one_table(text)
    assert [gpu.name for gpu in table.gpus] == ["NVIDIA H100 80GB HBM3"] * 8
    assert [gpu.used_mib for gpu in table.gpus] == [72770, *[70690] * 6, 70210]
    assert {gpu.mig for gpu in table.gpus} == {"Disabled"}
    assert table.idle is False, "an empty process list is not a statement that nothing runs"


def c05(text: str) -> None:
    (gpu,) = one_table(text).gpus
    assert (gpu.name, gpu.used_mib, gpu.memory_mib) == ("Tesla V100-SXM2-32GB", 31589, 32768)
    assert gpu.ecc == "Disabled"
    assert [(one.pid, one.name, one.used_mib) for one in gpu.processes] == [(299381, "python", 31574)]


def c10(text: str) -> None:
    table = one_table(text)
    assert (table.driver, table.cuda) == ("591.97", "13.1")
    (gpu,) = table.gpus
    assert (gpu.name, gpu.used_mib, gpu.memory_mib) == ("NVIDIA GeForce RTX 5070 ...", 804, 8151)


def c11(text: str) -> None:
    table = one_table(text)
    assert table.driver == "566.14"
    (gpu,) = table.gpus
    assert (gpu.name, gpu.used_mib, gpu.memory_mib) == ("NVIDIA GeForce RTX 3080", 867, 10240)
    assert [(one.pid, one.used_mib) for one in gpu.processes] == [(35, None)]


def c14(text: str) -> None:
    assert nvidia.tables(text) == ()
    ended = dict.fromkeys(("nvidia_query", "nvidia_table", "nvidia_apps", "nvidia_topo"), Ended(text, 18))
    gpus = facts_of(BARE, ended).gpus
    assert isinstance(gpus, Missing)
    assert "Driver/library version mismatch" in gpus.reason
    assert "580.173" in gpus.reason


def c17(text: str) -> None:
    gpus = one_table(text).gpus
    assert [gpu.index for gpu in gpus] == [6, 7]
    assert memory(gpus) == [(0, 40537)] * 2
    assert {gpu.name for gpu in gpus} == {"A100-SXM4-40GB"}
    assert [gpu.mig for gpu in gpus] == ["Disabled", "Disabled*"]


def c18(text: str) -> None:
    table = one_table(text)
    assert (table.driver, table.cuda) == ("575.57.08", "12.9")
    first, second = table.gpus
    assert (first.name, first.used_mib, first.memory_mib) == ("NVIDIA H100 80GB HBM3", 0, 81559)
    assert (second.name, second.used_mib, second.memory_mib) == ("NVIDIA H100 80GB HBM3", None, None)


def c19(text: str) -> None:
    first, second = nvidia.tables(text)
    assert [gpu.name for gpu in (*first.gpus, *second.gpus)] == ["NVIDIA L4"] * 4
    assert [gpu.used_mib for gpu in first.gpus] == [20313, 20305]
    assert [gpu.used_mib for gpu in second.gpus] == [20065, 20063]
    assert [(one.pid, one.name) for one in first.gpus[1].processes] == [(1082, "ray::RayWorkerWrapper")]


def c22(text: str) -> None:
    (gpus,) = amd.rocm_tables(text)
    assert isinstance(gpus, tuple)
    assert [(gpu.name, gpu.compute_capability) for gpu in gpus] == [("AMD Instinct MI210", "gfx90a")] * 2
    assert memory(gpus) == [(0, 65520)] * 2
    assert [gpu.uuid for gpu in gpus] == ["", ""], "GUID is not a UUID"


def c23(text: str) -> None:
    (gpus,) = amd.rocm_tables(text)
    assert isinstance(gpus, tuple)
    assert len(gpus) == 8
    assert [gpu.power_limit_w for gpu in gpus] == [560.0, None] * 4, (
        "every second device shares its board's cap"
    )
    assert gpus[2].used_mib == round(65520 * 0.23)


def c25(text: str) -> None:
    first, second = amd.rocm_tables(text)
    assert isinstance(first, tuple)
    assert [gpu.power_limit_w for gpu in first] == [500.0, None] * 4
    assert memory(first) == [(None, None)] * 8
    assert second == Missing("rocm-smi: WARNING: No AMD GPUs specified")


def c27(text: str) -> None:
    (gpu,) = amd.smi_table(text)
    assert (gpu.name, gpu.used_mib, gpu.memory_mib, gpu.power_limit_w) == ("0x1586", 1013, 65536, None)


def c29(text: str) -> None:
    topo = topology.parse(text)
    assert isinstance(topo, Topology)
    assert topo.links == tuple(tuple("X" if i == j else "NV18" for j in range(8)) for i in range(8))
    assert topo.numa_nodes == (0, 0, 0, 0, 1, 1, 1, 1)
    assert topology.parse(text.replace("[4m", "\x1b[4m").replace("[0m", "\x1b[0m")) == topo


def c31(text: str) -> None:
    topo = topology.parse(text)
    assert isinstance(topo, Topology)
    assert topo.links[2] == ("NV16", "NV16", "X", "NV16")
    assert topology.weak_links(topo) == ("GPU2: NV16, others NV18",)


def c33(text: str) -> None:
    topo = topology.parse(text)
    assert isinstance(topo, Topology)
    assert topo.links == tuple(tuple("X" if i == j else "XGMI" for j in range(8)) for i in range(8))
    assert topo.numa_nodes == (0, 0, 0, 0, 1, 1, 1, 1)


def c34(text: str) -> None:
    (gpu,) = amd.static(text)
    assert (gpu.index, gpu.name, gpu.compute_capability) == (0, "AMD Instinct MI210", "gfx90a")


CHECKS: dict[str, Callable[[str], None]] = {
    name.upper(): check for name, check in globals().items() if name[0] == "c" and name[1:].isdigit()
}


def index() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "index.tsv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["kind"] in KINDS]


@pytest.mark.parametrize("row", index(), ids=lambda row: f"{row['id']}-{row['kind']}")
def test_a_pasted_gpu_table_is_read_as_the_index_says(row: dict[str, str]) -> None:
    assert row["id"] in CHECKS, f"the index has a new case: {row['expected']}"
    CHECKS[row["id"]]((CORPUS / row["file"]).read_text("utf-8"))


def captured(name: str) -> Ended:
    base = CAPTURES / "h200x2" / "nvidia-smi" / name
    status = int(base.with_suffix(".rc").read_text("utf-8").split(":")[0])
    return Ended(
        base.with_suffix(".out").read_text("utf-8"), status, base.with_suffix(".err").read_text("utf-8")
    )


@pytest.mark.parametrize(("name", "used"), [("table", 0), ("busy", 4715)])
def test_the_table_of_a_real_driver_is_read(name: str, used: int) -> None:
    table = one_table(captured(name).out)
    assert (table.driver, table.cuda) == ("580.159.04", "13.0")
    assert [(gpu.name, gpu.used_mib, gpu.memory_mib) for gpu in table.gpus] == [
        ("NVIDIA H200", used, 143771)
    ] * 2
    assert [len(gpu.processes) for gpu in table.gpus] == ([0, 0] if used == 0 else [1, 1])
    assert table.idle is (used == 0)


def test_memory_that_the_table_cut_short_is_unknown() -> None:
    text = (CAPTURES / "h200x2" / "c-30b-tp2.smi.txt").read_text("utf-8")
    gpus = one_table(text).gpus
    assert [gpu.used_mib for gpu in gpus] == [134621, 134621]
    assert [one.used_mib for gpu in gpus for one in gpu.processes] == [None, None]
    assert [one.name for gpu in gpus for one in gpu.processes] == ["VLLM::Worker_TP0", "VLLM::Worker_TP1"]


@pytest.mark.parametrize(("name", "reason"), [("q3", "not a valid field"), ("q7", "No devices were found")])
def test_what_a_real_driver_refuses_is_missing_when_the_table_is_no_help(name: str, reason: str) -> None:
    gpus = facts_of(BARE, {"nvidia_query": captured(name), "nvidia_table": Ended("", 9)}).gpus
    assert isinstance(gpus, Missing)
    assert reason in gpus.reason


@pytest.mark.parametrize("folder", ["h200", "h200x2"])
def test_the_topology_of_a_real_driver_is_read(folder: str) -> None:
    topo = topology.parse((CAPTURES / folder / "fx" / "topo.txt").read_text("utf-8"))
    expected = Topology(links=(("X",),), numa_nodes=(0,))
    if folder == "h200x2":
        expected = Topology(links=(("X", "NV18"), ("NV18", "X")), numa_nodes=(0, 0))
    assert topo == expected


def test_every_capture_is_survived_by_every_parser(tmp_path: Path) -> None:
    for path in sorted((CAPTURES / "h200x2" / "nvidia-smi").glob("*.out")):
        text = path.read_text("utf-8", "replace")
        nvidia.tables(text), nvidia.query(text), nvidia.apps(text, {}), topology.parse(text)
        amd.static(text), amd.rocm_json(text), amd.rocm_tables(text), amd.smi_table(text)
