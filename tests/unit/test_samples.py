"""Single requests out of result files: vLLM's own numbers of them, pooled over repeats, and hostile ones."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_material import SHARED, names, read

from fleetbench.results.samples import Samples, latencies, read_samples, samples_of

BASE = {
    "completed": 2,
    "duration": 1.0,
    "request_throughput": 2.0,
    "output_throughput": 6.0,
    "total_token_throughput": 8.0,
    "total_input_tokens": 8,
    "total_output_tokens": 6,
    "input_lens": [4, 4],
    "output_lens": [3, 3],
    "ttfts": [0.1, 0.2],
    "itls": [[0.05, 0.15], [0.1, 0.1]],
    "errors": ["", ""],
    "start_times": [7.0, 7.5],
}


def result(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (BASE | changes).items() if value is not None}


def made(**changes: Any) -> Samples:
    found = samples_of(result(**changes))
    assert found is not None
    return found


def test_a_request_has_its_times_on_the_runs_own_clock() -> None:
    first, second = made().requests
    assert (first.started_s, second.started_s) == (0.0, 0.5)
    assert (first.ttft_s, first.e2el_s, first.tpot_s) == (0.1, pytest.approx(0.3), pytest.approx(0.1))
    assert (second.input_tokens, second.output_tokens) == (4, 3)
    assert list(second.arrivals()) == [pytest.approx(0.7), pytest.approx(0.8), pytest.approx(0.9)]


def test_the_clients_own_latency_is_taken_where_it_is_written_down() -> None:
    assert [request.e2el_s for request in made(latencies=[0.31, 0.41]).requests] == [0.31, 0.41]
    assert made(start_times=None).requests[0].started_s is None
    assert not made(start_times=None).timed


def test_failed_requests_have_no_times() -> None:
    found = made(errors=["", "Bad Request"], ttfts=[0.1, 0.0], output_lens=[3, 0], itls=[[0.1, 0.1], []])
    assert (len(found.requests), found.failed, found.unreadable) == (1, 1, 0)
    # Before 0.9 a failed request is told by its empty answer alone.
    found = made(errors=None, ttfts=[0.1, 0.0], output_lens=[3, 0], itls=[[0.1, 0.1], []])
    assert (len(found.requests), found.failed) == (1, 1)


def test_a_single_token_has_no_time_per_output_token() -> None:
    found = made(output_lens=[1, 1], itls=[[], []])
    assert found.requests[0].tpot_s is None
    assert "mean_tpot_ms" not in latencies([found])
    assert "mean_itl_ms" not in latencies([found])


@pytest.mark.parametrize(
    ("changes", "unreadable"),
    [
        ({"ttfts": [0.1, float("nan")]}, 1),
        ({"ttfts": [-0.1, 0.2]}, 1),
        ({"ttfts": [True, "0.2"]}, 2),
        ({"ttfts": [1e300, 0.2]}, 1),
        ({"itls": [[0.1, float("inf")], [0.1]]}, 1),
        ({"itls": [[0.1, -0.1], ["x"]]}, 2),
        ({"itls": [None, [10**400]]}, 2),
        ({"output_lens": [3, None]}, 1),
        ({"latencies": [0.05, 0.4]}, 1),
    ],
)
def test_a_time_that_is_none_takes_its_request_out(changes: dict[str, Any], unreadable: int) -> None:
    found = made(**changes)
    assert found.unreadable == unreadable
    assert len(found.requests) == 2 - unreadable


@pytest.mark.parametrize(
    "changes",
    [{"ttfts": None}, {"itls": None}, {"ttfts": [0.1]}, {"itls": [[0.1]]}, {"output_lens": "33"}],
)
def test_lists_that_do_not_belong_together_are_no_requests(changes: dict[str, Any]) -> None:
    assert samples_of(result(**changes)) is None


def test_of_several_results_in_a_file_the_last_one_counts() -> None:
    text = json.dumps(result()) + "\n" + json.dumps(result(ttfts=[0.3, 0.4]))
    found = read_samples(text)
    assert found is not None
    assert found.requests[0].ttft_s == 0.3


@pytest.mark.parametrize("text", ["", "{", "[[[", '{"ttfts": []}', "[" * 200_000, "Mean TTFT (ms): 3.00"])
def test_what_is_no_result_has_no_requests(text: str) -> None:
    assert read_samples(text) is None
    assert read_samples(text.encode()) is None


def test_percentiles_are_those_of_all_requests_and_no_mean_of_percentiles() -> None:
    r = random.Random(1)  # noqa: S311  made-up values
    quick = [r.uniform(0.01, 0.02) for _ in range(900)]
    slow = [r.uniform(1.0, 2.0) for _ in range(100)]
    together = sorted(quick + slow)

    def of(ttfts: list[float]) -> Samples:
        count = len(ttfts)
        found = samples_of({"ttfts": ttfts, "output_lens": [1] * count, "itls": [[]] * count})
        assert found is not None
        return found

    found = latencies([of(quick), of(slow)])
    place = 0.95 * 999
    low = math.floor(place)
    by_hand = together[low] + (place - low) * (together[low + 1] - together[low])
    assert found["p95_ttft_ms"] == pytest.approx(by_hand * 1000)
    assert found["median_ttft_ms"] == pytest.approx((together[499] + together[500]) / 2 * 1000)
    apart = (latencies([of(quick)])["p95_ttft_ms"] + latencies([of(slow)])["p95_ttft_ms"]) / 2
    assert abs(apart / found["p95_ttft_ms"] - 1) > 0.3
    assert latencies([]) == {}


DETAILED = [
    name
    for name in names("captures/cpu/**/*.json")
    if "append" not in name and '"itls"' in read(SHARED / name)[:20_000_000]
]


@pytest.mark.parametrize("name", DETAILED)
def test_every_version_of_vllm_reports_what_its_requests_say(name: str) -> None:
    reported = json.loads(read(SHARED / name))
    found = read_samples(read(SHARED / name))
    assert found is not None
    assert len(found.requests) == reported["completed"]
    if not found.requests:
        return
    mine = latencies([found])
    same = [key for key in mine if key in reported]
    assert len(same) >= 12
    for key in same:
        # Before 0.30 the end of a request is not written down; its pieces come a microsecond short of it.
        assert mine[key] == pytest.approx(reported[key], rel=1e-5, abs=2e-3), key


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(sorted({*BASE, "latencies", "queue_times"})), JSON))
def test_hostile_lists_never_raise_and_never_give_a_number_that_is_none(changes: dict[str, Any]) -> None:
    found = samples_of(BASE | changes)
    if found is not None:
        assert all(math.isfinite(value) and value >= 0 for value in latencies([found]).values())
        assert all(request.e2el_s >= request.ttft_s for request in found.requests)
