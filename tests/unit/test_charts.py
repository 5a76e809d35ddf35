"""Charts: the right values and sentences in their specifications, and nothing left out."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial
from test_report_files import HOSTILE, example, hostile

from fleetbench.model import Config, TrialState
from fleetbench.report.charts import Chart, charts_of_entries, png_of, svg_of
from fleetbench.report.charts.written import LIST, write_charts
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import Verdict


def png_size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def charts_by_key(report: Report) -> dict[str, Chart]:
    return {chart.key: chart for chart in charts_of_entries(entries_of_run(report))}


def all_values(specification: object) -> Iterator[dict[str, object]]:
    if isinstance(specification, dict):
        if isinstance(specification.get("values"), list):
            yield from (value for value in specification["values"] if isinstance(value, dict))
        for item in specification.values():
            yield from all_values(item)
    elif isinstance(specification, list):
        for item in specification:
            yield from all_values(item)


def drawn_values(report: Report, key: str = "output-throughput") -> list[dict[str, object]]:
    """What a chart draws, each once (its layers repeat their data)."""
    found: list[dict[str, object]] = []
    for value in all_values(charts_by_key(report)[key].specification):
        if value not in found:
            found.append(value)
    return found


def test_each_metric_with_a_valid_number_has_a_chart_that_can_be_read_at_800_pixels() -> None:
    drawn = charts_by_key(example())
    assert set(drawn) == {
        "output-throughput",
        "total-token-throughput",
        "request-throughput",
        "median-ttft-ms",
        "p99-ttft-ms",
        "median-tpot-ms",
        "p99-tpot-ms",
    }
    width, height = png_size(png_of(drawn["output-throughput"].specification))
    assert 1400 <= width <= 1700
    assert 300 <= height <= 1200
    assert drawn["output-throughput"].finding.startswith("tp=1 dp=2 has the highest output throughput")
    assert "tp=4 dp=1 failed: CUDA out of memory" in drawn["output-throughput"].alt


def test_a_bar_chart_draws_medians_repeats_and_the_failed_trial_as_a_labelled_gap() -> None:
    values = drawn_values(example())
    bars = [value for value in values if "low" in value]
    assert [(bar["label"], bar["value"], bar["low"], bar["high"], bar["best"]) for bar in bars] == [
        ("tp=1 dp=1", 101, 100, 102, False),
        ("tp=1 dp=2", 192, 190, 195, True),
    ]
    dots = [value["value"] for value in values if set(value) == {"label", "value"}]
    assert sorted(dots) == [100, 101, 102, 190, 192, 195]  # type: ignore[type-var]
    (gap,) = [value for value in values if value.get("status") == "failed"]
    assert (gap["label"], gap["text"]) == ("tp=4 dp=1", "failed: CUDA out of memory")
    assert gap["cause"] == "CUDA out of memory"


def test_a_suspect_bar_is_hollow_and_says_why_and_is_never_the_best() -> None:
    rows = [
        *repeats(1, 100, 101),
        measurement(2, 1, result(900), Verdict.SUSPECT, "5.0 waves of 64 requests"),
    ]
    report = summarise(run(), [trial(1, Config()), trial(2, Config(tp=2), repeats=1)], rows)
    values = [value for value in drawn_values(report) if value.get("label") == "tp=2 dp=1"]
    assert [value["text"] for value in values] == ["900.0", "suspect: 5.0 waves of 64 requests"]
    assert (values[0]["suspect"], values[0]["best"]) == (True, False)
    assert "tp=2" not in charts_by_key(report)["output-throughput"].finding
    assert "1 suspect" in json.dumps(charts_by_key(report)["output-throughput"].specification)


def test_an_invalid_number_is_not_drawn() -> None:
    rows = [*repeats(1, 100, 101), measurement(2, 1, result(900), Verdict.INVALID, "all requests failed")]
    report = summarise(run(), [trial(1, Config()), trial(2, Config(tp=2), repeats=1)], rows)
    values = drawn_values(report)
    assert not [value for value in values if value.get("value") == 900]
    assert "invalid: all requests failed" in [value.get("text") for value in values]


def test_long_configurations_stay_apart_on_the_axis() -> None:
    same = " ".join(["--a-rather-long-argument"] * 6)
    trials = [trial(number, Config(serve_args=(same, f"--last={number}"))) for number in (1, 2)]
    report = summarise(run(), trials, [*repeats(1, 100), *repeats(2, 200)])
    bars = [value["label"] for value in drawn_values(report) if "low" in value]
    assert len(set(bars)) == 2


def test_hostile_names_are_drawn_as_text() -> None:
    drawn = charts_by_key(hostile())
    assert drawn
    for chart in drawn.values():
        svg = svg_of(chart.specification)
        assert b"<script" not in svg
        assert not any(ord(character) < 32 for character in chart.alt + chart.finding)
    assert HOSTILE not in json.dumps(chart.specification)


def test_sixty_configurations_are_two_charts_that_say_so_and_leave_none_out() -> None:
    trials = [trial(n, Config(max_model_len=n)) for n in range(1, 61)]
    report = summarise(run(), trials, [row for n in range(1, 61) for row in repeats(n, 100 + n, 101 + n)])
    drawn = charts_by_key(report)
    first, second = (drawn[key].specification for key in ("output-throughput", "output-throughput-2"))
    assert "Part 1 of 2." in first["title"]["subtitle"]
    labels = [
        {str(value["label"]) for value in all_values(page) if "low" in value} for page in (first, second)
    ]
    assert [len(page) for page in labels] == [32, 28]
    assert len(labels[0] | labels[1]) == 60
    assert png_size(png_of(first))[1] < 4000


def test_a_failed_trial_alone_has_no_bar_chart() -> None:
    failed = [trial(1, Config(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)]
    assert not charts_by_key(summarise(run(), failed, []))


def test_two_loads_are_two_panels() -> None:
    trials = [
        trial(1, Config(), workloads=(CLOSED, SMALL)),
        trial(2, Config(tp=2), workloads=(CLOSED, SMALL)),
    ]
    rows = [row for n in (1, 2) for index in (0, 1) for row in repeats(n, 100 * n, workload_index=index)]
    chart = charts_by_key(summarise(run(), trials, rows))["output-throughput"]
    titles = [panel["title"]["text"] for panel in chart.specification["vconcat"]]
    assert titles == [CLOSED.label, SMALL.label]


def test_the_list_of_charts_has_alternative_text_and_specifications(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text(
        json.dumps([{"files": ["gone.png", "../outside.png", 7]}, {"files": 3}, "x"])
    )
    (tmp_path / "gone.png").write_text("of an earlier report")
    written = write_charts(charts_by_key(example()).values(), tmp_path)
    listed = json.loads((tmp_path / LIST).read_text())
    assert [entry["files"] for entry in listed] == [[each.png.name, each.svg.name] for each in written]
    assert all(entry["alt"] and entry["specification"]["$schema"] for entry in listed)
    assert not (tmp_path / "gone.png").exists()
    assert write_charts([], tmp_path) == ()
    assert not list(tmp_path.iterdir())
