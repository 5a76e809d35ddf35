"""From rows to report rows, and from report rows to sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, TrialState
from fleetbench.report.finding import finding
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import MeasurementKind, MeasurementState, Verdict
from fleetbench.results.statistics import spread
from fleetbench.results.values import BenchResult

TP1, TP2, DP2 = Config(tp=1), Config(tp=2), Config(dp=2)
TTFT = next(metric for metric in METRICS if metric.key == "median_ttft_ms")


def test_a_spread_is_median_range_and_variation() -> None:
    found = spread([30.0, 10.0, 20.0])
    assert found is not None
    assert (found.median, found.minimum, found.maximum, found.count) == (20.0, 10.0, 30.0, 3)
    assert found.cv_percent == pytest.approx(50.0)
    assert spread([]) is None
    single = spread([5.0])
    assert single is not None
    assert single.cv_percent is None


def test_a_row_is_the_median_of_the_valid_repeats_and_shows_the_warm_up() -> None:
    rows = [
        *repeats(1, 100, 130, 110),
        measurement(1, 4, result(9999), Verdict.INVALID, "2 of 640 requests failed"),
        measurement(1, 5, result(7777), Verdict.SUSPECT, "few waves"),
    ]
    (row,) = summarise(run(), [trial(1, TP1, repeats=5)], rows).rows
    found = row.spreads["output_throughput"]
    assert (found.median, found.minimum, found.maximum) == (110, 100, 130)
    assert row.verdict is Verdict.VALID
    assert row.status == "valid 3/5"
    assert row.warmup_output_throughput == 50
    assert row.notes == (
        "repeat 4: 2 of 640 requests failed (invalid, left out)",
        "repeat 5: few waves (suspect, left out)",
    )


def test_without_a_valid_repeat_the_suspect_ones_are_shown_as_such() -> None:
    rows = [measurement(1, place, result(100), Verdict.SUSPECT, "few waves") for place in (1, 2, 3)]
    (row,) = summarise(run(), [trial(1, TP1)], rows).rows
    assert row.status == "suspect 3/3"
    assert row.spreads["output_throughput"].median == 100
    assert not row.valid
    assert row.notes == ("repeat 1, repeat 2, repeat 3: few waves",)


def test_invalid_repeats_alone_give_no_number() -> None:
    rows = [measurement(1, 1, result(100), Verdict.INVALID, "none of 640 requests completed")]
    (row,) = summarise(run(), [trial(1, TP1)], rows).rows
    assert (row.status, row.spreads) == ("invalid", {})
    assert "none of 640 requests completed" in row.notes[0]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"state": TrialState.FAILED, "failure": TOO_LITTLE_MEMORY}, "failed: CUDA out of memory"),
        ({"state": TrialState.IMPLIED, "failure": TOO_LITTLE_MEMORY}, "implied: CUDA out of memory"),
        ({"state": TrialState.NOT_RUN}, "not run"),
        ({"state": TrialState.RUNNING}, "running"),
        ({"state": TrialState.PENDING}, "pending"),
        ({"state": TrialState.MEASURED}, "not measured"),
    ],
)
def test_a_trial_without_numbers_has_a_row_that_says_why(changes: dict[str, object], status: str) -> None:
    report = summarise(run(), [trial(1, TP1), trial(2, TP2, **changes)], repeats(1, 1, 2, 3))
    assert len(report.rows) == 2
    assert report.rows[1].status == status


def test_a_trial_that_failed_half_way_keeps_what_it_measured() -> None:
    failed = trial(1, TP1, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY, workloads=(CLOSED, SMALL))
    first, second = summarise(run(), [failed], repeats(1, 100, 101)).rows
    assert first.status == "valid 2/3, then failed: CUDA out of memory"
    assert second.status == "failed: CUDA out of memory"


def test_a_measurement_without_result_is_said_not_hidden() -> None:
    waiting = replace(measurement(1, 3, None), state=MeasurementState.RUNNING, verdict=None, result=None)
    (row,) = summarise(run(), [trial(1, TP1)], [*repeats(1, 100, 101), waiting]).rows
    assert row.status == "valid 2/3"
    assert row.notes == ("repeat 3: no result yet",)


def test_a_warm_up_that_failed_is_said_and_one_that_is_short_is_not() -> None:
    short = measurement(1, 1, result(50), Verdict.SUSPECT, "1.0 waves", kind=MeasurementKind.WARMUP)
    (row,) = summarise(run(), [trial(1, TP1)], [short, *repeats(1, 100)[1:]]).rows
    assert row.notes == ()
    broken = measurement(1, 1, None, Verdict.INVALID, "no report", kind=MeasurementKind.WARMUP)
    (row,) = summarise(run(), [trial(1, TP1)], [broken, *repeats(1, 100)[1:]]).rows
    assert row.notes == ("warm-up: no report",)


def test_names_tell_trials_apart_with_no_more_than_needed() -> None:
    one = summarise(run(), [trial(1, TP1), trial(2, TP2)], [])
    assert [row.name for row in one.rows] == ["tp=1 dp=1", "tp=2 dp=1"]
    two = summarise(run(), [trial(1, TP1), trial(2, TP1, host="lab-02")], [])
    assert [row.name for row in two.rows] == ["lab-01 tp=1 dp=1", "lab-02 tp=1 dp=1"]
    same = summarise(run(), [trial(1, TP1), trial(2, TP1)], [])
    assert [row.name for row in same.rows] == ["#1 tp=1 dp=1", "#2 tp=1 dp=1"]


def test_a_p50_stands_in_for_a_median_that_was_not_reported() -> None:
    assert TTFT.of(BenchResult(latencies={"p50_ttft_ms": 5.0})) == 5.0
    assert TTFT.of(BenchResult(latencies={"p50_ttft_ms": 5.0, "median_ttft_ms": 4.0})) == 4.0
    assert TTFT.of(BenchResult()) is None


def compared(*outputs: tuple[float, ...]) -> Report:
    trials = [trial(number, config) for number, config in zip((1, 2, 3), (TP1, TP2, DP2), strict=True)]
    rows = [row for number, values in enumerate(outputs, start=1) for row in repeats(number, *values)]
    return summarise(run(), trials[: len(outputs)], rows)


def test_a_clear_best_is_named_with_its_lead() -> None:
    report = compared((100, 101, 102), (200, 201, 202), (150, 151, 152))
    expected = "tp=2 dp=1 has the highest output throughput: 201.0 tok/s, 33 % above tp=1 dp=2"
    assert finding(report, OUTPUT) == expected
    expected = "tp=2 dp=1 has the lowest median time to first token: 497.5 ms, 25 % below tp=1 dp=2"
    assert finding(report, TTFT) == expected


def test_ranges_that_overlap_give_no_winner() -> None:
    report = compared((100, 110, 120), (105, 115, 125))
    assert finding(report, OUTPUT) == (
        "No clear best output throughput: tp=2 dp=1 and tp=1 dp=1 lie within each other's spread,"
        " at 115.0 tok/s"
    )


def test_a_single_run_each_claims_no_more_than_it_knows() -> None:
    assert finding(compared((100,), (200,)), OUTPUT) == (
        "tp=2 dp=1 measured highest output throughput: 200.0 tok/s, 100 % above tp=1 dp=1"
        " (one run, spread unknown)"
    )


def test_the_only_valid_configuration_is_not_called_best() -> None:
    failed = trial(2, TP2, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)
    report = summarise(run(), [trial(1, TP1), failed], repeats(1, 100, 101, 102))
    assert finding(report, OUTPUT) == "tp=1 dp=1: output throughput 101.0 tok/s, the only valid one of 2"


def test_suspect_rows_win_nothing() -> None:
    rows = [*repeats(1, 100, 101, 102)]
    rows += [measurement(2, place, result(999), Verdict.SUSPECT, "few waves") for place in (1, 2, 3)]
    report = summarise(run(), [trial(1, TP1), trial(2, TP2)], rows)
    assert finding(report, OUTPUT).startswith("tp=1 dp=1: output throughput 101.0 tok/s, the only valid")
    assert (
        finding(summarise(run(), [trial(2, TP2)], rows), OUTPUT)
        == "No valid measurement of output throughput"
    )


def test_several_workloads_are_compared_each_by_itself() -> None:
    trials = [trial(number, config, workloads=(CLOSED, SMALL)) for number, config in ((1, TP1), (2, TP2))]
    fast, slow = (200, 201, 202), (100, 101, 102)

    def report(first: tuple[int, ...], second: tuple[int, ...]) -> Report:
        rows = repeats(1, *first) + repeats(1, *second, workload_index=1)
        rows += repeats(2, *slow) + repeats(2, *slow, workload_index=1)
        return summarise(run(), trials, rows)

    expected = "tp=1 dp=1 has the highest output throughput in all 2 workloads"
    assert finding(report(fast, fast), OUTPUT) == expected
    assert finding(report(fast, (50, 51, 52)), OUTPUT) == (
        "Best output throughput: tp=1 dp=1 at c=64 (201.0 tok/s); tp=2 dp=1 at c=8 (101.0 tok/s)"
    )
    assert finding(report(slow, slow), OUTPUT).startswith(
        "No clear best output throughput in any of 2 workloads"
    )
