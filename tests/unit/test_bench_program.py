"""Which client measures: the Rust one where it is and can, else the Python one with the reason why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shared_material import read, shared

from fleetbench.bench_command import bench_command
from fleetbench.bench_program import Choice, Program, RustClient, choose, rust_client
from fleetbench.errors import NotPossible
from fleetbench.model import Workload

PATH = "/opt/vllm/venvs/vllm-0.33.0/lib/python3.12/site-packages/vllm/vllm-rs"
OPTIONS = (
    *("backend", "host", "port", "base-url", "model", "served-model-name", "tokenizer", "tokenizer-mode"),
    *("num-prompts", "seed", "ignore-eos", "temperature", "max-concurrency", "request-rate", "dataset-path"),
    *("ready-check-timeout-sec", "percentile-metrics", "metric-percentiles", "save-result", "save-detailed"),
    *("result-dir", "result-filename", "random-input-len", "random-output-len", "random-range-ratio"),
    *("sharegpt-output-len", "custom-output-len", "skip-chat-template", "top-p"),
)
HELP = (
    "Measures\n\nUsage: vllm-rs bench serve [OPTIONS]\n\nOptions:\n"
    "      --dataset-name <DATASET_NAME>\n"
    "          What is sent [default: random] [possible values: random, sharegpt, custom]\n"
    + "".join(f"      --{name} <VALUE>\n          Says --nothing of interest\n" for name in OPTIONS)
    + "  -h, --help\n          Print help\n"
)


def rust() -> RustClient:
    found = rust_client(PATH, HELP)
    assert found is not None
    return found


def chosen(workload: Workload, version: str = "0.33.0", client: RustClient | None = None) -> Choice:
    command = bench_command(
        version=version,
        executable=("/opt/vllm/venv/bin/vllm",),
        model="/models/one",
        served_name="one",
        tokenizer="",
        host="127.0.0.1",
        port=8001,
        workload=workload,
        seed=1,
        result_dir="/out",
        result_filename="result.json",
    )
    return choose(workload, command, version, client or rust())


def test_the_help_of_the_rust_client_says_what_it_can() -> None:
    found = rust()
    assert found.path == PATH
    assert found.datasets == {"random", "sharegpt", "custom"}
    assert {"--max-concurrency", "--top-p", "--help"} <= found.options
    assert "--nothing" not in found.options


@pytest.mark.parametrize("text", ["", "no help", HELP.replace("--dataset-name", "--data"), "\x1b[0m" * 1000])
def test_what_does_not_speak_like_the_rust_client_is_none(text: str) -> None:
    assert rust_client(PATH, text) is None


def test_the_real_help_offers_everything_that_the_usual_workloads_need() -> None:
    text = read(shared("captures", "cpu", "help", "v0.33.0_vllm-rs_bench_serve.txt"))
    found = rust_client(PATH, text)
    assert found is not None
    assert chosen(Workload(max_concurrency=1000), client=found) == Choice(Program.RUST)
    sharegpt = Workload(dataset="sharegpt", prompts="/p.json", request_rate=2)
    assert chosen(sharegpt, client=found) == Choice(Program.RUST)


@pytest.mark.parametrize(
    ("workload", "version", "why"),
    [
        (Workload(), "0.26.0", "vLLM 0.26.0 has no Rust client"),
        (
            Workload(dataset="custom", prompts="/p.jsonl"),
            "0.33.0",
            "the Rust client does not send dataset 'custom' as the Python client does",
        ),
        (
            Workload(dataset="hf", extra_args=("--hf-output-len", "9")),
            "0.33.0",
            "the Rust client does not send dataset 'hf' as the Python client does",
        ),
        (
            Workload(extra_args=("--top-k=5", "--burstiness", "2")),
            "0.33.0",
            "the Rust client lacks --top-k --burstiness",
        ),
        (
            Workload(extra_args=("--tokenizer-mode", "mistral")),
            "0.33.0",
            "the Rust client lacks --tokenizer-mode",
        ),
    ],
)
def test_what_the_rust_client_cannot_is_left_to_the_python_client_or_refused(
    workload: Workload, version: str, why: str
) -> None:
    assert chosen(workload, version) == Choice(Program.PYTHON, why)
    with pytest.raises(NotPossible, match="the Rust client cannot measure") as caught:
        chosen(replace(workload, client_program="rust"), version)
    assert caught.value.cause == why
    assert 'client_program = "auto"' in caught.value.next_step


def test_custom_prompts_without_a_chat_template_are_the_same_for_both() -> None:
    workload = Workload(dataset="custom", prompts="/p.jsonl", extra_args=("--skip-chat-template",))
    assert chosen(workload) == Choice(Program.RUST)


def test_a_build_without_it_is_said() -> None:
    command = ("vllm", "bench", "serve")
    assert (
        choose(Workload(), command, "0.32.0", None).why
        == "this build of vLLM 0.32.0 comes without the Rust client"
    )


def test_who_asks_for_the_python_client_gets_it_without_a_word() -> None:
    assert chosen(Workload(client_program="python")) == Choice(Program.PYTHON)
