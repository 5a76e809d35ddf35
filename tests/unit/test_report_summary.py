"""From rows to report rows, and from report rows to sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, TrialState
from fleetbench.report.finding import finding
from fleetbench.report.groups import grouped
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import MeasurementKind, MeasurementState, Verdict
from fleetbench.results.values import BenchResult

TP1, TP2, DP2 = Config(tp=1), Config(tp=2), Config(dp=2)
TTFT = next(metric for metric in METRICS if metric.key == "median_ttft_ms")


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
    expected = "tp=2 dp=1 has the highest output throughput: 201.0 tok/s, faster than tp=1 dp=2 by 33–34 %"
    assert finding(report, OUTPUT) == expected
    expected = (
        "tp=2 dp=1 has the lowest median time to first token: 497.5 ms, shorter than tp=1 dp=2 by 24.6–25.2 %"
    )
    assert finding(report, TTFT) == expected


def test_noise_gives_no_winner_and_says_what_would_find_one() -> None:
    report = compared((100, 120, 110), (125, 115, 105))
    assert finding(report, OUTPUT) == (
        "No clear best output throughput: tp=2 dp=1 and tp=1 dp=1, at 115.0 tok/s,"
        " are not distinguishable at this noise: 5 more repeats would show 20 %"
    )
    report = compared((100, 120, 110), (125, 115, 105), (108, 119, 102))
    assert "tp=2 dp=1 and 2 others, at 115.0 tok/s, are not distinguishable" in finding(report, OUTPUT)


def test_ranges_that_overlap_may_differ_when_each_seed_says_the_same() -> None:
    report = compared((100, 110, 120), (105, 115, 125))
    assert finding(report, OUTPUT).endswith("115.0 tok/s, faster than tp=1 dp=1 by 4–6 %")


def test_equal_seeds_of_different_clients_are_no_pairs() -> None:
    rows = [*repeats(1, 100, 110, 120)]
    rows += [replace(row, client_program="rust") for row in repeats(2, 105, 115, 125)]
    report = summarise(run(), [trial(1, TP1), trial(2, TP2)], rows)
    assert "are not distinguishable at this noise" in finding(report, OUTPUT)


def test_a_difference_too_small_to_matter_wins_nothing() -> None:
    report = compared((100.0, 100.1, 99.9), (100.3, 100.4, 100.2))
    assert finding(report, OUTPUT) == (
        "No clear best output throughput: tp=2 dp=1 and tp=1 dp=1 are within 1 %, at 100.3 tok/s"
    )


def test_a_small_difference_between_servers_that_were_started_once_is_told_with_that() -> None:
    report = compared((100.0, 100.1, 99.9), (102.0, 102.1, 101.9))
    assert finding(report, OUTPUT) == (
        "tp=2 dp=1 has the highest output throughput: 102.0 tok/s, faster than tp=1 dp=1 by 2.0 %"
        " (one start each, which may be all that differs)"
    )


def test_starts_of_one_configuration_are_one_group_whose_noise_decides() -> None:
    trials = [trial(number, TP1) for number in (1, 2, 3)] + [trial(number, TP2) for number in (4, 5, 6)]
    starts = ((100, 101, 99), (110, 111, 109), (90, 91, 89), (104, 105, 103), (114, 115, 113), (94, 95, 93))
    rows = [row for number, values in enumerate(starts, start=1) for row in repeats(number, *values)]
    report = summarise(run(), trials, rows)
    assert finding(report, OUTPUT) == (
        "No clear best output throughput: tp=2 dp=1 and tp=1 dp=1, at 104.0 tok/s,"
        " are not distinguishable at this noise: 3 more starts would show 20 %"
    )
    first, second = grouped(report, report.rows)
    spread = first.spread(OUTPUT)
    assert spread is not None
    assert (first.name, second.name, spread.starts, spread.count) == ("tp=1 dp=1", "tp=2 dp=1", 3, 9)
    assert spread.within_percent == pytest.approx(1.0, abs=0.05)
    assert spread.between_percent == pytest.approx(10.0, abs=0.2)


def test_a_single_run_each_claims_no_more_than_it_knows() -> None:
    assert finding(compared((100,), (200,)), OUTPUT) == (
        "tp=2 dp=1 measured highest output throughput: 200.0 tok/s, 100 % above tp=1 dp=1"
        " (measured once: the noise is unknown)"
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


def test_what_differs_by_its_numbers_only_is_said_once() -> None:
    """Two findings of one repeat stay two; the same finding of another repeat is named, not repeated."""
    rows = [
        measurement(
            1, repeat, result(1000.0), Verdict.VALID, f"TTFT is {repeat}.5 ms", f"p99 rests on {40 * repeat}"
        )
        for repeat in (1, 2, 3)
    ]
    (row,) = summarise(run(), [trial(1, Config())], rows).rows
    assert row.notes == (
        "repeat 1 (and likewise repeat 2, repeat 3): TTFT is 1.5 ms",
        "repeat 1 (and likewise repeat 2, repeat 3): p99 rests on 40",
    )


def test_a_single_configuration_over_several_loads_is_told_with_its_values() -> None:
    rows = [*repeats(1, 1000.0, 1010.0), *repeats(1, 50.0, 51.0, workload_index=1)]
    made = summarise(run(), [trial(1, Config(tp=2), workloads=(CLOSED, SMALL))], rows)
    assert finding(made, OUTPUT) == "tp=2 dp=1: output throughput 1,005 at c=64, 50.50 at c=8 (tok/s)"
