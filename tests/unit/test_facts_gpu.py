"""GPUs and topology from the tools' texts, fresh fixtures modelled on captured ones."""

from __future__ import annotations

import pytest
from facts_answers import BARE, NVIDIA, Ended, facts_of, fixture

from fleetbench.facts import amd, nvidia, topology
from fleetbench.facts.values import Gpu, GpuProcess, Missing, Topology

LOST = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"


def gpus_of(*parts: dict[str, str] | dict[str, Ended] | dict[str, str | Ended]) -> tuple[Gpu, ...]:
    gpus = facts_of(BARE, *parts).gpus
    assert not isinstance(gpus, Missing), gpus
    return gpus


def test_a_gpu_carries_everything_that_nvidia_smi_says() -> None:
    first = gpus_of(NVIDIA)[0]
    assert first == Gpu(
        index=0,
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-5d1c00aa-7be2-4c19-9f30-0c2b6e4d7f10",
        memory_mib=81559,
        used_mib=71204,
        driver="570.172.08",
        cuda="12.8",
        compute_capability="9.0",
        power_limit_w=700.0,
        mig="Disabled",
        ecc="Enabled",
        bus_id="00000000:1B:00.0",
        numa_node=0,
        processes=(GpuProcess(pid=40211, name="VLLM::Worker_TP0", used_mib=71190, unit="vllm-8001.service"),),
    )


def test_all_gpus_come_with_their_numa_node_and_the_pending_mig_change() -> None:
    gpus = gpus_of(NVIDIA)
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert gpus[5].mig == "Disabled*"


def test_a_process_of_a_login_is_named_with_the_unit_that_root_can_stop() -> None:
    (stranger,) = gpus_of(NVIDIA)[7].processes
    assert (stranger.pid, stranger.unit, stranger.used_mib) == (51990, "user@1004.service", None)
    assert stranger.name == "/home/anna/train, v2.py"


def test_when_the_driver_is_too_old_for_a_field_the_table_stands_in() -> None:
    refused = {"nvidia_query": Ended('Field "compute_cap" is not a valid field to query.\n', 2)}
    gpus = gpus_of(NVIDIA, refused)
    assert len(gpus) == 8
    assert (gpus[1].memory_mib, gpus[1].used_mib, gpus[1].power_limit_w) == (81559, 71204, 700.0)
    assert gpus[1].compute_capability == ""
    assert gpus[1].processes == (
        GpuProcess(pid=40212, name="VLLM::Worker_TP1", used_mib=None, unit="vllm-8001.service"),
    )


def test_when_only_the_process_query_fails_the_table_names_the_processes() -> None:
    gpus = gpus_of(NVIDIA, {"nvidia_apps": Ended("", 124)})
    assert gpus[0].processes[0].used_mib == 71190


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (Ended(LOST, 9), "couldn't communicate with the NVIDIA driver"),
        (Ended("No devices were found\n", 6), "No devices were found"),
        (Ended("", 124), "hangs"),
        (Ended("", 137), "hangs"),
        (Ended("x" * 9000, 153), "far too much"),
        (Ended("0, GPU-1, 00000", None), "cut off"),
        (Ended("", 139), "status 139"),
        (Ended("Failed to initialize NVML: version mismatch\nNVML library version: 570.1\n", 18),
         "version mismatch NVML library version: 570.1"),
    ],
)  # fmt: skip
def test_a_broken_driver_is_missing_with_its_own_words(ended: Ended, reason: str) -> None:
    broken = dict.fromkeys(("nvidia_query", "nvidia_table", "nvidia_apps", "nvidia_topo"), ended)
    facts = facts_of(BARE, broken)
    assert isinstance(facts.gpus, Missing)
    assert isinstance(facts.topology, Missing)
    assert reason in facts.gpus.reason
    assert "\n" not in facts.gpus.reason
    assert facts.missing["gpus"] == facts.gpus.reason
    assert not isinstance(facts.units, Missing), "one broken tool must not hide the rest"


def test_a_host_without_gpus_has_none_and_nothing_is_missing() -> None:
    facts = facts_of(BARE)
    assert facts.gpus == ()
    assert facts.topology == Topology()
    assert dict(facts.missing) == {}


def test_gpus_on_the_bus_without_a_tool_are_missing_not_none() -> None:
    facts = facts_of(BARE, {"pci": fixture("pci.tsv")})
    assert isinstance(facts.gpus, Missing)
    assert facts.gpus.reason == "8 NVIDIA GPU(s) on the PCI bus, but nvidia-smi is not installed"


def test_unknown_values_are_none_and_never_zero() -> None:
    row = (
        "0, GPU-1, 00000000:01:00.0, [N/A], [Unknown Error], [N/A], 570.1, [N/A], [N/A], [N/A], NVIDIA GB10\n"
    )
    (gpu,) = nvidia.query(row)
    assert (gpu.memory_mib, gpu.used_mib, gpu.power_limit_w) == (None, None, None)
    assert (gpu.mig, gpu.ecc, gpu.compute_capability) == ("", "", "")


def test_a_gpu_name_cannot_carry_terminal_escapes() -> None:
    row = "0, u, 0000:01:00.0, 1, 1, 1, 1, 1, 1, 1, \x1b[31mEvil\x1b]0;title\x07\r\n"
    (gpu,) = nvidia.query(row)
    assert gpu.name.isprintable()


def test_topology_is_read_through_underlines_and_without_network_cards() -> None:
    topo = topology.parse(fixture("nvidia_topo.txt"))
    assert isinstance(topo, Topology)
    assert len(topo.links) == 8
    assert topo.links[0] == ("X", *["NV18"] * 7)
    assert topo.numa_nodes == (0, 0, 0, 0, 1, 1, 1, 1)
    assert topology.weak_links(topo) == ()


def test_a_topology_that_was_cut_off_says_where() -> None:
    text = "\n".join(fixture("nvidia_topo.txt").split("\n")[:4])
    assert topology.parse(text) == Missing("the topology was cut off after 3 of 8 GPUs")


def test_a_gpu_with_fewer_nvlinks_than_the_others_is_named() -> None:
    links = (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    assert topology.weak_links(Topology(links=links)) == ("GPU2: no NVLink, others NV4",)
    assert topology.weak_links(Topology(links=(("X", "PIX"), ("PIX", "X")))) == ()


AMD = {
    "amd_static": fixture("amd_static.json"),
    "amd_metric": fixture("amd_metric.json"),
    "amd_process": fixture("amd_process.json"),
    "cgroups": fixture("cgroups.tsv"),
}


def test_amd_smi_json_gives_memory_gfx_target_and_processes() -> None:
    first, second = gpus_of(AMD)
    assert (first.vendor, first.name, first.compute_capability) == ("amd", "AMD Instinct MI300X", "gfx942")
    assert (first.memory_mib, first.used_mib, first.power_limit_w) == (196592, 180301, 750.0)
    assert (first.driver, first.numa_node, first.bus_id) == ("6.12.12", 0, "0000:05:00.0")
    assert first.processes == (
        GpuProcess(pid=40100, name="VLLM::EngineCore", used_mib=180224, unit="vllm-8001.service"),
    )
    assert second.name == "AMD Instinct MI300X", "the device id names it"
    assert (second.memory_mib, second.used_mib, second.power_limit_w) == (None, None, None)
    assert second.processes == ()


def test_the_newer_amd_smi_wraps_its_list() -> None:
    text = fixture("amd_static.json")
    wrapped = '{"gpu_data": ' + text[text.index("[\n") :] + "}"
    assert amd.static(wrapped) == amd.static(text)


def test_rocm_smi_json_stands_in_for_amd_smi() -> None:
    first, second = gpus_of({"rocm_json": fixture("rocm.json"), "rocm_table": fixture("rocm_table.txt")})
    assert (first.name, first.memory_mib, first.used_mib) == ("AMD Instinct MI210", 65520, 10)
    assert (first.compute_capability, first.driver, first.power_limit_w) == ("gfx90a", "6.8.5", 300.0)
    assert (second.name, second.memory_mib, second.power_limit_w) == ("AMD Instinct MI250X", None, None)


def test_the_table_of_rocm_smi_is_the_last_resort() -> None:
    first, second = gpus_of({"rocm_json": Ended("ERROR\n", 2), "rocm_table": fixture("rocm_table.txt")})
    assert (first.name, first.memory_mib, first.power_limit_w) == ("AMD Instinct MI325X", 262128, 1000.0)
    assert first.used_mib == round(262128 * 0.91)
    assert (second.name, second.memory_mib, second.used_mib) == ("0x9999", None, None)


def test_an_amd_driver_that_is_not_loaded_is_missing_with_its_own_words() -> None:
    ended = Ended("", 255, "ERROR: AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded\n")
    facts = facts_of(
        BARE, {"amd_static": ended, "amd_metric": ended, "amd_process": ended, "amd_table": ended}
    )
    assert isinstance(facts.gpus, Missing)
    assert "DRIVER_NOT_LOADED" in facts.gpus.reason
