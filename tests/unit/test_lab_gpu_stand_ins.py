"""The stand-ins of nvidia-smi, rocm-smi and amd-smi: what they print, and who holds memory."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from shared_material import SHARED, shared

from fleetbench.lab import smi_files
from fleetbench.lab.smi import amd, gpus, nvidia, occupancy, rocm
from fleetbench.lab.smi.__main__ import again
from fleetbench.lab.smi.gpus import Holder
from fleetbench.lab.smi.occupancy import Process

CAPTURES = "captures/gpu/h200x2/nvidia-smi"
SAME_TEXT = ("q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q12", "topo")


def process(
    pid: int, parent: int = 1, unit: str = "", title: str = "python3", **environment: str
) -> occupancy.Process:
    return Process(pid, parent, unit, title, environment)


def nothing(_: str) -> Mapping[str, str]:
    return {}


def held(processes: list[Process], count: int = 4) -> list[tuple[int, int]]:
    found = occupancy.holders(processes, [60_000] * count, nothing)
    return [(holder.gpu, holder.pid) for holder in found]


def captured(name: str) -> tuple[list[str], str, int]:
    """A capture's command line without the program, its output and its exit status."""
    status, _, command = shared(CAPTURES, f"{name}.rc").read_text().partition(" : ")
    text = shared(CAPTURES, f"{name}.out").read_bytes().decode()
    return shlex.split(command)[1:], text, int(status)


def test_a_gpu_that_is_held_back_says_so_while_it_computes() -> None:
    """The words and the mask are those of a real H200 (driver 580): an idle one says 1."""
    asked = ["--query-gpu=index,clocks.sm,clocks_throttle_reasons.active", "--format=csv,noheader,nounits"]
    box = gpus.parse("1x H100 util=90 mhz=600 throttle=40\n1x H100")
    answer = nvidia.answer(asked, box, ())
    assert answer.text == "0, 600, 0x0000000000000040\n1, 345, 0x0000000000000001\n"


@pytest.mark.parametrize("name", SAME_TEXT)
def test_the_stand_in_prints_what_a_real_pair_of_h200_printed(name: str) -> None:
    arguments, text, status = captured(name)
    answer = nvidia.answer(arguments, gpus.parse("cpus=32\n2x H200"), ())
    assert (answer.text, answer.status) == (text, status)


def test_the_table_has_the_real_columns() -> None:
    arguments, text, status = captured("table")
    answer = nvidia.answer(arguments, gpus.parse("2x H200"), ())

    def shape(table: str) -> list[str]:
        return [
            re.sub(r"[\d.]+|[A-F\d:]{8,}", lambda m: "#" * len(m[0]), line) for line in table.splitlines()[1:]
        ]

    assert (shape(answer.text), answer.status) == (shape(text), status)


def test_a_wide_query_has_the_real_header() -> None:
    arguments, text, _ = captured("q1")
    answer = nvidia.answer(arguments, gpus.parse("2x H200"), ())
    assert answer.text.splitlines()[0] == text.splitlines()[0]
    ours, real = answer.text.splitlines()[1].split(", "), text.splitlines()[1].split(", ")
    fixed = (0, 1, 4, 5, 6, 8, 13, 14, 15, 16, 17, 18, 19, 20, 21)
    assert [ours[i] for i in fixed] == [real[i] for i in fixed]


def test_the_captures_that_are_compared_exist() -> None:
    if not SHARED.joinpath(CAPTURES).is_dir():
        pytest.skip("no captures beside this repository")
    assert all(SHARED.joinpath(CAPTURES, f"{name}.out").exists() for name in SAME_TEXT)


def test_the_file_of_gpus_is_read_with_options_counts_and_comments() -> None:
    box = gpus.parse("driver=1.2.3 cuda=9.9 # old\n\n2x h100 used=5\nRTX4090\n1x NOSUCH\n", "lab-01")
    found = gpus.nvidia(box)
    assert [(gpu.index, gpu.card.name, gpu.used) for gpu in found] == [
        (0, "NVIDIA H100 80GB HBM3", 5),
        (1, "NVIDIA H100 80GB HBM3", 5),
        (2, "NVIDIA GeForce RTX 4090", 0),
    ]
    assert (box.driver, box.cuda, box.broken, box.delay_s) == ("1.2.3", "9.9", False, 0.0)
    assert len({gpu.uuid for gpu in found}) == 3
    assert gpus.nvidia(gpus.parse("1x H100", "lab-02"))[0].uuid != found[0].uuid


def test_a_missing_file_means_a_driver_that_does_not_answer(tmp_path: Path) -> None:
    answer = nvidia.answer([], gpus.read(str(tmp_path / "none")), ())
    assert answer.status == 9
    assert "couldn't communicate" in answer.text


def test_memory_that_a_process_holds_shows_everywhere() -> None:
    box = gpus.parse("2x H100 used=100")
    holders = (Holder(1, 42, 60_000, "VLLM::EngineCore"),)
    query = ["--query-gpu=memory.used,utilization.gpu", "--format", "csv,noheader,nounits"]
    assert nvidia.answer(query, box, holders).text == "100, 0\n60100, 95\n"
    apps = ["--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader"]
    assert nvidia.answer(apps, box, holders).text == "42, 60000 MiB, VLLM::EngineCore\n"
    assert nvidia.answer(["-i", "0", *apps], box, holders).text == ""
    assert (
        "|    1   N/A  N/A              42      C   VLLM::EngineCore" in nvidia.answer([], box, holders).text
    )


def test_a_server_never_holds_more_than_nine_tenths_of_a_card() -> None:
    box = gpus.parse("held=70000\n1x L4\n1x H200\n1x H200 held=1000")
    totals = (23034, 143771, 143771)
    assert [gpus.held_mib(box, slot, total) for slot, total in zip(box.slots, totals, strict=True)] == [
        20730,
        70000,
        1000,
    ]


def test_repeated_queries_do_not_repeat_the_header() -> None:
    arguments = ["--query-gpu=index", "--format=csv,nounits", "-l", "1"]
    assert nvidia.parse(arguments).loop_s == 1
    assert nvidia.parse(["-lms", "200"]).loop_s == pytest.approx(0.2)
    assert nvidia.answer(again(arguments), gpus.parse("1x L4"), ()).text == "0\n"


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0,1", (0, 1)),
        (" 3 , 2", (3, 2)),
        ("", ()),
        ("-1", ()),
        ("0,9,1", (0,)),
        ("GPU-bb", (1,)),
        ("GPU-,0", ()),
        ("NoDevFiles", ()),
        ("0;rm", ()),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(text: str, indices: tuple[int, ...]) -> None:
    assert occupancy.device_indices(text, 4, ("GPU-aa11", "GPU-bb22", "GPU-cc33", "GPU-dd44")) == indices


def test_a_service_holds_the_gpus_that_its_environment_names() -> None:
    assert held([process(10, unit="vllm-8001.service", CUDA_VISIBLE_DEVICES="0,1")]) == [(0, 10), (1, 10)]
    assert held([process(10, unit="vllm-8001.service", HIP_VISIBLE_DEVICES="2")]) == [(2, 10)]
    assert held([process(10, unit="vllm-8001.service")]) == []


def test_workers_hold_the_memory_in_the_order_of_their_ranks() -> None:
    unit = "vllm-8001.service"
    server = [
        process(10, unit=unit, title="python3 vllm serve", CUDA_VISIBLE_DEVICES="2,3"),
        process(11, 10, unit, "python3 -c from multiprocessing.resource_tracker import main;main(5)"),
        process(12, 10, unit, "VLLM::EngineCore"),
        process(14, 12, unit, "VLLM::Worker_TP0"),
        process(13, 12, unit, "VLLM::Worker_TP1"),
    ]
    assert held(server) == [(2, 14), (3, 13)]
    assert held(server[:3]) == [(2, 12), (3, 12)]


def test_overwritten_environments_are_made_up_for_by_the_units_own() -> None:
    def unit_environment(unit: str) -> Mapping[str, str]:
        return {"vllm-8001.service": {"CUDA_VISIBLE_DEVICES": "1"}}[unit]

    found = occupancy.holders(
        [process(10, unit="vllm-8001.service", title="VLLM::APIServer")], [60_000] * 2, unit_environment
    )
    assert [(holder.gpu, holder.pid, holder.name) for holder in found] == [(1, 10, "VLLM::APIServer")]


def test_what_outlived_its_server_holds_memory_beside_the_new_server() -> None:
    unit = "vllm-8001.service"
    after_restart = [
        process(20, unit=unit, CUDA_VISIBLE_DEVICES="0"),
        process(12, 1, unit, "VLLM::EngineCore", CUDA_VISIBLE_DEVICES="0"),
    ]
    assert held(after_restart) == [(0, 12), (0, 20)]
    assert held([process(12, 1, "", "VLLM::EngineCore", CUDA_VISIBLE_DEVICES="0")]) == [(0, 12)]


def test_shells_clients_and_control_processes_hold_nothing() -> None:
    assert held([process(5, 4, "", "bash", CUDA_VISIBLE_DEVICES="0"), process(4, 1, "", "sshd")]) == []
    assert held([process(6, 1, "fleetbench-bench-1.service", "vllm bench", CUDA_VISIBLE_DEVICES="0")]) == []
    start_post = process(7, 1, "vllm-8001.service", "bash", CUDA_VISIBLE_DEVICES="0", MAINPID="10")
    assert held([process(10, unit="vllm-8001.service", CUDA_VISIBLE_DEVICES="0"), start_post]) == [(0, 10)]


def test_a_unit_environment_is_read_with_its_quotes() -> None:
    text = 'A=1 "B=two words" CUDA_VISIBLE_DEVICES=0,1\n'
    assert occupancy.parse_unit_environment(text)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert occupancy.parse_unit_environment(text)["B"] == "two words"
    assert occupancy.parse_unit_environment("A=it's CUDA_VISIBLE_DEVICES=3")["CUDA_VISIBLE_DEVICES"] == "3"


def test_amd_tools_agree_with_each_other() -> None:
    box = gpus.parse("2x MI300X")
    holders = (Holder(1, 42, 60_000, "VLLM::Worker_TP0"),)
    metric = json.loads(amd.answer(["metric", "--json"], box, holders).text)
    assert [entry["mem_usage"]["used_vram"]["value"] for entry in metric] == [11, 60_011]
    cards = json.loads(rocm.answer(["--showmeminfo", "vram", "--json"], box, holders).text)
    assert int(cards["card1"]["VRAM Total Used Memory (B)"]) >> 20 == 60_011
    processes = json.loads(amd.answer(["process", "--json"], box, holders).text)
    assert processes[1]["process_list"][0]["process_info"]["pid"] == 42
    assert "VRAM_MEM: 62914560000 B" in amd.answer(["process"], box, holders).text
    assert amd.answer(["static"], gpus.parse("broken=1\n2x MI300X"), ()).status == 255
    assert rocm.answer([], gpus.parse("1x H100"), ()).status == 1


def test_our_own_parsers_read_the_stand_ins() -> None:
    from fleetbench.facts import amd as amd_facts

    box = gpus.parse("2x MI300X")
    for arguments in (["static", "--json"], ["static"]):
        found = amd_facts.static(amd.answer(arguments, box, ()).text)
        assert [(gpu.name, gpu.memory_mib) for gpu in found] == [("AMD Instinct MI300X", 196_592)] * 2


@pytest.mark.parametrize(
    ("spec", "commands"),
    [
        ("", ()),
        ("8x H100 mig=Enabled", ("nvidia-smi",)),
        ("driver=6.1|2x mi300x", ("rocm-smi", "amd-smi")),
    ],
)
def test_hosts_have_the_tools_of_their_vendor_only(
    spec: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    smi_files.install(tmp_path, "1x H100")
    smi_files.install(tmp_path, spec)
    assert smi_files.commands(spec) == commands
    assert sorted(path.name for path in (tmp_path / "usr/bin").iterdir()) == sorted(commands)
    assert (tmp_path / "etc/fake-gpus").exists() == bool(spec)
