"""Runs for other programs: the right numbers in each format, whatever a name holds, and whole files."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from exported_runs import CONFIGS, HOSTILE, WORKLOADS, fill, output_tps
from imported_figures import PUBLISHED
from measured_runs import measured_run
from prometheus_client.parser import text_string_to_metric_families

from fleetbench.cli import main
from fleetbench.export.prometheus import COLUMNS, GAUGES, exposition
from fleetbench.export.short import short_markdown
from fleetbench.export.vllm import sweep_files
from fleetbench.report.columns import measurement_columns, summary_columns
from fleetbench.report.files import read_report
from fleetbench.results.dictionary import version
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import Conditions, ForeignRow, Source
from fleetbench.results.store import Store, open_store
from fleetbench.results.values import BenchResult


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "runs"


@pytest.fixture
def stored(runs: Path) -> Iterator[tuple[Store, str]]:
    with open_store() as store:
        yield store, fill(store)


@pytest.fixture
def hostile(runs: Path) -> Iterator[tuple[Store, str]]:
    with open_store() as store:
        yield store, fill(store, host=HOSTILE, model=HOSTILE)


def export(*words: str) -> Result:
    return CliRunner().invoke(main, ["export", *words])


def exported(*words: str) -> str:
    done = export(*words)
    assert done.exit_code == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------- text and tables


def test_markdown_is_a_table_with_what_the_numbers_say(stored: tuple[Store, str]) -> None:
    text = exported("--format", "markdown")
    assert text.startswith("### org/tiny, ")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 4 * len(WORKLOADS)
    assert "- No clear best output throughput in any of 4 workloads" in text
    assert "tp=4 dp=1: failed, CUDA out of memory" in text
    assert "![" not in text
    assert len(text.splitlines()) < 40


def test_markdown_of_a_hostile_run_is_still_a_table(hostile: tuple[Store, str]) -> None:
    text = exported("--format", "markdown")
    assert "\x1b" not in text
    assert "<b>" not in text.replace("\\<", "")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1


def test_csv_and_json_have_every_column_and_the_same_rows(stored: tuple[Store, str]) -> None:
    for rows, columns in (("summary", summary_columns()), ("measurements", measurement_columns())):
        found = list(csv.DictReader(io.StringIO(exported("--format", "csv", "--rows", rows))))
        document = json.loads(exported("--format", "json", "--rows", rows))
        assert tuple(found[0]) == columns
        assert len(found) == len(document["rows"])
        assert (document["schema"], document["schema_version"]) == ("fleetbench columns", version())
        assert document["table"] == rows
        for row, other in zip(found, document["rows"], strict=True):
            assert float(row["output_throughput"] or 0) == (other["output_throughput"] or 0)


def test_several_runs_are_one_table(stored: tuple[Store, str]) -> None:
    store, first = stored
    second = fill(store)
    found = list(csv.DictReader(io.StringIO(exported(first, second, first, "--format", "csv"))))
    assert [row["run"] for row in found] == [first] * 16 + [second] * 16


def test_parquet_has_kinds_units_and_the_version_of_its_columns(stored: tuple[Store, str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for rows, count in (("summary", 16), ("measurements", 48)):
        path = Path(exported("--format", "parquet", "--rows", rows, "-o", f"{rows}.parquet").strip())
        table = parquet.read_table(path)
        assert table.num_rows == count
        told = table.schema.metadata
        assert told[b"schema_version"] == str(version()).encode()
        assert told[b"table"] == rows.encode()
        field = table.schema.field("output_throughput")
        assert (str(field.type), field.metadata[b"unit"]) == ("double", b"tok/s")
        kinds = {name: str(table.schema.field(name).type) for name in ("run", "trial", "ep", "temperature")}
        assert kinds == {"run": "string", "trial": "int64", "ep": "bool", "temperature": "double"}
        expected = csv.DictReader(io.StringIO(exported("--format", "csv", "--rows", rows)))
        values = [float(row["output_throughput"]) if row["output_throughput"] else None for row in expected]
        assert table.column("output_throughput").to_pylist() == values


def test_without_pyarrow_parquet_says_what_to_install(
    stored: tuple[Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export("--format", "parquet")
    assert done.exit_code == 1
    assert "pip install 'fleetbench[parquet]'" in done.stderr
    assert not list(Path().iterdir())


def test_single_requests_come_from_the_raw_files(runs: Path) -> None:
    requests = {
        "ttfts": [0.01, 0.02, 0.0],
        "itls": [[0.1, 0.1], [0.2], []],
        "output_lens": [3, 2, 0],
        "input_lens": [7, 8, 9],
        "start_times": [100.0, 100.5, 101.0],
        "errors": ["", "", "refused"],
    }
    with open_store() as store:
        run = measured_run(store, repeats=1, reports=lambda repeat: requests)
        place = store.directory(run) / "trial-01" / "workload-0" / "measure-1"
    found = list(csv.DictReader(io.StringIO(exported("--format", "csv", "--rows", "requests"))))
    assert [row["request"] for row in found] == ["1", "2"]
    assert [float(row["ttft_ms"]) for row in found] == [10.0, 20.0]
    assert [float(row["e2el_ms"]) for row in found] == [210.0, 220.0]
    assert [float(row["tpot_ms"]) for row in found] == [100.0, 200.0]
    assert [float(row["started_s"]) for row in found] == [0.0, 0.5]
    assert [row["input_tokens"] for row in found] == ["7", "8"]
    assert "without the requests" not in export("--format", "csv", "--rows", "requests").stderr
    (place / "result.json").unlink()
    said = export("--format", "csv", "--rows", "requests").stderr
    assert f"{run}: without the requests of 1 of 1 measurements" in said


def csvkit(tool: str, *arguments: str) -> str:
    command = f"import sys; from csvkit.utilities.{tool} import launch_new_instance as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), (tool, done.stderr)
    return done.stdout


@pytest.mark.parametrize("rows", ["summary", "measurements"])
def test_csvkit_reads_what_is_exported(rows: str, hostile: tuple[Store, str]) -> None:
    path = Path("rows.csv")
    path.write_text(exported("--format", "csv", "--rows", rows))
    count = len(list(csv.reader(io.StringIO(path.read_text())))) - 1
    assert len(csvkit("csvlook", str(path)).splitlines()) == count + 2
    assert len(json.loads(csvkit("csvjson", str(path)))) == count
    assert csvkit("csvsql", "--query", "select count(*) as n from rows", str(path)).split()[0] == "n"
    kinds = {each["column_name"]: each["type"] for each in json.loads(csvkit("csvstat", "--json", str(path)))}
    assert {kinds[name] for name in ("trial", "tp", "output_throughput", "p99_ttft_ms")} == {"Number"}
    assert {kinds[name] for name in ("run", "host", "model", "configuration")} == {"Text"}


def test_csvkit_reads_what_is_imported(runs: Path) -> None:
    hostile = ForeignRow(
        table=HOSTILE,
        label=HOSTILE,
        form="csv",
        conditions=Conditions(model=HOSTILE, gpu=HOSTILE, gpus=1, tp=1, serve_args=HOSTILE),
        result=BenchResult(completed=1, failed=0, output_throughput=5.5),
    )
    with open_store() as store:
        path = PUBLISHED / "tensor-vs-data-parallel.toml"
        source = read_source(path.name, [(path.name, path.read_text("utf-8"))])
        store.keep_import(source, judged(source))
        source = Source(id="hostile-00000000", name=HOSTILE, sha256="0" * 64, rows=(hostile,))
        store.keep_import(source, judged(source))
    done = CliRunner().invoke(main, ["report", "imported", "--format", "csv"])
    assert done.exit_code == 0, done.stderr
    for path in (Path("imported.csv"), Path("asked.csv")):
        text = CliRunner().invoke(main, ["query", "select * from imported", "--format", "csv"]).stdout
        path.write_text(text if path.name == "asked.csv" else done.stdout)
        count = len(list(csv.reader(io.StringIO(path.read_text())))) - 1
        assert count > 5
        assert len(csvkit("csvlook", str(path)).splitlines()) == count + 2
        described = json.loads(csvkit("csvstat", "--json", str(path)))
        kinds = {each["column_name"]: each["type"] for each in described}
        assert {kinds[name] for name in ("position", "gpu_count", "output_throughput")} == {"Number"}
        assert {kinds[name] for name in ("source", "model", "gpu", "verdict", "label")} == {"Text"}


def test_csvkit_reads_a_query_s_answer_and_our_json(hostile: tuple[Store, str]) -> None:
    sql = "select host, model, trial, verdict, output_throughput, serve_args from results"
    Path("answer.csv").write_text(CliRunner().invoke(main, ["query", sql, "--format", "csv"]).stdout)
    assert len(csvkit("csvlook", "answer.csv").splitlines()) == 18
    Path("answer.json").write_text(CliRunner().invoke(main, ["query", sql, "--format", "json"]).stdout)
    assert len(list(csv.reader(io.StringIO(csvkit("in2csv", "answer.json"))))) == 17
    Path("all.json").write_text(exported("--format", "json"))
    assert len(list(csv.reader(io.StringIO(csvkit("in2csv", "-k", "rows", "all.json"))))) == 17


# ---------------------------------------------------------------- vLLM's own files


def summaries(directory: Path) -> list[dict[str, object]]:
    """What `vllm bench sweep plot` reads: every summary.json, at any depth."""
    return [row for path in sorted(directory.rglob("summary.json")) for row in json.loads(path.read_text())]


def test_vllm_s_directory_has_valid_measurements_in_its_summaries(stored: tuple[Store, str]) -> None:
    directory = Path(exported("--format", "vllm", "-o", "sweep").strip())
    rows = summaries(directory)
    assert len(rows) == 3 * len(WORKLOADS) * 3 - 1
    assert {row["fleetbench_verdict"] for row in rows} == {"valid"}
    assert len({tuple(row) for row in rows}) == 1, "plot groups by keys that every record has to have"
    for row in rows:
        config = CONFIGS[int(str(row["fleetbench_trial"])) - 1]
        repeat = int(str(row["run_number"])) + 1
        concurrency = int(str(row["max_concurrency"]))
        assert row["output_throughput"] == output_tps(config, concurrency, repeat)
        assert row["gpu_count"] == config.gpus
        assert (row["tensor_parallel_size"], row["units"]) == (config.tp, config.units)
        assert row["request_rate"] == "inf"
        assert row["model_id"] == "org/tiny"
    folders = sorted(path for path in directory.iterdir() if path.is_dir())
    assert folders[0].name == "SERVE--01-tp=1_dp=1-BENCH--0-random_128_128_n=10_c=1"
    assert sorted(path.name for path in folders[0].iterdir()) == [
        *("run=0.json", "run=1.json", "run=2.json", "summary.json", "warmup.json"),
    ]
    failed = json.loads((directory / "SERVE--04-tp=4_dp=1" / "failure.json").read_text())
    assert failed["error"] == "CUDA out of memory"
    table = list(csv.DictReader((directory / "summary.csv").open()))
    assert len(table) == len(rows)


def test_an_invalid_measurement_is_there_with_its_verdict_and_in_no_summary(
    stored: tuple[Store, str],
) -> None:
    directory = Path(exported("--format", "vllm").strip())
    (found,) = [
        row
        for path in directory.rglob("run=*.json")
        if (row := json.loads(path.read_text()))["fleetbench_verdict"] == "invalid"
    ]
    assert found["failed"] == 5
    assert (found["fleetbench_trial"], found["run_number"]) == (2, 2)


def test_names_of_a_hostile_run_stay_below_the_directory(hostile: tuple[Store, str]) -> None:
    store, run_id = hostile
    files = sweep_files(store.run(run_id), store.trials(run_id), store.measurements(run_id))
    for name, content in files.items():
        assert re.fullmatch(r"[A-Za-z0-9=._/-]+", name)
        assert ".." not in name
        assert b"\x1b" not in content


def test_a_result_s_own_key_is_no_formula_in_the_table_of_all_summaries(stored: tuple[Store, str]) -> None:
    """What a client adds to its result becomes a column, under the name that it gave."""
    store, run_id = stored
    rows = [
        replace(row, result=replace(row.result, extra={"=cmd()": "@x"})) if row.result else row
        for row in store.measurements(run_id)
    ]
    files = sweep_files(store.run(run_id), store.trials(run_id), rows)
    (head, first, *_) = csv.reader(io.StringIO(files["summary.csv"].decode()))
    assert not any(cell.startswith(("=", "@", "+")) for cell in (*head, *first))


def test_a_directory_that_is_not_empty_is_refused(stored: tuple[Store, str]) -> None:
    exported("--format", "vllm", "-o", "sweep")
    done = export("--format", "vllm", "-o", "sweep")
    assert done.exit_code == 1
    assert "is not empty" in done.stderr


def test_several_runs_get_a_directory_each(stored: tuple[Store, str]) -> None:
    store, first = stored
    second = fill(store)
    assert exported(first, second, "--format", "vllm", "-o", "all").splitlines() == [
        f"all/{first}",
        f"all/{second}",
    ]
    assert len(summaries(Path("all"))) == 70


def test_our_own_import_reads_it_back(stored: tuple[Store, str]) -> None:
    exported("--format", "vllm", "-o", "sweep")
    done = CliRunner().invoke(main, ["import", "sweep", "--dry-run", "--format", "json"])
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 36
    assert {row["conditions"]["tp"] for row in rows} == {1, 2}


# ---------------------------------------------------------------- Prometheus


def families(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Read the text as Prometheus itself would."""
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_the_newest_valid_result_of_each_configuration_is_a_series(stored: tuple[Store, str]) -> None:
    _, run_id = stored
    found = families(exported("--format", "prometheus"))
    assert set(found) == {
        *(f"fleetbench_{name}" for name, *_ in GAUGES),
        *("fleetbench_result_timestamp_seconds", "fleetbench_result_info", "fleetbench_newest_verdict"),
    }
    throughput = found["fleetbench_output_throughput_tokens_per_second"]
    assert len(throughput) == 12
    (one,) = [
        value
        for labels, value in throughput
        if labels["configuration"] == "tp=2 dp=1" and labels["workload"].endswith("n=80 c=8")
    ]
    assert one == pytest.approx(output_tps(CONFIGS[1], 8, 2))
    labels, p99 = found["fleetbench_ttft_p99_seconds"][0]
    assert p99 == pytest.approx(4e5 / output_tps(CONFIGS[0], 1, 2) / 1000)
    assert (labels["host"], labels["model"], labels["gpu"]) == ("lab-01", "tiny", "NVIDIA H200")
    assert {labels["run"] for labels, _ in found["fleetbench_result_info"]} == {run_id}
    verdicts = [labels["verdict"] for labels, _ in found["fleetbench_newest_verdict"]]
    assert (verdicts.count("valid"), verdicts.count("failed")) == (12, 4)
    assert all(value > 1.7e9 for _, value in found["fleetbench_result_timestamp_seconds"])


def test_a_newer_run_takes_the_place_of_an_older_one_without_new_series(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store() as store:
        monkeypatch.setattr(store, "now", lambda: "2026-01-01T00:00:00Z")
        first = fill(store)
        monkeypatch.setattr(store, "now", lambda: "2026-02-01T00:00:00Z")
        second = fill(store)
    found = families(exported("--format", "prometheus"))
    assert len(found["fleetbench_output_throughput_tokens_per_second"]) == 12
    assert {labels["run"] for labels, _ in found["fleetbench_result_info"]} == {second}
    older = families(exported(first, "--format", "prometheus"))
    assert {labels["run"] for labels, _ in older["fleetbench_result_info"]} == {first}


def test_hostile_labels_are_escaped_and_the_file_is_whole(hostile: tuple[Store, str]) -> None:
    path = Path("fleetbench.prom")
    assert exported("--format", "prometheus", "-o", str(path)).strip() == str(path)
    found = families(path.read_text())
    labels, _ = found["fleetbench_repeats"][0]
    assert labels["host"] == "=cmd|' /c calc'!A0 <b>|`x`\"q\\ [31m ../../etc"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in Path().iterdir()] == ["fleetbench.prom"]


def test_labels_that_differ_behind_what_is_shown_are_two_series() -> None:
    row = dict.fromkeys(COLUMNS) | {"verdict": "valid", "ended_at": "2026-01-01T00:00:00Z", "ready_s": 1.0}
    rows = [row | {"configuration": f"tp=1 {'x' * 300}{end}"} for end in ("a", "b", "b")]
    series = [labels["configuration"] for labels, _ in families(exposition(rows))["fleetbench_ready_seconds"]]
    assert len(series) == len(set(series)) == 2
    assert all(len(label) == 200 for label in series)
    alike = [row | {"configuration": f"tp=1{blank}x"} for blank in (" ", "\t")]
    assert len(families(exposition(alike))["fleetbench_ready_seconds"]) == 1


def test_a_time_of_another_store_moves_no_cursor(stored: tuple[Store, str]) -> None:
    store, run_id = stored
    report = read_report(store, run_id)
    text = short_markdown(replace(report, run=replace(report.run, created_at="\x1b[2J<b>x")))
    assert "\x1b" not in text
    assert "<b" not in text.replace("\\<b", "")


def test_an_empty_store_gives_no_series(runs: Path) -> None:
    open_store().close()
    assert all(not samples for samples in families(exported("--format", "prometheus")).values())


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--format", "csv", "--small"), 2, "--small is for --format archive"),
        (("--format", "vllm", "--rows", "requests"), 2, "--rows is for csv, parquet and json"),
        (("nothing", "--format", "csv"), 2, "no run 'nothing'"),
        (("--format", "csv", "-o", "/proc/nowhere.csv"), 1, "cannot write /proc/nowhere.csv"),
        (("--format", "vllm", "-o", "/proc/nowhere"), 1, "cannot write /proc/nowhere"),
        (("--format", "archive", "-o", "run.zip"), 2, "does not say how to pack"),
    ],
)
def test_wrong_use_is_said_in_three_lines(
    words: tuple[str, ...], status: int, said: str, stored: tuple[Store, str]
) -> None:
    done = export(*words)
    assert done.exit_code == status
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_a_table_of_runs_has_the_newest_and_says_how_to_get_the_others(
    stored: tuple[Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, first = stored
    second = fill(store)
    monkeypatch.setattr("fleetbench.commands.runs.MOST_LISTED", 1)
    few = CliRunner().invoke(main, ["runs"])
    assert ("--all lists all" in few.stderr, first in few.stdout, second in few.stdout).count(True) == 2
    for words in (["runs", "--all"], ["runs", "--format", "csv"], ["runs", "list", "--all"]):
        every = CliRunner().invoke(main, words)
        assert first in every.stdout
        assert second in every.stdout
        assert "--all lists all" not in every.stderr
