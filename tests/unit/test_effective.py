"""What a server really runs with, and where that is not what was asked for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from shared_material import names, read, shared

from fleetbench.model import Config
from fleetbench.service import metrics
from fleetbench.service.http import Served
from fleetbench.service_log import read_service_log
from fleetbench.sweep.effective import (
    KIND,
    Asked,
    Effective,
    failure_of,
    mismatches,
    read_back,
    same_model,
    same_version,
)

SERVED = Served(models=("m",), max_model_len=None, version="", completion="x")
RUNS = Effective(
    vllm_version="0.25.1",
    model="org/m",
    models=("org/m",),
    tp=2,
    dp=1,
    pp=1,
    max_model_len=8192,
    enforce_eager=False,
    prefix_caching=True,
    dtype="bfloat16",
    attention_backend="FLASH_ATTN",
)
ASKED = Asked(config=Config(tp=2, max_model_len=8192), model="org/m", version="0.25.1")

# The line of the engine as versions write it: 0.8 has no data-parallel size and other words around.
ENGINES = {
    "0.8.5.post1": "speculative_config=None, trust_remote_code=False, dtype=torch.float16, max_seq_len=2048,"
    " download_dir=None, load_format=LoadFormat.AUTO, tensor_parallel_size=4, pipeline_parallel_size=2,"
    " disable_custom_all_reduce=False, quantization=None, enforce_eager=False, kv_cache_dtype=auto, "
    " device_config=cuda, seed=None, num_scheduler_steps=1, enable_prefix_caching=True,",
    "0.10.2": "revision=None, override_neuron_config={}, dtype=torch.float16, max_seq_len=2048,"
    " download_dir=None, load_format=auto, tensor_parallel_size=4, pipeline_parallel_size=2,"
    " disable_custom_all_reduce=False, quantization=None, enforce_eager=False, kv_cache_dtype=auto,"
    " device_config=cuda, enable_prefix_caching=True,",
    "0.13.0+abc": "dtype=torch.float16, max_seq_len=2048, download_dir=None, load_format=auto,"
    " tensor_parallel_size=4, pipeline_parallel_size=2, data_parallel_size=1, quantization=None,"
    " enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=True,",
    "0.33.0": "dtype=torch.float16, max_seq_len=2048, download_dir=None, load_format=auto,"
    " tensor_parallel_size=4, pipeline_parallel_size=2, data_parallel_size=1,"
    " decode_context_parallel_size=1, quantization=None, quantization_config=None, enforce_eager=False,"
    " kv_cache_dtype=auto, enable_prefix_caching=True,",
}


@pytest.mark.parametrize("version", ENGINES)
def test_each_version_s_engine_line_is_read_alike(version: str) -> None:
    line = (
        f"INFO 01-02 03:04:05 [core.py:9] Initializing a V1 LLM engine (v{version}) with config: model='/m', "
    )
    runs = read_back(read_service_log(line + ENGINES[version]), SERVED)

    assert (runs.tp, runs.pp, runs.max_model_len) == (4, 2, 2048)
    assert (runs.model, runs.dtype, runs.quantization, runs.kv_cache_dtype) == ("/m", "float16", "", "auto")
    assert (runs.enforce_eager, runs.prefix_caching) == (False, True)
    assert runs.vllm_version == version
    assert (
        mismatches(Asked(config=Config(tp=4, pp=2), model="/m", served_name="m", version=version), runs) == ()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "non-default args: {'port': 8101, 'data_parallel_size': 2, 'max_num_seqs': 64}",
        "args: Namespace(subparser='serve', port=8101, data_parallel_size=2, max_num_seqs=64, x=None)",
    ],
)
def test_arguments_of_older_and_newer_versions_say_how_many_engines_there_are(arguments: str) -> None:
    runs = read_back(read_service_log(f"INFO 01-02 03:04:05 [api_server.py:9] {arguments}"), SERVED)

    assert (runs.dp, runs.max_num_seqs) == (2, 64)


_SHARED_LOGS = (
    names("captures/gpu/*/*.server.log*")
    + names("captures/cpu/parallel/*.log")
    + names("captures/cpu/serve/*.log")
    + names("captures/cpu/kill/*.log")
    + names("captures/cpu/startfail/*.log")
)


@pytest.mark.parametrize("name", _SHARED_LOGS)
def test_every_captured_log_is_read_as_its_name_says_or_is_silent(name: str) -> None:
    log = read_service_log(read(shared(name)))
    runs = read_back(log, replace(SERVED, models=()))
    file = name.rpartition("/")[2]
    said = {key: int(size) for key, size in re.findall(r"(tp|dp|pp)(\d)", file) if "tp3" not in file}

    version = "0.25.1" if "/gpu/" in name else "0.11.0" if "v0110" in file else "0.32.0"
    assert runs.vllm_version == "" or same_version(version, runs.vllm_version)
    for key in ("tp", "dp", "pp"):
        assert getattr(runs, key) in (None, said.get(key, 1))
    if runs.model:
        assert runs.tp
        assert runs.max_model_len
        assert runs.dtype
        assert runs.prefix_caching is True
        config = Config(**said)
        assert mismatches(Asked(config=config, model=runs.model, version=version), runs) == ()
        wrong = replace(config, tp=config.tp * 4)
        (difference,) = mismatches(Asked(config=wrong, model=runs.model), runs)
        assert difference == f"asked for tensor-parallel size {wrong.tp}, it runs with {config.tp}"


@pytest.mark.parametrize("name", names("corpus/B*.txt"))
def test_logs_of_strangers_give_the_version_that_the_index_names(name: str) -> None:
    rows = [line.split("\t") for line in read(shared("corpus", "index.tsv")).splitlines()]
    versions = {row[0]: row[3] for row in rows if len(row) > 3}
    log = read_service_log(read(shared(name)))
    runs = read_back(log, SERVED)

    if log.vllm_version and re.match(r"\d", stated := versions.get(name[-7:-4], "").split(" ")[0]):
        assert log.vllm_version.startswith(stated)
    for size in (runs.tp, runs.dp, runs.pp):
        assert size is None or 1 <= size <= 64


@pytest.mark.parametrize(
    ("prom", "tokens", "engines"),
    [
        ("captures/cpu/metrics/v0.32.0_dp2.prom", 2_097_152, 2),
        ("captures/cpu/metrics/v0.32.0_tp2.prom", 4_194_304, 1),
        ("captures/cpu/metrics/v0.11.0_after_load.prom", 2_097_152, 1),
        ("captures/gpu/h200x2/c-30b-tp2.metrics.txt.xz", 2_104_512, 1),
        ("captures/gpu/h200/a-7b-4runs.metrics.txt.xz", 2_115_440, 1),
    ],
)
def test_real_metrics_give_room_and_engines_without_any_log(prom: str, tokens: int, engines: int) -> None:
    reading = metrics.read(read(shared(prom)))
    runs = read_back(read_service_log(""), SERVED, reading)

    assert (runs.engines, runs.dp, runs.prefix_caching) == (engines, engines, True)
    assert runs.kv_cache_tokens == tokens * engines


def test_a_server_that_is_as_asked_differs_in_nothing() -> None:
    assert mismatches(ASKED, RUNS) == ()


@pytest.mark.parametrize(
    ("asked", "runs", "said"),
    [
        ({}, {"tp": 1}, "asked for tensor-parallel size 2, it runs with 1"),
        ({}, {"dp": 4}, "asked for data-parallel size 1, it runs with 4"),
        ({}, {"pp": 2}, "asked for pipeline stages 1, it runs with 2"),
        ({}, {"max_model_len": 4096}, "asked for max-model-len 8192, it runs with 4096"),
        ({}, {"vllm_version": "0.10.1.1"}, "asked for vLLM 0.25.1, 0.10.1.1 answers"),
        ({}, {"model": "/srv/other"}, "asked for model org/m, it loaded /srv/other"),
        ({}, {"models": ("x", "y")}, "asked for the name org/m, it answers to x, y"),
        ({"arguments": ("--enforce-eager",)}, {}, "asked for eager mode on, it runs with it off"),
        (
            {"arguments": ("--no-enable-prefix-caching",)},
            {},
            "asked for prefix caching off, it runs with it on",
        ),
        ({"arguments": ("--dtype", "half")}, {}, "asked for dtype half, it computes in bfloat16"),
        (
            {"arguments": ("--attention-backend=FLASHINFER",)},
            {},
            "asked for attention backend FLASHINFER, it chose FLASH_ATTN",
        ),
        (
            {"arguments": ("--tensor-parallel-size", "4")},
            {},
            "asked for tensor-parallel size 4, it runs with 2",
        ),
    ],
)
def test_a_difference_names_both_values(asked: dict[str, object], runs: dict[str, object], said: str) -> None:
    assert mismatches(replace(ASKED, **asked), replace(RUNS, **runs)) == (said,)  # type: ignore[arg-type]


def test_what_nothing_says_is_unknown_and_no_mismatch() -> None:
    asked = replace(ASKED, arguments=("--enforce-eager", "--dtype=half", "--max-num-seqs", "4"))

    assert mismatches(asked, Effective()) == ()


@pytest.mark.parametrize(
    "arguments", [("--dtype=auto",), ("--max-model-len", "auto"), ("--dtype", "bfloat16")]
)
def test_what_leaves_the_choice_to_the_server_is_no_mismatch(arguments: tuple[str, ...]) -> None:
    assert mismatches(replace(ASKED, config=Config(tp=2), arguments=arguments), RUNS) == ()


def test_the_failure_shows_every_difference_and_is_not_worth_another_try() -> None:
    failure = failure_of(mismatches(ASKED, replace(RUNS, tp=1, max_model_len=1024)))

    assert failure.kind == KIND
    assert failure.evidence == (
        "asked for tensor-parallel size 2, it runs with 1; asked for max-model-len 8192, it runs with 1024"
    )
    assert failure.advice
    assert not failure.retryable


@pytest.mark.parametrize(
    ("asked", "found", "same"),
    [
        ("0.25.1", "0.25.1+cu129", True),
        ("0.8.5", "0.8.5.post1", True),
        ("0.32.0", "0.32", True),
        ("0.10.1", "0.10.1.1", False),
        ("0.23.1", "0.23.1rc1.dev3+g1", False),
        ("0.11.0", "0.11.1", False),
    ],
)
def test_versions_are_compared_as_releases(asked: str, found: str, same: bool) -> None:
    assert same_version(asked, found) is same


@pytest.mark.parametrize(
    ("asked", "loaded", "same"),
    [
        ("/srv/m", "/srv/m/", True),
        ("org/m", "/opt/hub/models--org--m/snapshots/0a1b", True),
        ("org/m", "/opt/hub/models--org--m-chat/snapshots/0a1b", False),
        ("org/m", "org/n", False),
    ],
)
def test_a_snapshot_in_the_cache_is_the_model_of_its_name(asked: str, loaded: str, same: bool) -> None:
    assert same_model(asked, loaded) is same
