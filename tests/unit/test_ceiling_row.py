"""The ceiling of a measured row: real rows of H200 hosts, what binds, and when nothing is claimed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import architecture, saved_facts
from shared_material import shared

from fleetbench.ceiling.row import Served, ceiling_of
from fleetbench.facts.values import Gpu
from fleetbench.model import Config, Workload
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.hardware import Card, card_named
from fleetbench.plan.quantisation import Quantisation
from fleetbench.results.parse import parse
from fleetbench.results.rows import Json
from fleetbench.results.values import BenchResult

LLAMA, CODER = architecture("llama-3.1-8b"), architecture("qwen3-coder-30b-a3b")
ONE = Config()
CLOSED = Workload(input_len=1024, output_len=1024, num_prompts=640, max_concurrency=64)


def card(name: str = "H200") -> Card:
    found = card_named(name)
    assert found is not None
    return found


def result(tps: float, workload: Workload = CLOSED, **changed: Any) -> BenchResult:
    """A whole result with that many output tokens a second."""
    count = workload.num_prompts
    given = BenchResult(
        completed=count,
        failed=0,
        num_prompts=count,
        duration=count * workload.output_len / tps,
        total_input_tokens=count * workload.input_len,
        total_output_tokens=count * workload.output_len,
        output_throughput=tps,
    )
    return replace(given, **changed)


def row(
    tps: float,
    telemetry: Mapping[str, Json] | None = None,
    *,
    shape: Architecture = LLAMA,
    config: Config = ONE,
    workload: Workload = CLOSED,
    **served: Any,
) -> Mapping[str, Json]:
    return ceiling_of(
        shape, card(), config, workload, result(tps, workload), telemetry or {}, Served(**served)
    )


def number(found: Mapping[str, Json], name: str) -> float:
    value = found[name]
    assert isinstance(value, int | float)
    return value


H200_ROWS = {
    "h200/a-7b-r1": ("qwen2.5-7b", 1),
    "h200/a-7b-r2": ("qwen2.5-7b", 1),
    "h200/a-7b-r3": ("qwen2.5-7b", 1),
    "h200/a-7b-seed1": ("qwen2.5-7b", 1),
    "h200/b-30b-r1": ("qwen3-coder-30b-a3b", 1),
    "h200/b-30b-r2": ("qwen3-coder-30b-a3b", 1),
    "h200x2/c-30b-tp2-r1": ("qwen3-coder-30b-a3b", 2),
    "h200x2/c-30b-tp2-r2": ("qwen3-coder-30b-a3b", 2),
    "h200x2/c-30b-tp2-r3-plain": ("qwen3-coder-30b-a3b", 2),
}


@pytest.mark.parametrize("hits", [None, 0.0, 0.017, 0.876])
@pytest.mark.parametrize("name", H200_ROWS)
def test_what_real_h200s_did_is_below_the_strict_ceiling(name: str, hits: float | None) -> None:
    model, tp = H200_ROWS[name]
    text = shared("captures", "gpu", f"{name}.bench.json").read_text("utf-8")
    (block,) = parse(text)
    gpus = tuple(
        Gpu(index=index, name="NVIDIA H200", memory_mib=143771, compute_capability="9.0")
        for index in range(tp)
    )
    prompts = block.result.num_prompts or 0
    found = ceiling_of(
        architecture(model),
        gpus,
        Config(tp=tp),
        Workload(num_prompts=prompts, max_concurrency=1000, temperature=0.7),
        block.result,
        {} if hits is None else {"prefix_hit_share": hits},
        Served(version="0.25.1"),
    )
    assert 0 < number(found, "of_strict_percent") < number(found, "of_ceiling_percent") < 50
    assert number(found, "strict_output_tps") > number(found, "ceiling_output_tps")
    assert number(found, "ceiling_output_tps") >= number(found, "serial_output_tps")
    assert found["gpu"] == "NVIDIA H200"
    tpot = block.result.latencies["mean_tpot_ms"]
    assert number(found, "tpot_floor_ms") < tpot


def test_the_host_is_what_held_a_30b_back_whose_gpu_was_idle_two_thirds_of_the_time() -> None:
    # vLLM 0.25.1 on one H200, 128/128 tokens at a concurrency of 1,000: 6,016 tok/s at 31 % and 300 of 700 W.
    workload = Workload(num_prompts=2000, max_concurrency=1000)
    seen: dict[str, Json] = {
        "gpu_util_mean": 31.0,
        "gpu_power_w_mean": 300.0,
        "kv_usage_max": 0.33,
        "running_mean": 940.0,
        "waiting_mean": 5.0,
        "client_cpu_cores_mean": 0.6,
    }
    found = row(6016, seen, shape=CODER, workload=workload)
    assert found["binds"] == "scheduler"
    assert found["why"] == (
        "the GPUs wait for their host: 31% busy, 43% of their power, 14% of the serial estimate"
    )


@pytest.mark.parametrize(
    ("concurrency", "prompts", "tps", "busy", "power_w", "running", "binds", "share"),
    [
        (1, 10, 203.1, 93, 397, 0.86, "bandwidth", 64),
        (64, 640, 8583, 100, 575, 50, "bandwidth", 45),
        (128, 1280, 12284, 98, 633, 98, "compute", 38),
        (256, 2560, 11563, 69, 513, 213, "scheduler", 35),
    ],
)
def test_what_bound_a_7b_on_an_h200_as_its_load_grew(
    concurrency: int,
    prompts: int,
    tps: float,
    busy: float,
    power_w: float,
    running: float,
    binds: str,
    share: float,
) -> None:
    # vLLM 0.25.1 by an own sweep, 128/128 tokens: more requests made it slower, with a GPU that waited.
    workload = Workload(num_prompts=prompts, max_concurrency=concurrency)
    seen: dict[str, Json] = {
        "gpu_util_mean": busy,
        "gpu_power_w_mean": power_w,
        "kv_usage_max": 0.03,
        "running_mean": running,
        "waiting_mean": 1.0 if concurrency == 256 else 0.0,
        "prefix_hit_share": 0.036 if concurrency == 256 else 0.0,
        "client_cpu_cores_mean": 0.5,
    }
    found = row(tps, seen, shape=architecture("qwen2.5-7b"), workload=workload)
    assert (found["binds"], round(number(found, "of_ceiling_percent"))) == (binds, share)


@pytest.mark.parametrize(
    ("concurrency", "tps", "busy", "power_w", "running", "e2e_s", "parts_s", "binds"),
    [
        (1, 197.2, 86.6, 426, 1.0, 0.6455, (0.0, 0.0153, 0.6258), "bandwidth"),
        (64, 8281, 99.5, 602, 63.9, 0.9357, (0.0001, 0.0919, 0.7572), "bandwidth"),
        (128, 12303, 92.8, 633, 86.7, 1.2203, (0.0001, 0.1353, 0.9334), "compute"),
        (256, 12153, 73.6, 540, 203.4, 2.5497, (0.0183, 0.2399, 1.4771), "api-server"),
        (256, 9859, 63.1, 465, 195.3, 3.1482, (0.0041, 0.2102, 1.4825), "api-server"),
        (1000, 10594, 80.0, 571, 401.3, 11.4457, (0.0563, 0.0947, 2.7478), "api-server"),
        (1000, 9308, 73.6, 536, 417.9, 12.9791, (0.0405, 0.0941, 3.1591), "api-server"),
    ],
)
def test_the_api_server_binds_where_requests_are_in_the_server_and_not_in_its_engine(
    concurrency: int,
    tps: float,
    busy: float,
    power_w: float,
    running: float,
    e2e_s: float,
    parts_s: tuple[float, float, float],
    binds: str,
) -> None:
    # The same server on 1 December 2026, ten waves of each load: of 1,000 requests its engine saw 400.
    workload = Workload(num_prompts=10 * concurrency, max_concurrency=concurrency)
    seen: dict[str, Json] = {
        "gpu_util_mean": busy,
        "gpu_power_w_mean": power_w,
        "kv_usage_max": 0.12,
        "running_mean": running,
        "waiting_mean": 4.0 if concurrency == 1000 else 0.0,
        "client_cpu_cores_mean": 0.5,
        "e2e_s_mean": e2e_s,
        **dict(zip(("queue_s_mean", "prefill_s_mean", "decode_s_mean"), parts_s, strict=True)),
    }
    found = row(tps, seen, shape=architecture("qwen2.5-7b"), workload=workload)
    assert found["binds"] == binds, found["why"]
    if concurrency == 1000 and tps > 10_000:
        assert found["why"] == (
            "of 11.4 s in the server a request was in the engine for 2.9 s: the API server, "
            "which takes in and hands out, has the rest"
        )


def test_the_shares_of_decode_and_prefill_make_the_share_of_the_serial_estimate() -> None:
    found = row(4515.4)
    assert number(found, "serial_output_tps") == pytest.approx(9031, rel=2e-3)
    total = number(found, "decode_percent") + number(found, "prefill_percent")
    assert total == pytest.approx(50, abs=0.2)
    assert number(found, "decode_percent") > 4 * number(found, "prefill_percent")


def test_more_than_the_serial_estimate_is_no_contradiction() -> None:
    found = row(9500)
    assert number(found, "decode_percent") + number(found, "prefill_percent") > 100
    assert number(found, "of_strict_percent") < 100


def test_what_cannot_be_is_above_the_strict_ceiling() -> None:
    assert number(row(60_000), "of_strict_percent") > 100


def test_cached_prompts_are_no_work() -> None:
    long = Workload(input_len=8000, output_len=16, num_prompts=640, max_concurrency=64)
    fresh = number(row(400, {"prefix_hit_share": 0.0}, workload=long), "strict_output_tps")
    cached = number(row(400, {"prefix_hit_share": 0.9}, workload=long), "strict_output_tps")
    unknown = number(row(400, workload=long), "strict_output_tps")
    off = number(row(400, workload=long, effective={"prefix_caching": False}), "strict_output_tps")
    assert fresh == off < cached < unknown
    expected = row(400, {"prefix_hit_share": 0.9}, workload=long)
    assert number(expected, "ceiling_output_tps") > number(row(400, workload=long), "ceiling_output_tps")
    assert "90% of prompt tokens from the prefix cache" in str(expected["basis"])


@pytest.mark.parametrize(
    ("telemetry", "served", "tps", "binds"),
    [
        ({}, {}, 8000, "bandwidth"),
        ({}, {}, 2000, "unknown"),
        ({}, {"effective": {"kv_cache_tokens": 40_000}}, 800, "kv-room"),
        ({"kv_usage_max": 0.99, "waiting_mean": 20.0, "running_mean": 40.0}, {}, 2000, "kv-room"),
        ({"kv_usage_max": 0.4, "client_cpu_cores_mean": 0.99}, {}, 2000, "client"),
        ({"kv_usage_max": 0.4, "running_mean": 20.0, "waiting_mean": 0.0}, {}, 2000, "client"),
        (
            {"kv_usage_max": 0.4, "client_cpu_cores_mean": 3.0, "gpu_util_mean": 40.0},
            {"client_program": "rust"},
            2000,
            "scheduler",
        ),
        (
            {"kv_usage_max": 0.4, "running_mean": 16.0, "waiting_mean": 48.0},
            {"words": ("--max-num-seqs", "16")},
            1000,
            "scheduler",
        ),
        (
            {"kv_usage_max": 0.4, "running_mean": 63.0, "waiting_mean": 0.0, "gpu_util_mean": 99.0},
            {},
            2000,
            "unknown",
        ),
    ],
)
def test_what_binds_follows_from_what_was_sampled(
    telemetry: dict[str, Json], served: dict[str, Any], tps: float, binds: str
) -> None:
    found = row(tps, telemetry, **served)
    assert found["binds"] == binds, found["why"]
    assert len(str(found["why"]).splitlines()) == 1


def test_a_split_over_gpus_that_mostly_talk_is_bound_by_the_link() -> None:
    slow = replace(card("RTX 4090"), link_gb_s=4.0)
    workload = replace(CLOSED, output_len=128)
    found = ceiling_of(LLAMA, slow, Config(tp=2), workload, result(700, workload))
    assert found["binds"] == "interconnect"


@pytest.mark.parametrize(
    ("shape", "words", "said"),
    [
        (LLAMA, ("--speculative-config", '{"method": "ngram"}'), "--speculative-config"),
        (LLAMA, ("--speculative_config.method=ngram",), "--speculative-config.method"),
        (LLAMA, ("--hf-overrides", "{}"), "--hf-overrides"),
        (LLAMA, ("--quantization", "fp8"), "--quantization fp8"),
        (LLAMA, ("--gpu-memory-utilization", "much"), "not understood"),
        (replace(LLAMA, notes=("3 layers without attention are counted like the others",)), (), "3 layers"),
        (replace(LLAMA, kind="deepseek_v32"), (), "deepseek_v32"),
        (replace(LLAMA, quantisation=Quantisation(method="new", bits=16.0)), (), "how new stores"),
    ],
)
def test_nothing_is_strict_where_an_input_is_not_known(
    shape: Architecture, words: tuple[str, ...], said: str
) -> None:
    found = row(4000, shape=shape, words=words)
    assert not {"strict_output_tps", "of_strict_percent", "tpot_floor_ms"} & set(found)
    assert said in str(found["basis"])
    assert number(found, "of_ceiling_percent") > 0


def test_without_gpus_or_numbers_nothing_is_said() -> None:
    whole = result(100)
    assert ceiling_of(LLAMA, (), Config(), CLOSED, whole) == {}
    assert ceiling_of(LLAMA, card(), Config(), CLOSED, None) == {}
    for rate in (None, 0.0, -1.0, math.nan, math.inf):
        assert ceiling_of(LLAMA, card(), Config(), CLOSED, result(100, output_throughput=rate)) == {}


def test_an_unknown_gpu_or_model_is_said_and_nothing_is_claimed() -> None:
    strange = (Gpu(index=0, name="Accelerator X\n\x1b[31m", memory_mib=1000),)
    found = ceiling_of(LLAMA, strange, Config(), CLOSED, result(100))
    assert set(found) == {"binds", "why"}
    assert found["binds"] == "unknown"
    assert "\x1b" not in str(found["why"])
    assert "shape of the model" in str(ceiling_of(None, card(), Config(), CLOSED, result(100))["why"])


def test_gpus_of_a_host_are_told_apart_by_name_where_memory_does_not() -> None:
    facts = saved_facts("h100x1")
    assert facts.gpus
    found = ceiling_of(LLAMA, facts.gpus, Config(), CLOSED, result(100))
    assert found["gpu"] == facts.gpus[0].name == "NVIDIA H100 PCIe"


def test_a_cache_of_eight_bits_halves_what_is_read_of_the_context() -> None:
    wide, narrow = row(4000), row(4000, effective={"kv_cache_dtype": "fp8"})
    assert number(narrow, "ceiling_output_tps") > number(wide, "ceiling_output_tps")
    assert number(narrow, "strict_output_tps") > number(wide, "strict_output_tps")


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.none(), max_size=2),
)
KEYS = (
    "kv_usage_max",
    "waiting_mean",
    "running_mean",
    "preemptions",
    "prefix_hit_share",
    "client_cpu_cores_mean",
    "gpu_util_mean",
    "gpu_power_w_mean",
)
EFFECTIVE = ("kv_cache_tokens", "max_num_seqs", "prefix_caching", "kv_cache_dtype")


@given(
    telemetry=st.dictionaries(st.sampled_from(KEYS), ODD),
    effective=st.dictionaries(st.sampled_from(EFFECTIVE), ODD),
    words=st.lists(st.text(max_size=20), max_size=3),
    totals=st.tuples(*[st.one_of(st.none(), st.integers(-5, 10**20))] * 3),
    rate=st.floats(),
    version=st.text(max_size=8),
)
def test_whatever_was_read_it_is_a_row_of_finite_numbers_or_nothing(
    telemetry: dict[str, Any],
    effective: dict[str, Any],
    words: list[str],
    totals: tuple[int | None, ...],
    rate: float,
    version: str,
) -> None:
    given_result = BenchResult(
        completed=totals[0],
        total_input_tokens=totals[1],
        total_output_tokens=totals[2],
        output_throughput=rate,
    )
    served = Served(words=tuple(words), effective=effective, version=version)
    found = ceiling_of(LLAMA, card(), Config(), CLOSED, given_result, telemetry, served)
    json.dumps(dict(found), allow_nan=False)
    assert all(math.isfinite(value) for value in found.values() if isinstance(value, float))


def test_at_a_given_rate_as_many_requests_are_under_way_as_littles_law_says() -> None:
    workload = replace(CLOSED, max_concurrency=None, request_rate=2.0)
    given_result = result(2048, workload, request_throughput=2.0, latencies={"mean_e2el_ms": 5000.0})
    found = ceiling_of(LLAMA, card(), ONE, workload, given_result)
    assert found["in_flight"] == 10
    assert (found["binds"], found["why"]) == ("client", "no more than 2 requests a second are sent")
    all_at_once = replace(CLOSED, max_concurrency=None)
    assert ceiling_of(LLAMA, card(), ONE, all_at_once, result(2048, all_at_once))["in_flight"] == 640
    # Whatever the rate, all of them may come together: the strict ceiling is the same.
    strict = number(found, "strict_output_tps")
    assert strict == number(ceiling_of(LLAMA, card(), ONE, all_at_once, given_result), "strict_output_tps")


@pytest.mark.parametrize("argument", ['{"n": 4}', '{"best_of": 2}', "--use-beam-search"])
def test_requests_with_several_answers_have_no_strict_ceiling(argument: str) -> None:
    found = row(4000, workload=replace(CLOSED, extra_args=("--extra-body", argument)))
    assert "of_strict_percent" not in found
    assert "of_ceiling_percent" in found
