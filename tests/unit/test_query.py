"""SQL over the views: the right rows on both databases, one statement, and never a change."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from imported_figures import PUBLISHED
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result
from sqlalchemy import text

from fleetbench.cli import main
from fleetbench.errors import FleetbenchError, UsageError
from fleetbench.model import Config, GpuSet, Trial, TrialState
from fleetbench.report.columns import summary_table
from fleetbench.report.files import read_report
from fleetbench.results.database import reading
from fleetbench.results.dictionary import Kind, meaning
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.migrations import current_version
from fleetbench.results.query import ask, sqlite_store
from fleetbench.results.rows import MeasurementKind, RunKind, RunState, Verdict
from fleetbench.results.store import Store, open_store
from fleetbench.results.views import Dialect, views

HOSTILE = "=cmd|' /c calc'!A0 \"q\", '; DROP TABLE runs; -- \x1b[31m"
CONFIGS = (
    Config(tp=1),
    Config(tp=2, dp=2, max_model_len=8192, serve_args=("--kv-cache-dtype", "fp8")),
    Config(pp=2, ep=True, units=2, build="new", variant="eager", serve_args=("--enforce-eager",)),
    Config(tp=4),
    Config(tp=8, serve_args=(HOSTILE,)),
)


@pytest.fixture
def stored(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, str]]:
    """A store of one run with everything that can become of a trial, and the environment that names it."""
    monkeypatch.setenv("FLEETBENCH_DB", database_url)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    with open_store() as store:
        trials = [
            Trial(
                number=number,
                host="lab-01" if number < 5 else HOSTILE,
                gpus=GpuSet(tuple(range(config.gpus))),
                port=8101,
                config=config,
                workloads=(CLOSED, SMALL) if number == 2 else (CLOSED,),
                repeats=3,
                gpu_name="NVIDIA H200",
            )
            for number, config in enumerate(CONFIGS, start=1)
        ]
        run_id = store.create_run(
            kind=RunKind.SWEEP, model="tiny", repo="org/tiny", hosts=["lab-01", "lab-02"], trials=trials
        ).id
        rows = [*repeats(1, 100, 102, 101), *repeats(2, 200, 210), *repeats(3, 50)]
        rows.append(measurement(2, 3, result(900), Verdict.SUSPECT, "too few", "too short"))
        rows.append(measurement(2, 1, result(300), Verdict.SUSPECT, HOSTILE, workload_index=1))
        for row in rows:
            key = (run_id, row.trial, row.workload_index, row.repeat, row.kind)
            store.start_measurement(*key, seed=row.seed, unit_name="u", client="lab-01")
            store.finish_measurement(
                *key, result=row.result, verdict=row.verdict or Verdict.VALID, reasons=row.reasons
            )
        for number in (1, 2, 3):
            store.set_trial(run_id, number, state=TrialState.MEASURED, vllm_version="0.33.0", ready_s=12.5)
        store.set_trial(run_id, 4, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)
        store.set_run_state(run_id, RunState.DONE)
        yield store, run_id


def asked(sql: str) -> list[tuple[object, ...]]:
    return list(ask(sql).rows)


def test_results_are_the_rows_of_summary_csv(stored: tuple[Store, str]) -> None:
    store, run_id = stored
    table = summary_table(read_report(store, run_id))
    answer = ask("select * from results order by trial, workload_index")
    shared = [name for name in answer.columns if name in table.columns]
    assert len(shared) > 40
    assert len(answer.rows) == len(table.rows) == 6
    for row, expected in zip(answer.rows, table.objects(), strict=True):
        found = dict(zip(answer.columns, row, strict=True))
        for name in shared:
            wanted = expected[name]
            if name == "gpus":
                wanted = ",".join(str(wanted).removeprefix("gpu").split("+gpu"))
            elif meaning(name).kind is Kind.FLAG:  # type: ignore[union-attr]
                wanted = "yes" if wanted else "no"
            elif wanted is None and isinstance(found[name], str):
                wanted = ""
            elif isinstance(wanted, float):
                wanted = pytest.approx(wanted, abs=1e-5)
            assert found[name] == wanted, (name, found["trial"])


def test_a_configuration_has_the_label_that_it_has_everywhere(stored: tuple[Store, str]) -> None:
    labels = [row[0] for row in asked("select distinct configuration, trial from results order by trial")]
    assert labels == [config.label for config in CONFIGS[:4]] + [CONFIGS[4].label.replace("\x00", "�")]


def test_runs_and_measurements_are_all_there(stored: tuple[Store, str]) -> None:
    store, run_id = stored
    assert asked("select run, hosts, trials, measured, model, state from runs") == [
        (run_id, "lab-01 lab-02", 5, 3, "tiny", "done")
    ]
    rows = asked("select trial, repeat, kind, verdict, output_throughput, reasons from measurements")
    assert len(rows) == len(store.measurements(run_id))
    kinds = [row[2] for row in rows]
    assert kinds.count("warmup") == 3
    assert (2, 3, "measure", "suspect", 900.0, "too few; too short") in rows


def test_imported_rows_are_a_view_of_their_own(stored: tuple[Store, str]) -> None:
    store, _ = stored
    number = 0
    for path in sorted(PUBLISHED.glob("*.toml")):
        source = read_source(path.name, [(path.name, path.read_text("utf-8"))])
        rows = judged(source)
        store.keep_import(source, rows)
        number += len(rows)
    assert asked("select count(*) from imported") == [(number,)]
    best = asked(
        "select label, tp, gpu_count, output_throughput, verdict, title from imported"
        " where output_throughput is not null order by output_throughput desc limit 1"
    )
    assert best[0][3] is not None
    assert best[0][5]
    assert asked("select count(*) from results") == [(6,)]


def test_every_column_of_every_view_can_be_asked_for(stored: tuple[Store, str]) -> None:
    for view in views(Dialect.SQLITE):
        sql = " ".join(("select", ", ".join(view.columns), "from", view.name))
        assert ask(sql).columns == tuple(view.columns)


WRITES = (
    "delete from runs",
    "update runs set note = 'x'",
    "drop table measurements",
    "create table mine (a integer)",
    "insert into runs (run) values ('x')",
    "select 1; drop table measurements",
    "select 1; select 2",
    "create temporary view runs2 as select 1",
)


@pytest.mark.parametrize("sql", WRITES)
def test_what_is_more_than_reading_is_refused(sql: str, stored: tuple[Store, str]) -> None:
    store, run_id = stored
    before = store.records(run_id)
    with pytest.raises(UsageError, match="the query"):
        ask(sql)
    assert store.records(run_id) == before


@pytest.mark.parametrize(
    "sql",
    [
        "with x as (select 1) delete from main.runs",
        "delete from main.runs",
        "pragma query_only = off",
        "pragma writable_schema = on",
        "attach '/tmp/other.sqlite' as other",
        "vacuum into '/tmp/copy.sqlite'",
        "select load_extension('x')",
        "begin immediate",
        "commit",
    ],
)
def test_sqlite_s_own_ways_out_are_closed(sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    open_store().close()
    with pytest.raises(UsageError, match="the query"):
        ask(sql)
    assert not Path("/tmp/copy.sqlite").exists()


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("select output_throughputs from results", "output_throughput (results, measurements, imported)"),
        ("select r.verdct from results r", "did you mean verdict"),
        ("select * from result", "did you mean results"),
        ("select * from measurments", "did you mean measurements"),
        ("selec 1", "query --schema"),
        ("select zzzzzzzz from results", "query --schema"),
        ("", "select * from results"),
        (" ; ", "select * from results"),
    ],
)
def test_a_mistake_names_what_was_meant(sql: str, hint: str, stored: tuple[Store, str]) -> None:
    with pytest.raises(UsageError) as caught:
        ask(sql)
    assert hint in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_query_that_takes_too_long_is_ended(stored: tuple[Store, str]) -> None:
    endless = (
        "with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000000000)"
        " select count(*) from n"
    )
    with pytest.raises(FleetbenchError, match=r"took longer than 0\.2 s"):
        ask(endless, limit_s=0.2)


def test_many_rows_are_cut_and_said(stored: tuple[Store, str]) -> None:
    assert ask("select * from measurements", most_rows=3).cut
    assert not ask("select * from runs", most_rows=3).cut


def test_a_store_of_an_older_schema_is_brought_up_to_date_and_one_that_is_missing_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    with pytest.raises(FleetbenchError, match="there is no store"):
        ask("select 1")
    open_store().close()
    with sqlite3.connect(tmp_path / "fleetbench.sqlite") as connection:
        connection.executescript(
            "drop table summaries; drop index runs_by_time; drop index trials_by_state;"
            "drop index measurements_by_verdict; delete from schema_version where version > 9"
        )
    assert asked("select count(*) from results") == [(0,)]
    with open_store() as store, reading(store._engine, "look") as connection:
        assert current_version(connection) >= 10
        assert connection.scalar(text("select count(*) from summaries")) == 0


# ---------------------------------------------------------------- the commands


def call(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=given)


def test_csv_is_what_a_pipe_gets_and_hostile_text_is_a_cell(stored: tuple[Store, str]) -> None:
    found = call("query", "select host, serve_args from results where trial = 5")
    assert found.exit_code == 0, found.stderr
    (row,) = csv.DictReader(io.StringIO(found.stdout))
    assert row["host"].startswith(" =cmd|")
    assert "\x1b" not in found.stdout


def test_json_markdown_and_table_have_the_same_rows(stored: tuple[Store, str]) -> None:
    sql = "select trial, verdict, output_throughput from results where verdict = 'valid' order by trial"
    rows = json.loads(call("query", sql, "--format", "json").stdout)
    assert [(row["trial"], row["output_throughput"]) for row in rows] == [(1, 101.0), (2, 205.0), (3, 50.0)]
    lines = call("query", "-", "--format", "markdown", given=sql).stdout.splitlines()
    assert lines[0] == "| trial | verdict | output\\_throughput |"
    assert len(lines) == 5
    table = call("query", sql, "--format", "table").stdout.splitlines()
    assert [cell.strip() for cell in table[3].split("|")[1:-1]] == ["2", "valid", "205"]
    nothing = call("query", "select trial from results where trial = 99", "--format", "table")
    assert (nothing.exit_code, nothing.stdout) == (0, "trial\n(no rows)\n")


def test_a_count_of_one_is_one_for_scripts_and_for_people(stored: tuple[Store, str], tmp_path: Path) -> None:
    sql = "select count(*) as n, 0 as z from runs"
    assert call("query", sql).stdout.splitlines()[-1] == "1,0"
    for shown in (call("query", sql, "--format", "table").stdout, call("look", sql).stdout):
        assert [cell.strip() for cell in shown.splitlines()[2].split("|")[1:-1]] == ["1", "0"]
    assert "Number" in call("stat", sql).stdout
    path = tmp_path / "ones.csv"
    path.write_text(call("query", sql).stdout)
    assert "True" not in call("look", str(path)).stdout


def test_the_schema_is_shown_with_its_version() -> None:
    rows = list(csv.DictReader(io.StringIO(call("query", "--schema").stdout)))
    assert {row["view"] for row in rows} == {"runs", "results", "measurements", "imported"}
    (throughput,) = [row for row in rows if (row["view"], row["column"]) == ("results", "output_throughput")]
    assert (throughput["unit"], throughput["kind"]) == ("tok/s", "real")
    assert all(row["meaning"] for row in rows)


def test_look_and_stat_take_a_run_a_query_and_a_file(stored: tuple[Store, str], tmp_path: Path) -> None:
    looked = call("look", "latest")
    assert looked.exit_code == 0, looked.stderr
    assert "tp=2 dp=2 len=8192 --kv-cache-dtype fp8" in looked.stdout
    assert "CUDA out of memory" in looked.stdout
    assert "\x1b" not in looked.stdout
    few = call("look", "latest", "-c", "trial,verdict").stdout.splitlines()
    assert [cell.strip() for cell in few[0].split("|")[1:-1]] == ["trial", "verdict"]
    wrong = call("look", "latest", "-c", "verdct")
    assert wrong.exit_code == 2
    assert "did you mean verdict" in wrong.stderr
    described = call("stat", "select output_throughput from results").stdout
    assert "Largest value:         300" in described
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,x\x1b[31m\n2,y\n")
    assert "Sum:                   3" in call("stat", str(path)).stdout
    assert "\x1b" not in call("look", str(path)).stdout
    path.write_text("a;b\n1;2\n3;4\n")
    assert "| a | b |" in call("look", str(path)).stdout
    path.write_text("")
    assert "there is nothing to show" in call("look", str(path)).stderr


def test_a_kind_of_measurement_can_be_told(stored: tuple[Store, str]) -> None:
    kinds = {row[0] for row in asked("select distinct kind from measurements")}
    assert kinds <= {kind.value for kind in MeasurementKind}


def test_the_tables_of_json_can_be_asked_alone(stored: tuple[Store, str]) -> None:
    sql = "select value from json_each('[1]')"
    if sqlite_store() is None:
        sql = "select value::text::int from json_array_elements('[1]')"
    assert asked(sql) == [(1,)]
