"""One workload becomes the right command for each client version, or a refusal that names the flag."""

from __future__ import annotations

import re
from typing import Any

import pytest
from shared_material import help_texts, read, shared, version_of

from fleetbench.bench_command import bench_command
from fleetbench.errors import NotPossible, UsageError
from fleetbench.model import Workload

_WORKLOADS = [
    Workload(),
    Workload(max_concurrency=64, temperature=0.7),
    Workload(request_rate=2.5, max_concurrency=8),
    Workload(dataset="custom", prompts="/srv/prompts.jsonl", output_len=512),
    Workload(dataset="sharegpt", prompts="/srv/sharegpt.json"),
]


def _command(version: str, workload: Workload | None = None, **changes: Any) -> tuple[str, ...]:
    arguments: dict[str, Any] = {
        "version": version,
        "executable": ("/opt/vllm/venv-vllm/bin/vllm",),
        "model": "acme/tiny",
        "served_name": "tiny",
        "tokenizer": "",
        "host": "127.0.0.1",
        "port": 8101,
        "workload": workload or Workload(),
        "seed": 7,
        "result_dir": "/opt/vllm/runs/r1",
        "result_filename": "result.json",
    }
    return bench_command(**{**arguments, **changes})


def _value(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def _flags(argv: tuple[str, ...]) -> set[str]:
    return {argument.partition("=")[0] for argument in argv if argument.startswith("--")}


def test_the_command_of_the_first_source_for_its_version() -> None:
    workload = Workload(
        input_len=128, output_len=128, num_prompts=10000, max_concurrency=1000, temperature=0.7
    )
    argv = _command(
        "0.10.1.1", workload, model="Qwen/Qwen3-Coder-30B-A3B-Instruct", served_name="", port=8001
    )
    assert argv == (
        *("/opt/vllm/venv-vllm/bin/vllm", "bench", "serve", "--endpoint-type", "vllm"),
        *("--host", "127.0.0.1", "--port", "8001", "--model", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
        *("--dataset-name", "random", "--random-input-len", "128", "--random-output-len", "128"),
        *("--random-range-ratio", "0.0", "--num-prompts", "10000", "--seed", "7", "--ignore-eos"),
        *("--temperature", "0.7", "--max-concurrency", "1000", "--request-rate", "inf"),
        *("--ready-check-timeout-sec", "60", "--percentile-metrics", "ttft,tpot,itl,e2el"),
        *("--metric-percentiles", "50,90,95,99", "--save-result", "--save-detailed"),
        *("--result-dir", "/opt/vllm/runs/r1", "--result-filename", "result.json"),
    )


@pytest.mark.parametrize("name", help_texts(), ids=version_of)
def test_every_flag_and_word_that_we_write_is_in_the_help_of_that_version(name: str) -> None:
    text = read(shared(name))
    for workload in _WORKLOADS:
        argv = _command(version_of(name), workload, tokenizer="acme/tok")
        unknown = {flag for flag in _flags(argv) if not re.search(rf"(?m)^  {flag}(?![\w-])", text)}
        assert not unknown
        for flag in ("--backend", "--endpoint-type", "--dataset-name"):
            if flag in argv:
                choices = re.search(rf"(?m)^  {flag} \{{([^}}]+)\}}", text)
                assert choices
                assert _value(argv, flag) in choices[1].split(",")


def test_the_rust_client_knows_every_flag_that_we_write() -> None:
    text = read(shared("captures/cpu/help/v0.33.0_vllm-rs_bench_serve.txt"))
    for workload in _WORKLOADS:
        argv = _command("0.33.0", workload, tokenizer="acme/tok")
        assert not {flag for flag in _flags(argv) if not re.search(rf"(?m)^ +{flag}(?![\w-])", text)}


@pytest.mark.parametrize(
    ("version", "flag", "word"),
    [
        ("0.8.5.post1", "--endpoint-type", "openai-comp"),
        ("0.9.2", "--endpoint-type", "openai"),
        ("0.10.2", "--endpoint-type", "vllm"),
        ("0.11.0", "--backend", "vllm"),
        ("0.11.1", "--backend", "vllm"),
        ("0.33.0+cpu", "--backend", "vllm"),
    ],
)
def test_the_protocol_is_chosen_by_the_flag_that_counts_in_that_version(
    version: str, flag: str, word: str
) -> None:
    argv = _command(version)
    assert _value(argv, flag) == word
    assert len({"--backend", "--endpoint-type"} & set(argv)) == 1


@pytest.mark.parametrize(("version", "ratio"), [("0.8.5", "1.0"), ("0.9.2", "0.0"), ("0.33.0", "0.0")])
def test_lengths_are_exact_under_both_meanings_of_the_range_ratio(version: str, ratio: str) -> None:
    assert _value(_command(version), "--random-range-ratio") == ratio


@pytest.mark.parametrize("version", ["0.10.1.1", "0.14.1", "0.33.0"])
def test_what_is_measured_never_depends_on_a_default(version: str) -> None:
    argv = _command(version)
    assert "--ignore-eos" in argv
    assert _value(argv, "--temperature") == "0"
    assert _value(argv, "--seed") == "7"
    assert _value(argv, "--request-rate") == "inf"
    assert _value(argv, "--percentile-metrics") == "ttft,tpot,itl,e2el"
    assert _value(argv, "--metric-percentiles") == "50,90,95,99"


def test_a_client_that_can_only_measure_greedily_refuses_a_temperature() -> None:
    assert "--temperature" not in _command("0.9.1")
    with pytest.raises(NotPossible, match="temperature 0"):
        _command("0.9.1", Workload(temperature=0.7))


def test_the_ready_check_is_short_where_it_would_last_ten_minutes_and_off_where_it_can_be() -> None:
    assert "--ready-check-timeout-sec" not in _command("0.9.2")
    assert _value(_command("0.13.0"), "--ready-check-timeout-sec") == "60"
    assert _value(_command("0.14.1"), "--ready-check-timeout-sec") == "0"
    assert _value(_command("0.14.1", ready_check_s=15), "--ready-check-timeout-sec") == "15"


def test_a_dataset_that_was_removed_is_refused_by_name() -> None:
    workload = Workload(dataset="sonnet", prompts="/srv/sonnet.txt")
    assert "--sonnet-input-len" in _command("0.30.0", workload)
    with pytest.raises(NotPossible, match="sonnet"):
        _command("0.32.0", workload)


@pytest.mark.parametrize("workload", [Workload(dataset="custom"), Workload(prompts="/srv/x.jsonl")])
def test_a_prompt_file_too_many_or_too_few_is_refused(workload: Workload) -> None:
    with pytest.raises(UsageError, match="prompt file"):
        _command("0.33.0", workload)


@pytest.mark.parametrize(
    "argument",
    ["--seed=3", "--seed", "--temp", "--max_concurrency", "--random-input-len", "--backend=openai"],
)
def test_extra_arguments_cannot_replace_what_the_record_says(argument: str) -> None:
    with pytest.raises(UsageError, match="repeat"):
        _command("0.33.0", Workload(extra_args=(argument, "3")))


def test_extra_arguments_of_another_version_are_refused_with_the_versions_that_have_them() -> None:
    with pytest.raises(NotPossible) as refusal:
        _command("0.10.2", Workload(extra_args=("--num-warmups", "4")))
    assert "--num-warmups: vLLM >= 0.11.1" in refusal.value.cause
    assert _command("0.33.0", Workload(extra_args=("--num-warmups", "4")))[-2:] == ("--num-warmups", "4")


def test_extra_arguments_may_set_another_range_ratio() -> None:
    argv = _command("0.33.0", Workload(extra_args=("--random-range-ratio", "0.5")))
    assert argv.count("--random-range-ratio") == 1
    assert _value(argv, "--random-range-ratio") == "0.5"


def test_a_version_without_the_command_is_refused() -> None:
    with pytest.raises(NotPossible, match="no `vllm bench serve`"):
        _command("0.6.6.post1")


def test_values_that_look_like_flags_and_addresses_with_colons_stay_values() -> None:
    argv = _command("0.33.0", model="--help", host="fd00::7", result_dir="-x")
    assert "--model=--help" in argv
    assert "--result-dir=-x" in argv
    assert _value(argv, "--base-url") == "http://[fd00::7]:8101"
    assert "--host" not in argv


def test_a_rate_is_written_without_exponent() -> None:
    rates = {
        rate: _value(_command("0.33.0", Workload(request_rate=rate)), "--request-rate")
        for rate in (4.0, 0.25)
    }
    assert rates == {4.0: "4", 0.25: "0.25"}
