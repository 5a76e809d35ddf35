"""Rows of others before the same rules: what is known decides, and what is not known is named."""

from __future__ import annotations

import re

import pytest
import shared_material
from judged_rows import found, report, rules

from fleetbench.results.parse import parse
from fleetbench.results.rows import Judgement, Verdict
from fleetbench.results.rules.case import Asked
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import Foreign, judge_foreign

LOAD = Asked(num_prompts=10_000, max_concurrency=1000, input_len=128, output_len=128)


def judged(result: BenchResult, asked: Asked = LOAD, **known: object) -> Judgement:
    return judge_foreign(Foreign(result=result, asked=asked, **known))  # type: ignore[arg-type]


def test_the_first_sources_example_block_passes() -> None:
    text = shared_material.read(shared_material.shared("sources", "tensor-vs-data-parallel.txt"))
    (block,) = parse(text)
    judgement = judge_foreign(
        Foreign(result=block.result, complete=block.complete, asked=LOAD, client_program="python")
    )
    assert judgement.verdict is Verdict.VALID
    assert rules(judgement) == {"client-bound", "unchecked"}


def test_its_quoted_table_cannot_be_output_and_fits_as_total() -> None:
    """Sixteen thousand tokens/s with a TTFT of 3.8 s: twice the requests in flight that were allowed."""
    quoted = BenchResult(output_throughput=17_349.0, latencies={"mean_ttft_ms": 3815.0, "mean_itl_ms": 83.0})
    judgement = judged(quoted)
    assert judgement.verdict is Verdict.INVALID
    finding = found(judgement, "concurrency-exceeded")
    assert finding.numbers["in_flight"] == pytest.approx(1946, abs=1)
    assert finding.numbers["in_flight_as_total"] == pytest.approx(973, abs=1)
    assert finding.text.endswith("read as total tokens it is 972.9, which fits")
    as_total = BenchResult(
        output_throughput=17_349.0 / 2, total_token_throughput=17_349.0, latencies=quoted.latencies
    )
    assert judged(as_total).verdict is Verdict.VALID


# The second source's rows of 100 requests, 10 at a time: output tokens/s, those of one request, failures.
ROWS = re.compile(
    r"^(?P<name>(?:H100X|gpu-|mi210x)\w+?)"
    r"(?P<prompt>\d+\.\d\d)(?P<output>\d+\.\d\d)(?P<latency>\d+\.\d\d)(?P<one>\d+\.\d\d)(?P<each>\d\.\d\d)"
    r"(?P<failed>\d{1,2})$",
    re.MULTILINE,
)


def second_source() -> list[re.Match[str]]:
    text = shared_material.read(shared_material.shared("sources", "multi-gpu-benchmarks-report.txt"))
    return list(ROWS.finditer(text.partition("### 5. Overview of concurrency")[0]))


def of_second(row: re.Match[str]) -> Judgement:
    failed = int(row["failed"])
    result = BenchResult(
        completed=100 - failed,
        failed=failed,
        output_throughput=float(row["output"]),
        latencies={"mean_e2el_ms": 1000 * float(row["latency"])},
    )
    asked = Asked(num_prompts=100, max_concurrency=10)
    return judged(result, asked, request_output_tps=float(row["one"]))


def test_the_second_sources_stalled_rows_and_failed_requests_are_flagged_and_no_others() -> None:
    rows = second_source()
    assert len(rows) >= 50
    stalled = [row for row in rows if "stalled" in rules(of_second(row))]
    assert [(row["name"], row["output"]) for row in stalled] == [
        ("mi210x2", "125.16"),
        ("H100X1", "105.12"),
        ("H100X2", "66.26"),
        ("gpu-xlarge", "73.99"),
        ("H100X2", "181.16"),
    ]
    assert {0.14 < found(of_second(row), "stalled").numbers["ratio"] < 0.32 for row in stalled} == {True}
    for row in rows:
        flagged = of_second(row).verdict is Verdict.INVALID
        assert flagged is (int(row["failed"]) > 0), row[0]


def test_a_context_that_was_never_exercised_eager_mode_and_one_prompt_for_all_are_suspect() -> None:
    asked = Asked(
        num_prompts=100,
        max_concurrency=10,
        input_len=8,
        output_len=512,
        max_model_len=65_536,
        context_varied=True,
        eager=True,
        same_prompt=True,
    )
    judgement = judged(BenchResult(completed=100, failed=0, output_throughput=570.0), asked)
    assert judgement.verdict is Verdict.SUSPECT
    assert {"context-unused", "eager-mode", "same-prompt"} <= rules(judgement)


def test_published_values_that_nothing_can_have_are_flagged() -> None:
    peak = BenchResult(
        output_throughput=3000.0, total_output_tokens=200_000, max_output_tokens_per_s=30_810_010.0
    )
    assert judged(peak).verdict is Verdict.INVALID
    fast = BenchResult(output_throughput=3000.0, latencies={"mean_tpot_ms": 0.12})
    assert judged(fast).verdict is Verdict.SUSPECT
    assert (
        judged(BenchResult(output_throughput=3000.0, latencies={"mean_tpot_ms": 5.4})).verdict
        is Verdict.VALID
    )


def test_answers_that_may_end_by_themselves_are_short_only_far_below_what_was_asked() -> None:
    def short(share: float, **known: bool) -> Verdict:
        asked = Asked(output_len=100, **known)
        made = BenchResult(completed=10, total_output_tokens=int(1000 * share), output_throughput=1.0)
        return judged(made, asked).verdict

    assert short(0.95) is Verdict.VALID
    assert short(0.85) is Verdict.SUSPECT
    assert short(0.95, ignore_eos=True) is Verdict.INVALID


def test_what_could_not_be_checked_is_named() -> None:
    judgement = judged(BenchResult(output_throughput=100.0), Asked())
    assert judgement.verdict is Verdict.VALID
    text = found(judgement, "unchecked").text
    for what in ("failed requests", "Little's law", "totals", "length of prompts", "ceiling"):
        assert what in text
    asked = Asked(num_prompts=1000, max_concurrency=100, input_len=512, output_len=128)
    whole = judged(report(), asked, ceiling={"of_strict_percent": 50.0})
    assert whole == Judgement(verdict=Verdict.VALID)


def test_counts_of_others_may_be_missing_but_not_contradict() -> None:
    assert judged(BenchResult(output_throughput=1.0, failed=0), Asked()).verdict is Verdict.VALID
    assert "failed-requests" in rules(judged(BenchResult(output_throughput=1.0, failed=3), Asked()))
    assert "failed-requests" in rules(judged(BenchResult(completed=90), Asked(num_prompts=100)))
    assert "no-requests" in rules(judged(BenchResult(completed=0, failed=100), Asked(num_prompts=100)))
    assert "no-requests" in rules(judged(BenchResult(failed=100), Asked(num_prompts=100)))
    assert "rates" in rules(judged(BenchResult(output_throughput=0.0), Asked()))


@pytest.mark.parametrize(
    "nothing",
    [
        BenchResult(),
        BenchResult(num_prompts=100, completed=100, failed=0),
        BenchResult(duration=120.0),
        BenchResult(extra={"mean_output_tokens": 128.0, "temperature_c": 60.0}),
        BenchResult(latencies={"mean_ttft_ms": 0.0, "p99_ttft_ms": float("nan")}),
    ],
)
def test_a_row_that_says_no_speed_measured_nothing(nothing: BenchResult) -> None:
    judgement = judged(nothing, Asked(num_prompts=100))
    assert judgement.verdict is Verdict.INVALID
    assert found(judgement, "rates").text == "no throughput and no latency is known: nothing was measured"


@pytest.mark.parametrize(
    "speed",
    [
        BenchResult(total_token_throughput=900.0),
        BenchResult(request_throughput=2.0),
        BenchResult(latencies={"median_ttft_ms": 31.0}),
        BenchResult(extra={"request_output_tps": 40.0}),
        BenchResult(duration=10.0, completed=100),
    ],
)
def test_one_speed_is_enough_for_a_row_of_others(speed: BenchResult) -> None:
    assert judged(speed, Asked(num_prompts=100)).verdict is Verdict.VALID
