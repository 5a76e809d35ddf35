"""The sample fleet is the documentation, so it must load and say what the two reports did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetbench.inventory import Inventory, load, select
from fleetbench.inventory.prompts import missing_prompts
from fleetbench.model import Device

SAMPLE = Path(__file__).parents[2] / "inventory"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    # Only the files of the sample itself: a lab that is up adds a sub-directory of its own.
    directory = tmp_path_factory.mktemp("inventory")
    for name in ("hosts.toml", "models.toml", "sweeps.toml", "prompts"):
        (directory / name).symlink_to(SAMPLE / name)
    return load(directory)


def test_the_sample_loads_and_its_prompt_files_are_there(sample: Inventory) -> None:
    assert missing_prompts(sample) == ()
    assert {host.build.device for host in sample.hosts.values()} == {Device.CUDA, Device.ROCM}


def test_the_six_models_of_the_first_report_are_there(sample: Inventory) -> None:
    coder = sample.models["qwen3-coder"]
    assert coder.repo == "Qwen/Qwen3-Coder-30B-A3B-Instruct"
    assert coder.max_model_len == 65536
    assert coder.serve_args == ("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder")
    small = [model for model in sample.models.values() if model.sweep == "single-gpu"]
    assert {model.repo.split("/")[0] for model in small} == {"google", "meta-llama", "mistralai", "Qwen"}
    assert {model.max_model_len for model in small} == {8192}
    assert {model.name for model in small if not model.gated} == {"qwen2.5-coder-7b"}


def test_the_four_models_of_the_second_report_are_there(sample: Inventory) -> None:
    second = [model for model in sample.models.values() if model.sweep == "context-length"]
    assert len(second) == 4
    assert {model.serve_args for model in second} == {
        ("--dtype", "half", "--enforce-eager", "--trust-remote-code")
    }


def test_every_model_names_a_sweep(sample: Inventory) -> None:
    assert {model.sweep for model in sample.models.values()} <= set(sample.sweeps)


def test_the_sweeps_of_the_reports_are_there(sample: Inventory) -> None:
    first = sample.sweeps["tp-dp"]
    assert (first.parallel, first.repeats) == ("all", 3)
    assert first.workloads[0].label == "random 128/128 n=10000 c=1000"
    assert first.workloads[0].temperature == 0.7
    second = sample.sweeps["context-length"]
    assert second.max_model_len == (2048, 8192, 65536, 131072)
    assert [load.max_concurrency for load in second.workloads] == [1, 10]


def test_the_prompt_file_has_a_question_for_each_request(sample: Inventory) -> None:
    workload = sample.sweeps["context-length"].workloads[0]
    lines = Path(workload.prompts).read_text().splitlines()
    prompts = {json.loads(line)["prompt"] for line in lines}
    assert len(prompts) == len(lines) == workload.num_prompts


def test_the_expressions_of_the_comments_mean_something(sample: Inventory) -> None:
    assert len(select(sample, "@nvlink,!h100-03")) == 8
    assert [host.gpu for host in select(sample, "@cards")] == ["A100", "RTX 4090"]
    assert {host.build.name for host in select(sample, "@v100")} == {"volta"}
