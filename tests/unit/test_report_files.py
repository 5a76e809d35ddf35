"""The report as files: Markdown, CSV for csvkit, charts; whole or not at all, whatever a host wrote."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import CLOSED, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.cli import main
from fleetbench.errors import FleetbenchError
from fleetbench.model import Config, Failure, GpuSet, Trial, TrialState
from fleetbench.report.columns import Table, measurement_table, summary_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.files import write_files, write_report
from fleetbench.report.markdown import code, escaped, markdown
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import MeasurementKind, RunKind, RunState, Verdict
from fleetbench.results.store import Store, open_store

HOSTILE = "=cmd|'/c calc'!A0 <script>alert(1)</script> | `x` [a](b) \"q\"\n# head\x1b[31m\x07"


def example() -> Report:
    trials = [
        trial(1, Config()),
        trial(2, Config(dp=2)),
        trial(3, Config(tp=4), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
    ]
    return summarise(run(), trials, [*repeats(1, 100, 102, 101), *repeats(2, 190, 195, 192)])


def hostile() -> Report:
    failure = Failure(kind="x", cause=HOSTILE, evidence=HOSTILE, advice=HOSTILE)
    trials = [
        trial(1, Config(serve_args=(HOSTILE, "--x")), host=HOSTILE),
        trial(2, Config(), state=TrialState.FAILED, failure=failure),
    ]
    rows = [measurement(1, 1, result(100), Verdict.VALID, HOSTILE)]
    return summarise(run(model=HOSTILE, note=HOSTILE), trials, rows)


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_summary_has_one_row_for_each_configuration_and_says_what_failed() -> None:
    text = csv_text(summary_table(example()))
    rows = read_csv(text)
    assert len(text.splitlines()) == 4
    assert [row["configuration"] for row in rows] == ["tp=1 dp=1", "tp=1 dp=2", "tp=4 dp=1"]
    assert [row["verdict"] for row in rows] == ["valid", "valid", ""]
    assert rows[1]["output_throughput"] == "192"
    assert (rows[1]["output_throughput_min"], rows[1]["output_throughput_max"]) == ("190", "195")
    assert rows[1]["output_throughput_per_gpu"] == "96.0"
    assert rows[0]["warmup_output_throughput"] == "50.0"
    assert rows[2]["failure_cause"] == "CUDA out of memory"
    assert rows[2]["output_throughput"] == ""
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in rows[0])


def test_every_measurement_is_in_the_csv_warm_ups_too() -> None:
    rows = read_csv(csv_text(measurement_table(example())))
    assert [row["kind"] for row in rows] == ["warmup", "measure", "measure", "measure"] * 2
    assert rows[1]["output_throughput"] == "100"
    assert rows[1]["seed"] == "101"
    assert rows[1]["p99_itl_ms"] == ""


def test_ones_and_zeros_are_written_as_such() -> None:
    table = Table(("a", "b", "c", "d"), ((0, 1, True, None), (1, 2, False, None)))
    assert csv_text(table) == '"a","b","c","d"\n0,1,yes,\n1,2,no,\n'


@settings(max_examples=100)
@given(st.lists(st.text(), min_size=1, max_size=5))
def test_any_text_stays_in_its_cell_and_on_its_line(cells: list[str]) -> None:
    text = csv_text(Table(tuple(f"c{n}" for n in range(len(cells))), (tuple(cells),)))
    assert text.count("\n") == 2
    (_, row) = csv.reader(io.StringIO(text))
    assert len(row) == len(cells)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


@pytest.mark.parametrize("report", [example(), hostile()], ids=["example", "hostile"])
def test_csvkit_reads_the_tables_with_right_types_and_without_a_warning(
    report: Report, tmp_path: Path
) -> None:
    def csvkit(tool: str, *arguments: str) -> str:
        command = f"import sys; from csvkit.utilities.{tool} import launch_new_instance as main; main()"
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), (tool, done.stderr)
        return done.stdout

    summary, measurements = tmp_path / "summary.csv", tmp_path / "measurements.csv"
    summary.write_text(csv_text(summary_table(report)))
    measurements.write_text(csv_text(measurement_table(report)))
    table = csvkit("csvlook", str(summary)).splitlines()
    assert len(table) == 2 + len(report.rows)
    for path in (summary, measurements):
        statistics = json.loads(csvkit("csvstat", "--json", str(path)))
        types = {column["column_name"]: column["type"] for column in statistics}
        integers = {types[name] for name in ("trial", "tp", "dp", "units", "workload_index")}
        assert integers <= {"Number", "Boolean"}  # Boolean: csvkit's word for nothing but 0 and 1
        assert {types[name] for name in ("run", "gpus", "verdict", "vllm_version")} == {"Text"}
    assert types["output_throughput"] == types["duration"] == "Number"
    assert {types["failed"], types["exit_status"]} == {"Boolean"}
    query = "select count(*) as n from measurements where verdict = 'valid' and kind = 'measure'"
    counted = csvkit("csvsql", "--query", query, str(measurements)).split()
    valid = [row for row in report.measurements if row.kind is MeasurementKind.MEASURE]
    assert [counted[0], float(counted[1])] == ["n", len(valid)]


def test_markdown_shows_hostile_text_as_text() -> None:
    text = markdown(hostile())
    assert "\x1b" not in text
    assert "\n# head" not in text
    outside_code = re.sub(r"(`+) .*? \1", "", text)
    assert "<script>" not in outside_code.replace("\\<", "")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows
    for line in rows:
        assert len(re.findall(r"(?<!\\)\|", line)) in (3, 9, 10), line


def test_code_is_fenced_beyond_the_backticks_that_it_holds() -> None:
    assert code("a ``b`` c") == "``` a ``b`` c ```"
    assert escaped("a|b_c & <d>") == r"a\|b\_c &amp; \<d\>"


def test_markdown_names_the_finding_the_failure_and_its_evidence() -> None:
    text = markdown(example(), [("charts/x.png", "a finding")])
    assert (
        "tp=1 dp=2 has the highest output throughput: 192.0 tok/s, faster than tp=1 dp=1 by 89–92 %" in text
    )
    assert "**tp=4 dp=1** (failed): CUDA out of memory" in text
    assert "torch.OutOfMemoryError: Tried to allocate 3.20 GiB" in text
    assert "next: use tp=2" in text
    assert "![a finding](charts/x.png)" in text


def test_what_was_never_started_is_told_apart_from_what_failed() -> None:
    why = Failure(kind="planner", cause="impossible: heads: 40 by tp=3", evidence="40", advice="--try-all")
    report = summarise(
        run(),
        [
            trial(1, Config(tp=1), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
            trial(2, Config(tp=3), state=TrialState.NOT_RUN, failure=why, vllm_version=""),
        ],
        [],
    )
    failed, _, untried = markdown(report).partition("## What was not tried")
    assert "## What did not work" in failed
    assert "CUDA out of memory" in failed
    assert "(not run): impossible: heads: 40 by tp=3" in untried
    assert "next: --try-all" in untried
    assert "CUDA" not in untried
    assert report.rows[1].status == "not run: impossible: heads: 40 by tp=3"


def test_nothing_valid_draws_nothing_and_the_text_says_so(tmp_path: Path) -> None:
    failed = [trial(1, Config(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)]
    paths = write_files(summarise(run(), failed, []), tmp_path)
    assert paths.charts == ()
    text = paths.markdown.read_text()
    assert "- Nothing was measured: " in text
    assert "CUDA out of memory" in text


def test_files_are_replaced_stale_charts_removed_and_foreign_files_left(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "p99-e2el-ms.png").write_text("of an earlier report")
    (tmp_path / "charts" / "mine.png").write_text("mine")
    (tmp_path / "report.md").write_text("old")
    paths = write_files(example(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "charts",
        "measurements.csv",
        "report.html",
        "report.md",
        "summary.csv",
    ]
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    drawn = {path.with_suffix(form).name for path in paths.charts for form in (".png", ".svg")}
    assert names == {"mine.png", "charts.json"} | drawn
    for reference in re.findall(r"\]\((charts/[^)]+)\)", paths.markdown.read_text()):
        assert (tmp_path / reference).is_file()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FleetbenchError, match="cannot write the report to") as caught:
        write_files(example(), tmp_path / "file" / "report")
    assert caught.value.next_step


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, str]]:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    report = example()
    with open_store() as store:
        run_id = store.create_run(kind=RunKind.SWEEP, model="tiny", repo="org/tiny", hosts=["lab-01"]).id
        store.add_trials(run_id, [_planned(row.number, row.config) for row in report.trials])
        for row in report.trials:
            store.set_trial(run_id, row.number, state=row.state, failure=row.failure, ready_s=12.5)
        for found in report.measurements:
            key = (run_id, found.trial, found.workload_index, found.repeat, found.kind)
            store.start_measurement(*key, seed=found.seed, unit_name="u", client="lab-01")
            store.finish_measurement(
                *key, result=found.result, verdict=Verdict.VALID, reasons=found.reasons, exit_status=0
            )
        store.set_run_state(run_id, RunState.DONE)
        yield store, run_id


def _planned(number: int, config: Config) -> Trial:
    gpus = GpuSet(tuple(range(config.gpus)))
    return Trial(
        number=number, host="lab-01", gpus=gpus, port=8101, config=config, workloads=(CLOSED,), repeats=3
    )


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.stdout, done.stderr


def test_a_report_from_the_store_equals_one_from_the_rows(stored: tuple[Store, str], tmp_path: Path) -> None:
    store, run_id = stored
    paths = write_report(store, run_id, tmp_path / "out")
    from_store = read_csv(paths.summary.read_text())
    for got, expected in zip(from_store, read_csv(csv_text(summary_table(example()))), strict=True):
        for column in ("configuration", "verdict", "p99_ttft_ms", "failure_evidence"):
            assert got[column] == expected[column]
        if expected["output_throughput"]:
            assert float(got["output_throughput"]) == float(expected["output_throughput"])


def test_the_report_command_prints_the_table_and_says_where_the_files_are(stored: tuple[Store, str]) -> None:
    store, run_id = stored
    status, shown, told = invoke("report", run_id[:-1])
    assert status == 0
    assert "tp=1 dp=2" in shown
    assert "failed: CUDA out of memory" in shown
    assert "evidence: torch.OutOfMemoryError" in shown
    directory = store.directory(run_id) / "report"
    assert str(directory / "report.html") in told
    assert (directory / "charts" / "output-throughput.png").stat().st_size > 5000


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_the_report_command_prints_nothing_but_what_was_asked_for(
    stored: tuple[Store, str], tmp_path: Path, form: str
) -> None:
    status, shown, _ = invoke("report", "latest", "--format", form, "--output", str(tmp_path / "here"))
    assert status == 0
    if form == "json":
        rows = json.loads(shown)
        assert [row["tp"] for row in rows] == [1, 1, 4]
        assert rows[1]["output_throughput"] == 192
        assert rows[2]["output_throughput"] is None
    elif form == "csv":
        assert shown == (tmp_path / "here" / "summary.csv").read_text()
    else:
        assert shown == (tmp_path / "here" / "report.md").read_text()


def test_the_runs_command_lists_and_shows(stored: tuple[Store, str]) -> None:
    _, run_id = stored
    status, shown, _ = invoke("runs")
    assert status == 0
    assert run_id in shown
    (row,) = json.loads(invoke("runs", "--format", "json")[1])
    assert (row["run"], row["trials"], row["measured"], row["state"]) == (run_id, 3, 2, "done")
    (row,) = read_csv(invoke("runs", "list", "--format", "csv")[1])
    assert row["run"] == run_id
    status, shown, _ = invoke("runs", "show", "latest")
    assert status == 0
    assert "CUDA out of memory: torch.OutOfMemoryError" in shown
    document = json.loads(invoke("runs", "show", run_id, "--format", "json")[1])
    assert len(document["measurements"]) == 8
    assert document["trials"][2]["failure"]["kind"] == "oom"
    assert len(read_csv(invoke("runs", "show", run_id, "--format", "csv")[1])) == 3


@pytest.mark.parametrize("command", [("runs", "show"), ("report",)])
def test_an_unknown_run_ends_with_status_2_and_a_suggestion(
    stored: tuple[Store, str], command: tuple[str, ...]
) -> None:
    _, run_id = stored
    status, shown, told = invoke(*command, "tiny")
    assert (status, shown) == (2, "")
    assert f"did you mean {run_id}?" in told
    assert len(told.splitlines()) <= 3


def test_without_a_store_the_commands_say_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    for command in (("runs",), ("runs", "show", "latest"), ("report", "latest")):
        status, _, told = invoke(*command)
        assert status == 1
        assert "invoke sweep" in told
    assert list(tmp_path.iterdir()) == []
