"""What a measurement is worth: each rule with a case on either side of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_rows import result

from fleetbench.model import Workload
from fleetbench.results.rows import Judgement, Verdict
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import failed_requests, judge

WORKLOAD = Workload(num_prompts=1000, max_concurrency=100)
GOOD = replace(
    result(5000),
    completed=1000,
    num_prompts=1000,
    total_output_tokens=128_000,
    total_input_tokens=128_000,
    duration=25.6,
)


def judged(workload: Workload = WORKLOAD, **changes: object) -> Judgement:
    """Judge the good result with changes; rates that are not changed follow from counts and duration."""
    changed = replace(GOOD, **changes)  # type: ignore[arg-type]
    return judge(consistent(changed, changes), workload, exit_status=0)


def consistent(found: BenchResult, changes: dict[str, object]) -> BenchResult:
    if not found.duration or not found.completed:
        return found
    made, sent = found.total_output_tokens or 128_000, found.total_input_tokens or 0
    rates = {
        "request_throughput": found.completed / found.duration,
        "output_throughput": made / found.duration,
        "total_token_throughput": (made + sent) / found.duration,
    }
    return replace(found, **{name: rate for name, rate in rates.items() if name not in changes})


def test_a_whole_result_is_valid_without_reasons() -> None:
    assert judged() == Judgement(verdict=Verdict.VALID)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0, "failed": 1000}, "none of 1000 requests completed"),
        ({"completed": 0, "failed": None}, "none of 1000 requests completed"),
        ({"completed": 920, "failed": 80}, "80 of 1000 requests failed"),
        ({"completed": 920, "failed": None}, "80 of 1000 requests failed"),
        ({"completed": 920, "failed": 0}, "920 requests completed, 1000 were asked for"),
        ({"completed": 1001, "failed": 0}, "1001 requests completed, 1000 were asked for"),
        ({"completed": None}, "the number of completed requests is unknown"),
        ({"num_prompts": 100}, "the report is about 100 prompts, 1000 were asked for"),
        ({"duration": 0.0}, "duration is 0"),
        ({"duration": None}, "duration is unknown"),
        ({"output_throughput": None}, "output_throughput is unknown"),
        ({"request_throughput": float("nan")}, "request_throughput is nan"),
        ({"total_output_tokens": 64_000}, "answers are shorter than asked: 64.0 tokens on average, not 128"),
        (
            {"total_output_tokens": 126_000},
            "answers are shorter than asked: 126.0 tokens on average, not 128",
        ),
    ],
)
def test_what_is_wrong_makes_it_invalid(changes: dict[str, object], reason: str) -> None:
    judgement = judged(**changes)
    assert judgement.verdict is Verdict.INVALID
    assert any(found.startswith(reason) for found in judgement.reasons)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total_output_tokens": None}, "the number of generated tokens is unknown"),
        ({"total_output_tokens": 256_000}, "answers are longer than asked: 256.0 tokens on average, not 128"),
    ],
)
def test_what_is_odd_makes_it_suspect(changes: dict[str, object], reason: str) -> None:
    found = judged(**changes)
    assert (found.verdict, found.reasons) == (Verdict.SUSPECT, (reason,))


def test_failures_that_an_old_vllm_does_not_report_are_counted_from_the_completed() -> None:
    assert failed_requests(BenchResult(completed=920), 1000) == 80
    assert failed_requests(BenchResult(completed=920, failed=3), 1000) == 3
    assert failed_requests(BenchResult(), 1000) is None


def test_ten_waves_are_enough_and_nine_are_suspect() -> None:
    assert judged(replace(WORKLOAD, max_concurrency=100)).verdict is Verdict.VALID
    judgement = judged(replace(WORKLOAD, max_concurrency=112))
    assert judgement.verdict is Verdict.SUSPECT
    assert judgement.reasons == ("8.9 waves of 112 requests, 10 are needed: use 1120 prompts",)
    assert judged(replace(WORKLOAD, max_concurrency=None, request_rate=5)).verdict is Verdict.VALID


def test_a_p99_of_few_requests_is_noted_and_still_valid() -> None:
    few = Workload(num_prompts=640, max_concurrency=64)
    judgement = judge(result(5000), few, exit_status=0)
    assert judgement.verdict is Verdict.VALID
    assert judgement.reasons == ("p99 rests on 640 requests, fewer than 1000",)


def test_lengths_that_vary_by_wish_are_not_held_against_it() -> None:
    varied = replace(WORKLOAD, extra_args=("--random-range-ratio", "0.5"))
    assert judged(varied, total_output_tokens=90_000).verdict is Verdict.VALID
    assert judged(replace(WORKLOAD, dataset="sharegpt"), total_output_tokens=9).verdict is Verdict.VALID


def test_no_report_is_invalid_whatever_the_exit_status() -> None:
    judgement = judge(None, WORKLOAD, exit_status=0)
    assert (judgement.verdict, judgement.reasons) == (Verdict.INVALID, ("no report could be read",))
    judgement = judge(None, WORKLOAD, exit_status=137)
    assert judgement.reasons[0] == "the bench client ended with status 137"


def test_a_cut_off_report_is_invalid_and_says_where() -> None:
    good = consistent(GOOD, {})
    judgement = judge(good, WORKLOAD, complete=False, problems=("line 14: cut off",), exit_status=0)
    assert judgement.verdict is Verdict.INVALID
    assert judgement.reasons == ("the report is incomplete: line 14: cut off",)


def test_the_worst_finding_decides_and_comes_first() -> None:
    judgement = judged(
        replace(WORKLOAD, max_concurrency=500), completed=990, failed=10, total_output_tokens=126_720
    )
    assert judgement.verdict is Verdict.INVALID
    assert judgement.reasons[0] == "10 of 1000 requests failed"
    assert "2.0 waves of 500 requests, 10 are needed: use 5000 prompts" in judgement.reasons
