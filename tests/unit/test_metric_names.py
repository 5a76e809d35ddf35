"""A server's /metrics by name: every captured version gives the same named series, and the right numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_material import names, read, shared

from fleetbench.telemetry.exposition import Snapshot, snapshot, together
from fleetbench.telemetry.names import Kind, sources, table

CAPTURES = names("captures/cpu/metrics/*.prom") + names("captures/gpu/*/*.metrics.txt.xz")
# What every version from 0.8 on has; V0's own series are the rest of the table.
EVERYWHERE = {
    *("prompt_tokens", "generation_tokens", "running", "waiting", "preemptions", "kv_usage", "requests"),
    *("prefix_queries", "prefix_hits", "finished_stop", "finished_length", "finished_abort"),
    *(
        f"{phase}_s_{part}"
        for phase in ("queue", "prefill", "decode", "e2e", "ttft")
        for part in ("sum", "count")
    ),
}
V0 = """# HELP vllm:num_requests_running Number of requests currently running on GPU.
vllm:num_requests_running{model_name="m"} 10.0
vllm:num_requests_swapped{model_name="m"} 2.0
vllm:num_requests_waiting{model_name="m"} 5.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:cpu_cache_usage_perc{model_name="m"} 0.5
vllm:gpu_prefix_cache_hit_rate{model_name="m"} 0.125
vllm:num_preemptions_total{model_name="m"} 3.0
vllm:prompt_tokens_total{model_name="m"} 800.0
vllm:generation_tokens_total{model_name="m"} 5120.0
vllm:request_success_total{finished_reason="stop",model_name="m"} 7.0
vllm:request_success_total{finished_reason="abort",model_name="m"} 1.0
vllm:request_queue_time_seconds_sum{model_name="m"} 1.5
vllm:request_queue_time_seconds_count{model_name="m"} 8.0
vllm:request_queue_time_seconds_bucket{le="0.3",model_name="m"} 8.0
"""


@pytest.mark.parametrize("name", CAPTURES)
def test_every_captured_version_gives_the_same_named_series(name: str) -> None:
    text = read(shared(name))
    if not text:
        pytest.skip("this one was captured from a server that had died")
    seen = snapshot(text)

    assert set(seen.values) >= EVERYWHERE
    assert seen.values["requests"] == seen.values["finished_stop"] + seen.values["finished_length"]
    assert seen.values["queue_s_count"] >= seen.values["requests"]
    assert 0 <= seen.values["kv_usage"] <= seen.highest["kv_usage"] <= 1


def test_counters_are_added_up_over_data_parallel_engines() -> None:
    seen = snapshot(read(shared("captures", "cpu", "metrics", "v0.32.0_dp2.prom")))

    assert seen.engines == 2
    assert seen.values["prompt_tokens"] == 6669 + 6156
    assert seen.values["generation_tokens"] == 6656 + 6144
    assert (seen.values["prefix_queries"], seen.values["prefix_hits"]) == (12_825, 128)
    assert (seen.values["requests"], seen.values["finished_length"]) == (100, 100)
    assert seen.values["queue_s_sum"] == pytest.approx(0.0014147159 + 0.0013910060)


def test_the_old_engine_swaps_and_has_a_hit_rate_instead_of_counters() -> None:
    seen = snapshot(V0).values

    assert (seen["running"], seen["swapped"], seen["waiting"], seen["preemptions"]) == (10, 2, 5, 3)
    assert (seen["kv_usage"], seen["cpu_kv_usage"], seen["prefix_hit_rate"]) == (0.25, 0.5, 0.125)
    assert (seen["requests"], seen["finished_stop"], seen["finished_abort"]) == (7, 7, 1)
    assert (seen["queue_s_sum"], seen["queue_s_count"]) == (1.5, 8)
    assert "prefix_queries" not in seen


def test_a_share_is_the_mean_and_the_highest_of_engines_and_the_newest_name_counts() -> None:
    engines = "".join(
        f'vllm:gpu_cache_usage_perc{{engine="{n}"}} {old}\nvllm:kv_cache_usage_perc{{engine="{n}"}} {new}\n'
        for n, old, new in ((0, 0.9, 0.2), (1, 0.9, 0.6))
    )
    seen = snapshot(engines)

    assert seen.values["kv_usage"] == pytest.approx(0.4)
    assert seen.highest["kv_usage"] == pytest.approx(0.6)


def test_a_name_is_the_whole_name() -> None:
    seen = snapshot(
        'vllm:num_requests_waiting{engine="0"} 64.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 0.0\n'
        "vllm:prompt_tokens_created 1.7e9\nvllm:prompt_tokens_by_source_total 3\n"
    )
    assert dict(seen.values) == {"waiting": 64}


def test_several_servers_are_one_and_what_one_lacks_is_unknown() -> None:
    one = snapshot('vllm:num_requests_running{engine="0"} 3\nvllm:kv_cache_usage_perc{engine="0"} 0.2\n')
    other = snapshot(
        'vllm:num_requests_running{engine="0"} 4\nvllm:kv_cache_usage_perc{engine="0"} 0.8\n'
        "vllm:num_preemptions_total 1\n"
    )
    both = together([one, other])

    assert both.values == pytest.approx({"running": 7, "kv_usage": 0.5})
    assert (both.highest["kv_usage"], both.engines) == (0.8, 2)
    assert together([]) == Snapshot()


def test_names_of_the_table_are_those_of_real_versions() -> None:
    listed = shared("captures", "cpu", "metrics", "metric_names_by_version.tsv").read_text("utf-8")
    known = {line.split("\t")[1].removeprefix("vllm:").removesuffix("_total") for line in listed.splitlines()}
    old = {"num_requests_swapped", "cpu_cache_usage_perc", "gpu_prefix_cache_hit_rate"}
    mine = {name.removesuffix("_total") for series in table() for name in series.names}
    assert mine - old <= known


def test_keys_are_used_once_and_histograms_have_two() -> None:
    keys = [series.key for series in table()]
    assert len(set(keys)) == len(keys)
    assert {"request_queue_time_seconds_sum", "request_queue_time_seconds_count"} <= set(sources())
    assert all(series.names and series.kind in Kind for series in table())


@given(st.text(max_size=400), st.sampled_from(["vllm:num_requests_running", "vllm:request_success_total"]))
def test_any_text_is_only_finite_numbers(text: str, name: str) -> None:
    seen = snapshot(f"{name}{{{text}}} {text}\n{name} {text}\n{text}")
    assert all(0 <= value < 1e18 for value in seen.values.values())


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e400", "", "1 2 3", "0x10", "१e400"])
def test_no_number_is_no_value(value: str) -> None:
    assert snapshot(f"vllm:prompt_tokens_total {value}\n").values.get("prompt_tokens") is None


def test_a_reason_that_is_no_word_is_no_key() -> None:
    seen = snapshot('vllm:request_success_total{finished_reason="../x y"} 3\n')
    assert [key for key in seen.values if not re.fullmatch("[a-z_]+", key)] == []
