"""Where the time went, in the report: the sentence, the table, the chart, and a file that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_rows import repeats, run, trial

from fleetbench.cli import main
from fleetbench.model import Config, GpuSet, Step, Trial
from fleetbench.report.charts.timeline import COLOURS, timeline_chart
from fleetbench.report.files import write_files
from fleetbench.report.markdown import markdown
from fleetbench.report.summary import Report, summarise
from fleetbench.report.timeline import (
    merged,
    seconds_of_hosts,
    spoken,
    time_finding,
    time_table,
    trial_spans,
)
from fleetbench.results.rows import RunKind
from fleetbench.results.store import open_store
from fleetbench.results.timeline import FILE_NAME, SIDE_BY_SIDE, Period, RunTimeline, file_text

HOSTILE = "=cmd <script>alert(1)</script> | `x` [a](b)"


def of(*steps: tuple[Step, float, int | None], host: str = "h1", lane: str = "") -> list[Period]:
    found: list[Period] = []
    now = 1_796_000_000_000
    for step, seconds, number in steps:
        config = f"tp={number} dp=1" if number else ""
        ended = now + round(seconds * 1000)
        period = Period(
            host=host, lane=lane, step=step, trial=number, config=config, began_ms=now, ended_ms=ended
        )
        found.append(period)
        now = ended
    return found


ONE_TRIAL = (
    (Step.STOP, 20.0, None),
    (Step.LOAD, 170.4, 1),
    (Step.MEASURE, 300.0, 1),
    (Step.FETCH, 2.0, 1),
    (Step.MEASURE, 313.44, 1),
    (Step.RESTORE, 46.16, None),
)


def a_timeline(*more: Period) -> RunTimeline:
    return RunTimeline(run_id=run().id, periods=(*of(*ONE_TRIAL), *more))


def a_report(timeline: RunTimeline | None = None) -> Report:
    report = summarise(run(), [trial(1, Config())], repeats(1, 100, 102, 101))
    return replace(report, timeline=timeline)


def test_the_finding_says_how_much_was_measuring_and_what_took_most_of_the_rest() -> None:
    assert time_finding(a_timeline()) == "72 % of 14.2 min spent measuring; loading 20 %"
    two = a_timeline(*of((Step.IDLE, 852.0, None), host="h2"))
    assert time_finding(two) == "36 % of 28.4 min on 2 hosts together spent measuring; idle 50 %"
    assert time_finding(RunTimeline(run_id="r")) == "no time was noted"


def test_a_host_that_waits_for_its_own_lanes_is_not_counted_twice() -> None:
    waits = replace(of((Step.IDLE, 60.0, None))[0], note=SIDE_BY_SIDE)
    lanes = [*of((Step.MEASURE, 60.0, 1), lane="GPU 0"), *of((Step.LOAD, 60.0, 2), lane="GPU 1")]
    timeline = RunTimeline(run_id="r", periods=(waits, *lanes))
    assert time_finding(timeline) == "50 % of 2.0 min on 2 lanes together spent measuring; loading 50 %"
    assert [row[0] for row in time_table(timeline).rows] == ["load", "measure", "all"]
    assert seconds_of_hosts(timeline)["h1"] == {"wall": 60.0, "idle": 60.0}


def test_the_table_has_each_step_and_adds_up() -> None:
    table = time_table(a_timeline())
    assert table.columns == ("step", "seconds", "share %")
    assert [row[0] for row in table.rows] == ["stop", "load", "measure", "fetch", "restore", "all"]
    assert table.rows[-1] == ("all", 852.0, 100.0)
    seconds = [row[1] for row in table.rows[:-1]]
    assert sum(float(str(value)) for value in seconds) == pytest.approx(852.0, abs=0.3)
    assert seconds_of_hosts(a_timeline())["h1"]["wall"] == 852


def test_a_trial_has_one_span_and_neighbours_of_one_step_are_one_bar() -> None:
    periods = of((Step.LOAD, 1, 1), (Step.LOAD, 2, 1), (Step.LOAD, 3, 2), (Step.STOP, 1, None))
    assert [(bar.step, bar.trial, bar.seconds) for bar in merged(periods)] == [
        (Step.LOAD, 1, 3),
        (Step.LOAD, 2, 3),
        (Step.STOP, None, 1),
    ]
    spans = trial_spans(RunTimeline(run_id="r", periods=tuple(periods)))
    assert [(span.trial, (span.ended_ms - span.began_ms) / 1000) for span in spans] == [(1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.96, "10 s"), (99, "99 s"), (852, "14.2 min"), (11_160, "3.1 h")],
)
def test_durations_have_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


def test_the_chart_has_a_row_for_each_host_and_lane_and_a_colour_for_each_step() -> None:
    lanes = [
        *of((Step.MEASURE, 60, 2), host="h2", lane="0,1"),
        *of((Step.MEASURE, 60, 3), host="h2", lane="2,3"),
    ]
    document = timeline_chart(a_timeline(*lanes), run().id).specification
    bars, labels = document["datasets"].values()
    assert {bar["row"] for bar in bars} == {"h1", "h2 [0,1]", "h2 [2,3]"}
    assert max(bar["to"] for bar in bars) == pytest.approx(14.2)
    assert {label["text"] for label in labels} >= {"1: tp=1 dp=1"}
    colours = document["layer"][0]["encoding"]["color"]["scale"]
    assert len(colours["domain"]) == len(set(colours["range"])) == 5
    assert len(set(COLOURS.values())) == len(Step)
    assert "72 %" not in str(document["title"]["text"])  # the lanes count too


def test_the_report_has_the_chart_as_png_and_svg_and_the_table(tmp_path: Path) -> None:
    paths = write_files(a_report(a_timeline()), tmp_path)
    drawn = paths.charts[-1]
    assert drawn.name == "timeline.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in drawn.with_suffix(".svg").read_bytes()[:300]
    text = paths.markdown.read_text()
    assert "## Where the time went" in text
    assert "| load | 170.4 | 20.0 |" in text
    assert "(charts/timeline.png)" in text
    again = write_files(a_report(), tmp_path)
    assert drawn not in again.charts
    assert not list((tmp_path / "charts").glob("timeline.*"))
    assert "Where the time went" not in again.markdown.read_text()


def test_hostile_names_are_drawn_and_shown_as_text(tmp_path: Path) -> None:
    period = Period(
        host=HOSTILE, step=Step.MEASURE, trial=1, config=HOSTILE * 3, began_ms=0, ended_ms=9_000_000
    )
    paths = write_files(a_report(RunTimeline(run_id=HOSTILE, periods=(period,))), tmp_path)
    assert paths.charts[-1].name == "timeline.png"
    for chart in paths.charts:
        assert b"<script>" not in chart.with_suffix(".svg").read_bytes()
    assert "<script>" not in paths.markdown.read_text()


def test_a_timeline_that_cannot_be_read_is_named_and_the_rest_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    with open_store() as store:
        made = store.create_run(kind=RunKind.SWEEP, model="m", hosts=["h1"])
        one = Trial(
            number=1,
            host="h1",
            gpus=GpuSet((0,)),
            port=8101,
            config=Config(),
            workloads=(trial(1, Config()).workloads[0],),
            repeats=1,
        )
        store.add_trials(made.id, [one])
        directory = store.directory(made.id)
    directory.mkdir(parents=True, exist_ok=True)

    def printed(*words: str) -> str:
        found = CliRunner().invoke(main, list(words))
        assert found.exit_code == 0, found.output
        return found.stdout

    assert "where the time went" not in printed("runs", "show", "latest")
    (directory / FILE_NAME).write_text("{")
    assert "is no timeline" in printed("runs", "show", "latest")
    assert "is no timeline" in printed("report", "latest")
    assert json.loads(printed("runs", "show", "latest", "--format", "json"))["seconds"] is None
    (directory / FILE_NAME).write_text(file_text(a_timeline()))
    assert "72 % of 14.2 min spent measuring; loading 20 %" in printed("runs", "show", "latest")
    assert "72 % of 14.2 min spent measuring" in printed("report", "latest")
    seconds = json.loads(printed("runs", "show", "latest", "--format", "json"))["seconds"]
    assert seconds["h1"]["measure"] == 613.44
    assert "72 % of" in markdown(a_report(a_timeline()))
