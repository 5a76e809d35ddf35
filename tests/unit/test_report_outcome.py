"""Runs without a valid row, not over, or empty: said once, with counts and reason; suspect numbers marked."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.commands.report import print_report
from fleetbench.drawing.vega import png_of
from fleetbench.model import Config, TrialState
from fleetbench.report.charts import charts_of_entries
from fleetbench.report.entry import Entry
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.run_page import page_of_run
from fleetbench.report.markdown import markdown
from fleetbench.report.observations import observations
from fleetbench.report.outcome import main_reason, nothing_valid
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.report.tables import tables_of
from fleetbench.results.rows import Finding, MeasurementKind, MeasurementRow, RunState, Verdict


def eager(number: int, output: float) -> MeasurementRow:
    """A suspect measurement; the sentence names a number, so that it differs from row to row."""
    text = f"the server ran in eager mode, at {output:.0f} tok/s"
    found = Finding(rule="eager-mode", verdict=Verdict.SUSPECT, text=text)
    row = measurement(number, 1, result(output), Verdict.SUSPECT, text)
    return replace(row, findings=(found,))


def suspects(state: RunState = RunState.DONE) -> Report:
    """Two suspect rows and a failed one."""
    trials = [
        trial(1, Config(), repeats=1),
        trial(2, Config(tp=2), repeats=1),
        trial(3, Config(tp=4), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
    ]
    warm_up = measurement(1, 1, result(120), kind=MeasurementKind.WARMUP)
    return summarise(run(state=state), trials, [warm_up, eager(1, 240), eager(2, 3100)])


def pending(state: RunState, *, measured: bool = False) -> Report:
    trials = [
        trial(1, Config(), state=TrialState.MEASURED if measured else TrialState.RUNNING),
        trial(2, Config(tp=2), state=TrialState.PENDING),
    ]
    return summarise(run(state=state), trials, repeats(1, 100, 101) if measured else [])


def on_terminal(report: Report, capsys: pytest.CaptureFixture[str]) -> str:
    print_report(report)
    return capsys.readouterr().out


def test_what_does_not_count_is_said_once_with_counts_and_the_main_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = suspects()
    sentence = (
        "Nothing can be ranked: of 3 rows 2 are suspect, 1 failed. "
        "The main reason: the server ran in eager mode, at 240 tok/s (eager-mode, 2 rows)"
    )
    entries = entries_of_run(report)
    assert nothing_valid(entries) == sentence
    for text in (markdown(report), on_terminal(report, capsys)):
        assert text.count("Nothing can be ranked") == 1
        assert sentence in text
        assert "No valid measurement" not in text
    page = page_of_run(report, Kept())
    assert page.answers[0].headline == sentence
    assert sentence not in page.findings
    # The rule that is the main reason has had its sentence.
    assert [said.topic for said in observations(entries)] == ["not-ranked"]


def test_a_number_of_a_suspect_row_has_a_mark_wherever_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    report = suspects()
    for text in (markdown(report), on_terminal(report, capsys)):
        assert re.search(r"\b240\.00? \?", text)
        assert "3,100 ?" in text
    (single,) = (table for table in tables_of(entries_of_run(report)) if table.kind == "single-gpu")
    cells = dict(zip(single.table.columns, single.table.rows[0], strict=True))
    assert f"{cells['median out tok/s']:,}" == "240.0 ?"
    assert "Numbers with ? are of suspect rows, and never ranked." in markdown(report)


def test_a_weak_p99_of_a_suspect_row_has_both_marks() -> None:
    line = next(line for line in markdown(suspects()).splitlines() if line.startswith("| tp=1 dp=1 |"))
    assert "(1,667) ?" in line


def test_of_mixed_causes_the_most_frequent_is_the_main_one() -> None:
    failed = [trial(n, Config(tp=n), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY) for n in (1, 2)]
    other = trial(
        3, Config(tp=4), state=TrialState.FAILED, failure=replace(TOO_LITTLE_MEMORY, cause="no port")
    )
    entries = entries_of_run(summarise(run(), [other, *failed], []))
    reason = main_reason(entries)
    assert reason is not None
    assert (reason.rule, reason.text, reason.count) == ("", "CUDA out of memory", 2)
    assert nothing_valid(entries) == (
        "Nothing was measured: all 3 rows failed. The main reason: CUDA out of memory (2 rows)"
    )
    assert nothing_valid(entries[2:]) == "Nothing was measured: the only row failed (no port)"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (RunState.RUNNING, "Nothing is measured yet: 2 rows are to come"),
        (RunState.INTERRUPTED, "Nothing was measured: 2 rows are not measured"),
    ],
)
def test_what_is_to_come_is_told_from_what_did_not_come(
    state: RunState, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = pending(state)
    assert said in markdown(report)
    assert said in on_terminal(report, capsys)
    page = page_of_run(report, Kept())
    assert page.answers[0].headline == said
    assert page.findings == ()


def test_a_run_that_is_not_over_says_so_first_and_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    report = pending(RunState.INTERRUPTED, measured=True)
    note = (
        "The run was interrupted, so rows are missing; "
        f"to go on with it: invoke sweep --resume {report.run.id}"
    )
    for text in (markdown(report), on_terminal(report, capsys), page_of_run(report, Kept()).warning):
        assert note in text
    assert "Not ranked: 1 of 2 rows (not measured: tp=2 dp=1)" in markdown(report)
    assert "The run is not over" in markdown(pending(RunState.RUNNING))
    assert page_of_run(suspects(), Kept()).warning == ""


def test_a_run_without_rows_says_so_and_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    empty = summarise(run(state=RunState.FAILED, note="no host answered"), [], [])
    text = markdown(empty)
    assert "Nothing was measured: no configuration was planned." in text
    assert "| configuration |" not in text
    assert "Nothing was measured: no configuration was planned." in on_terminal(empty, capsys)
    assert page_of_run(empty, Kept()).answers[0].headline.startswith("Nothing was measured")


def test_one_valid_row_of_several_leads_without_being_called_the_best() -> None:
    report = summarise(
        run(),
        [trial(1, Config()), trial(2, Config(tp=2), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)],
        repeats(1, 100, 101, 99),
    )
    text = markdown(report)
    assert "tp=1 dp=1: output throughput 100 tok/s, the only valid one of 2".replace("100", "100.0") in text
    assert "highest" not in text.partition("## Results")[0]
    assert "Nothing" not in text


def test_one_chart_shows_what_became_of_each_configuration_with_its_suspect_number() -> None:
    (chart,) = charts_of_entries(entries_of_run(suspects()))
    assert chart.key == "outcomes"
    assert chart.finding.startswith("Nothing can be ranked: of 3 rows 2 are suspect, 1 failed")
    rows = {row["name"]: row for rows in chart.specification["datasets"].values() for row in rows}
    assert [rows[name]["value"] for name in ("tp=1 dp=1", "tp=2 dp=1", "tp=4 dp=1")] == [240.0, 3100.0, None]
    assert rows["tp=1 dp=1"]["why"] == "suspect: the server ran in eager mode, at 240 tok/s"
    assert rows["tp=4 dp=1"]["why"] == "failed: CUDA out of memory"
    assert "tp=4 dp=1 failed: CUDA out of memory" in chart.alt
    assert png_of(chart.specification).startswith(b"\x89PNG")


def test_what_failed_everywhere_has_a_chart_without_an_axis_of_numbers() -> None:
    failed = [trial(n, Config(tp=n), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY) for n in (1, 2)]
    (chart,) = charts_of_entries(entries_of_run(summarise(run(), failed, [])))
    assert "all 2 rows failed" in chart.finding
    assert "tok/s" not in str(chart.specification["title"])
    assert png_of(chart.specification).startswith(b"\x89PNG")


@pytest.mark.parametrize("report", [pending(RunState.RUNNING), summarise(run(), [], [])])
def test_where_nothing_was_tried_there_is_no_chart(report: Report) -> None:
    assert list(charts_of_entries(entries_of_run(report))) == []


def test_sixty_rows_under_two_loads_are_charts_that_leave_none_out() -> None:
    loads = {"workloads": (CLOSED, SMALL), "state": TrialState.FAILED, "failure": TOO_LITTLE_MEMORY}
    trials = [trial(n, Config(max_model_len=1000 + n), **loads) for n in range(1, 31)]
    charts = list(charts_of_entries(entries_of_run(summarise(run(), trials, []))))
    assert [chart.key for chart in charts] == ["outcomes", "outcomes-2"]
    shown = [row for c in charts for rows in c.specification["datasets"].values() for row in rows]
    assert len({(row["name"], row["load"]) for row in shown}) == 60


def test_what_a_host_wrote_stays_on_one_line() -> None:
    hostile = replace(TOO_LITTLE_MEMORY, cause="a\nb\x1b[31m" + "x" * 500)
    failed = [trial(1, Config(), state=TrialState.FAILED, failure=hostile)]
    entries: tuple[Entry, ...] = entries_of_run(summarise(run(), failed, []))
    said = nothing_valid(entries)
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 250
