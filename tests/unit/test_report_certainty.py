"""What a report says over single requests and over several starts, and how sure it is."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_rows import CLOSED, measurement, repeats, result, run, trial

from fleetbench.model import Config
from fleetbench.report import files
from fleetbench.report.charts import charts_of_entries
from fleetbench.report.charts.frame import WEAK_COLOUR
from fleetbench.report.columns import summary_table
from fleetbench.report.files import sample_reader
from fleetbench.report.groups import grouped
from fleetbench.report.markdown import markdown
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.report.terminal import Uncertain, certainty_table, headline, terminal_table
from fleetbench.results.rows import Finding, MeasurementRow, Verdict
from fleetbench.results.samples import Request, Samples

P99_TTFT = next(metric for metric in METRICS if metric.key == "p99_ttft_ms")


def samples(ttft_s: float, count: int = 640) -> Samples:
    """Requests that run 64 at a time, each with its own pace and ten tokens; every 50th waits ten times as
    long for its first token."""
    pace_s = 0.01
    lasts_s = ttft_s + 9 * pace_s
    requests = []
    for number in range(count):
        ttft = ttft_s * 10 if number % 50 == 0 else ttft_s
        requests.append(
            Request(
                started_s=number // 64 * lasts_s,
                ttft_s=ttft,
                e2el_s=ttft + 9 * pace_s,
                input_tokens=128,
                output_tokens=10,
                itl_s=(pace_s,) * 9,
            )
        )
    return Samples(requests=tuple(requests))


def read(row: MeasurementRow) -> Samples:
    return samples(0.1 * row.repeat)


def report(*trials: int, with_requests: bool = True) -> Report:
    configs = (Config(), Config(dp=2))
    rows = [row for number in trials for row in repeats(number, 100 * number, 102 * number, 101 * number)]
    made = [trial(number, configs[number - 1]) for number in trials]
    return summarise(run(), made, rows, read) if with_requests else summarise(run(), made, rows)


def test_a_percentile_is_over_all_requests_of_the_repeats() -> None:
    (row,) = report(1).rows
    assert row.pooled is not None
    assert row.pooled.requests == 3 * 640
    # 2 % of the requests wait 1, 2 or 3 s; the 99th percentile of all is the middle of these.
    assert row.value(P99_TTFT) == pytest.approx(2000, rel=0.01)
    assert row.pooled.latencies["median_ttft_ms"] == pytest.approx(200)
    assert row.value(OUTPUT) == 101


def test_without_single_requests_the_repeats_own_percentiles_stand_and_that_is_said() -> None:
    (row,) = report(1, with_requests=False).rows
    assert (row.pooled, row.steady) == (None, None)
    assert row.value(P99_TTFT) == pytest.approx(4e5 / 101)
    assert "the single requests are not to be had" in markdown(report(1, with_requests=False))
    assert "over the requests of all these repeats together" in markdown(report(1))


def test_requests_of_one_repeat_that_are_missing_leave_no_half_pooled_number() -> None:
    def some(row: MeasurementRow) -> Samples | None:
        return None if row.repeat == 2 else read(row)

    (row,) = summarise(run(), [trial(1, Config())], repeats(1, 100, 102, 101), some).rows
    assert (row.pooled, row.steady) == (None, None)


def test_a_p99_over_too_few_requests_is_in_brackets() -> None:
    (pooled,) = report(1).rows
    (alone,) = report(1, with_requests=False).rows
    assert not isinstance(headline(pooled, P99_TTFT), Uncertain)
    assert isinstance(headline(alone, P99_TTFT), Uncertain)
    assert f"{headline(alone, P99_TTFT):,}" == "(3,960)"
    assert f"{Uncertain(12.5):,.2f}" == "(12.50)"
    assert "| (3,960) |" in markdown(report(1, with_requests=False))


def test_too_few_requests_for_a_p99_is_no_note_when_all_repeats_together_have_enough() -> None:
    text = "p99 rests on 640 requests, fewer than 1000"
    few = Finding(rule="percentile-samples", verdict=Verdict.VALID, text=text)
    rows = [replace(row, findings=(few,), reasons=(text,)) for row in repeats(1, 100, 102, 101)]
    (row,) = summarise(run(), [trial(1, Config())], rows, read).rows
    assert row.notes == ()
    (row,) = summarise(run(), [trial(1, Config())], rows).rows
    assert row.notes == (f"repeat 1, repeat 2, repeat 3: {text}",)


def test_the_steady_state_stands_beside_the_whole_run() -> None:
    (row,) = report(1).rows
    assert row.steady is not None
    steady = row.steady.spreads[OUTPUT.key]
    # 64 at a time, ten tokens each, in 0.19, 0.29 and 0.39 s.
    assert steady.median == pytest.approx(64 * 10 / 0.29, rel=0.05)
    assert steady.count == 3
    table = terminal_table(report(1))
    assert "steady" in table.columns
    assert "steady" not in terminal_table(report(1, with_requests=False)).columns


def test_the_summary_has_interval_steady_state_and_pooled_percentiles() -> None:
    (row,) = summary_table(report(1)).objects()
    assert row["output_throughput_low"] == pytest.approx(98.54, abs=0.01)
    assert row["output_throughput_high"] == pytest.approx(103.51, abs=0.01)
    assert row["interval_method"] == "t"
    assert row["pooled_requests"] == 1920
    assert row["pooled_p99_ttft_ms"] == pytest.approx(2000, rel=0.01)
    assert row["p99_ttft_ms"] == pytest.approx(4e5 / 101)
    assert isinstance(row["steady_output_throughput"], float)
    (bare,) = summary_table(report(1, with_requests=False)).objects()
    assert (bare["pooled_requests"], bare["steady_share"]) == (None, None)


def test_the_summary_says_how_each_row_stands_for_programs() -> None:
    slow, best = summary_table(report(1, 2)).objects()
    assert (best["starts"], best["compared_with_best"], best["ratio_to_best"]) == (1, "the best", None)
    assert (slow["ratio_to_best"], slow["compared_with_best"]) == (0.5, "slower by 50.0 %")
    assert slow["noise_within_percent"] == pytest.approx(0.99, abs=0.01)
    several = summary_table(several_starts()).objects()
    assert [row["starts"] for row in several] == [3, 3, 3]
    assert several[0]["noise_between_percent"] == pytest.approx(4.7, abs=0.1)


def test_how_sure_each_number_is_and_how_it_compares() -> None:
    table = certainty_table(report(1, 2))
    assert [dict(zip(table.columns, row, strict=True)) for row in table.rows] == [
        {
            "configuration": "tp=1 dp=2",
            "starts": 1,
            "repeats": 3,
            "out tok/s": 202,
            "95 % interval": "197.1–207.0",
            "±% repeats": 1.0,
            "±% starts": None,
            "against the best": None,
        },
        {
            "configuration": "tp=1 dp=1",
            "starts": 1,
            "repeats": 3,
            "out tok/s": 101,
            "95 % interval": "98.5–103.5",
            "±% repeats": 1.0,
            "±% starts": None,
            "against the best": "slower by 50.0 %",
        },
    ]
    assert "Each configuration was started once" in markdown(report(1, 2))


def several_starts() -> Report:
    starts = ((100, 101, 99), (110, 111, 109), (105, 106, 104))
    rows = [row for number, values in enumerate(starts, start=1) for row in repeats(number, *values)]
    return summarise(run(), [trial(number, Config()) for number in (1, 2, 3)], rows, read)


def test_starts_of_one_configuration_have_one_interval_made_of_the_starts() -> None:
    found = several_starts()
    (group,) = grouped(found, found.rows)
    spread = group.spread(OUTPUT)
    assert spread is not None
    assert spread.interval is not None
    # t of two degrees of freedom over the logarithms of 100, 110 and 105.
    assert (spread.interval.count, spread.starts, spread.count) == (3, 3, 9)
    assert spread.interval.low == pytest.approx(93.2, abs=0.1)
    assert spread.interval.high == pytest.approx(118.2, abs=0.1)
    (row,) = certainty_table(found).rows
    assert row[:4] == ("tp=1 dp=1", 3, 9, 105)
    assert row[5] == 1.0
    assert row[6] == pytest.approx(4.7, abs=0.1)
    assert "its interval is made of the starts" in markdown(found)


def test_two_trials_that_one_server_answered_are_one_start() -> None:
    trials = [trial(number, Config(), effective={"invocation": "a"}) for number in (1, 2)]
    found = summarise(run(), trials, [*repeats(1, 100, 101), *repeats(2, 110, 111)])
    (group,) = grouped(found, found.rows)
    assert (group.starts, group.values(OUTPUT)) == (1, ((100, 101, 110, 111),))
    apart = [replace(one, effective={"invocation": str(one.number)}) for one in trials]
    found = summarise(run(), apart, [*repeats(1, 100, 101), *repeats(2, 110, 111)])
    assert grouped(found, found.rows)[0].starts == 2


def test_percentiles_of_several_starts_are_over_all_their_requests() -> None:
    found = several_starts()
    (group,) = grouped(found, found.rows)
    assert group.pooled is not None
    assert group.pooled.requests == 9 * 640
    assert group.value(P99_TTFT) == pytest.approx(2000, rel=0.01)


@pytest.mark.parametrize("lost", [1, 3])
def test_requests_of_one_start_that_are_missing_leave_no_half_pooled_number(lost: int) -> None:
    """Starts that answer soon, and one that is slow: a p99 over the soon ones only would be no p99 of all."""

    def some(row: MeasurementRow) -> Samples | None:
        return None if (row.trial, row.repeat) == (3, lost) else read(row)

    rows = [row for number in (1, 2, 3) for row in repeats(number, 100, 102, 101)]
    found = summarise(run(), [trial(number, Config()) for number in (1, 2, 3)], rows, some)
    assert found.pooled == {}
    (entry,) = entries_of_run(found)
    assert not entry.pooled
    assert entry.value(P99_TTFT) == pytest.approx(4e5 / 101)  # what the client reports of each repeat
    assert "in 2 rows, and medians of each repeat's own in the others" in markdown(found)


def written(directory: Path, *, packed: bool = False) -> MeasurementRow:
    row = measurement(1, 1, result(100))
    document = {
        "completed": 2,
        "duration": 1.0,
        "request_throughput": 2.0,
        "output_throughput": 2.0,
        "ttfts": [0.1, 0.2],
        "output_lens": [1, 1],
        "itls": [[], []],
    }
    place = directory / row.directory
    place.mkdir(parents=True)
    content = json.dumps(document).encode()
    if packed:
        (place / "result.json.gz").write_bytes(gzip.compress(content))
    else:
        (place / "result.json").write_bytes(content)
    return row


@pytest.mark.parametrize("packed", [False, True])
def test_requests_are_read_from_the_raw_file_plain_or_compressed(tmp_path: Path, packed: bool) -> None:
    found = sample_reader(tmp_path)(written(tmp_path, packed=packed))
    assert found is not None
    assert [request.ttft_s for request in found.requests] == [0.1, 0.2]


def test_raw_files_that_are_not_there_or_broken_are_no_requests(tmp_path: Path) -> None:
    row = written(tmp_path, packed=True)
    reader = sample_reader(tmp_path)
    assert reader(replace(row, directory="elsewhere")) is None
    packed = tmp_path / row.directory / "result.json.gz"
    for content in (b"no gzip", packed.read_bytes()[:-9], packed.read_bytes()[:20]):
        packed.write_bytes(content)
        assert reader(row) is None


def test_a_report_reads_no_more_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = written(tmp_path)
    size = (tmp_path / row.directory / "result.json").stat().st_size
    monkeypatch.setattr(files, "MOST_BYTES", size + 5)
    reader = sample_reader(tmp_path)
    assert reader(row) is not None
    assert reader(row) is None


def test_rows_of_another_workload_are_no_start_of_this_one() -> None:
    other = replace(CLOSED, max_concurrency=8)
    found = summarise(
        run(),
        [trial(1, Config()), trial(2, Config(), workloads=(other,))],
        [*repeats(1, 100, 101), *repeats(2, 50, 51)],
    )
    assert [len(grouped(found, found.of_workload(workload))) for workload in (CLOSED, other)] == [1, 1]
    assert len(grouped(found, found.of_workload(other))[0].rows) == 1


@pytest.mark.parametrize("with_requests", [True, False])
def test_a_chart_greys_a_p99_over_few_requests_and_draws_the_headline(with_requests: bool) -> None:
    found = report(1, 2, with_requests=with_requests)
    drawn = {chart.key: chart for chart in charts_of_entries(entries_of_run(found))}
    text = json.dumps(drawn["p99-ttft-ms"].specification)
    assert (WEAK_COLOUR in text) is not with_requests
    assert ("fewer than 1,000 requests" in text) is not with_requests
    assert ("over all requests of the valid repeats" in text) is with_requests
    values = [row.value(P99_TTFT) for row in found.rows]
    assert all(f'"value": {value}' in text for value in values)
