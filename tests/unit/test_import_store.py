"""Imported rows in the store and on the command line: kept once, judged, shown apart from own runs."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetbench.cli import main
from fleetbench.errors import UsageError
from fleetbench.report.imported import place_of, read_imported
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import Source
from fleetbench.results.rows import RunKind, Verdict
from fleetbench.results.store import Store, open_store

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "inventory" / "published"
FIXTURES = ROOT / "tests" / "fixtures" / "imports"
RESULT = {
    "model_id": "m\u0000\ud800",
    "completed": 90,
    "failed": 10,
    "num_prompts": 100,
    "duration": 10.0,
    "request_rate": "inf",
    "total_output_tokens": 10**17,
    "output_throughput": 1e6,
    "request_throughput": 9.0,
    "mean_ttft_ms": 5.0,
}


def _published() -> Source:
    name = "multi-gpu-report.toml"
    return read_source(name, [(name, (PUBLISHED / name).read_text("utf-8"))])


def test_what_is_kept_is_found_again_on_both_databases(database_url: str, tmp_path: Path) -> None:
    source = _published()
    rows = judged(source)
    with open_store(database_url, tmp_path / "runs") as store:
        assert store.keep_import(source, rows)
        (about,) = store.imports()
        assert (about.id, about.sha256, about.provenance) == (source.id, source.sha256, source.provenance)
        assert dict(about.verdicts) == {"suspect": 70, "invalid": 18}
        assert about.rows == 88
        found = store.imported_rows(source.id)
        assert [(row.position, row.row, row.verdict) for row in found] == [
            (row.position, row.row, row.verdict) for row in rows
        ]
        assert [[f.rule for f in row.findings] for row in found] == [
            [f.rule for f in row.findings] for row in rows
        ]
        assert store.runs() == ()


def test_hostile_text_and_large_numbers_are_kept(database_url: str, tmp_path: Path) -> None:
    source = read_source("r.json", [("r.json", json.dumps(RESULT))])
    with open_store(database_url, tmp_path / "runs") as store:
        store.keep_import(source, judged(source))
        (row,) = store.imported_rows(source.id)
    assert row.row.result.total_output_tokens == 10**17
    assert row.row.result.request_rate == "inf"
    assert row.verdict is Verdict.INVALID


def test_the_same_source_is_there_once_and_judged_anew(tmp_path: Path) -> None:
    source = _published()
    rows = judged(source)
    with open_store(None, tmp_path / "runs") as store:
        assert store.keep_import(source, rows[:5])
        assert not store.keep_import(source, rows)
        assert [about.rows for about in store.imports()] == [88]
        assert store.imported("multi-gpu").id == source.id
        with pytest.raises(UsageError, match="no imported sources are called nothing"):
            store.imported("nothing")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of runs that the commands use."""
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    return tmp_path / "runs"


def _fleetbench(*arguments: str, status: int = 0) -> Result:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == status, done.output
    return done


def _store(runs: Path) -> Store:
    return open_store(None, runs, create=False)


def test_a_dry_run_shows_each_row_with_rule_severity_explanation_and_numbers(runs: Path) -> None:
    path = str(PUBLISHED / "multi-gpu-report.toml")
    rows = json.loads(_fleetbench("import", path, "--dry-run", "--format", "json").stdout)
    assert not runs.exists()
    assert len(rows) == 88
    row = next(row for row in rows if row["table"].startswith("4.1.2") and row["label"] == "H100X1")
    assert row["verdict"] == "invalid"
    assert row["provenance"]["title"] == "Multi-GPU Benchmarks Report"
    stalled = next(finding for finding in row["findings"] if finding["rule"] == "stalled")
    assert stalled["severity"] == "suspect"
    assert stalled["explanation"]
    assert stalled["action"]
    assert stalled["numbers"]
    failed = next(finding for finding in row["findings"] if finding["rule"] == "failed-requests")
    assert failed["severity"] == "invalid"
    assert failed["numbers"] == {"completed": 90, "failed": 10, "asked": 100}


def test_imported_rows_are_listed_and_reported_apart_from_own_runs(runs: Path) -> None:
    _fleetbench("import", *(str(path) for path in sorted(PUBLISHED.glob("*.toml"))))
    with open_store(None, runs) as store:
        own = store.create_run(kind=RunKind.BENCH, model="own-model", hosts=["h"])
    listed = _fleetbench("runs").stdout
    assert own.id in listed
    assert "multi-gpu" not in listed
    assert "apart from them, 93 imported rows: fleetbench runs imported" in listed
    assert [row["run"] for row in json.loads(_fleetbench("runs", "--format", "json").stdout)] == [own.id]

    sources = json.loads(_fleetbench("runs", "imported", "--format", "json").stdout)
    assert {row["source"].rpartition("-")[0]: row["rows"] for row in sources} == {
        "multi-gpu-report": 88,
        "tensor-vs-data-parallel": 5,
    }
    of_one = json.loads(_fleetbench("runs", "imported", "tensor", "--format", "json").stdout)
    assert [row["verdict"] for row in of_one] == ["valid", "invalid", "suspect", "suspect", "suspect"]

    _fleetbench("report", "imported")
    shown = _fleetbench("report", "imported/tensor", "--format", "markdown").stdout
    assert "Pavlo Khmel" in shown
    assert "own-model" not in shown
    assert "read as total tokens it is 972.9, which fits" in shown
    (one,) = (runs / "imported").glob("tensor-*/report/imported.csv")
    assert len(list(csv.DictReader(one.read_text("utf-8").splitlines()))) == 5
    table = list(csv.DictReader((runs / "imported" / "imported.csv").read_text("utf-8").splitlines()))
    assert len(table) == 93
    stalled = [row for row in table if "stalled" in row["rules"].split()]
    assert len([row for row in stalled if row["verdict"] == "invalid"]) == 5
    assert "own-model" not in (runs / "imported" / "report.md").read_text("utf-8")


def test_the_source_is_kept_as_it_was_read(runs: Path) -> None:
    path = FIXTURES / "bench-table.csv"
    mapping = str(FIXTURES / "bench-table.toml")
    _fleetbench("import", str(path), "--mapping", mapping, "--url", "https://example.org/sheet")
    with _store(runs) as store:
        (about,) = store.imports()
    assert (about.provenance.title, about.provenance.url) == (
        "A colleague's sheet",
        "https://example.org/sheet",
    )
    copies = sorted((runs / "imported" / about.id).iterdir())
    assert gzip.decompress(copies[0].read_bytes()) == path.read_bytes()
    assert [copy.name for copy in copies] == ["0001-bench-table.csv.gz", "mapping-bench-table.toml.gz"]


def test_a_directory_of_a_sweep_is_one_source(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exp" / "SERVE--tensor_parallel_size=2-BENCH--max_concurrency=4"
    folder.mkdir(parents=True)
    result = json.dumps(RESULT | {"model_id": "m"})
    for name in ("run=0.json", "run=1.json", "summary.json"):
        (folder / name).write_text(result if name.startswith("run") else f"[{result}]")
    (folder / "run=2.json").symlink_to("/etc/hostname")
    _fleetbench("import", str(tmp_path / "exp"))
    with _store(runs) as store:
        (about,) = store.imports()
        rows = store.imported_rows(about.id)
    assert about.name == "exp"
    assert [row.row.conditions.tp for row in rows] == [2, 2]


def test_what_cannot_be_read_is_said_and_the_rest_is_imported(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("nothing")
    (tmp_path / "good.json").write_text(json.dumps(RESULT))
    done = _fleetbench(
        "import", str(tmp_path / "bad.txt"), str(tmp_path / "good.json"), str(tmp_path / "none"), status=1
    )
    assert "bad.txt: no benchmark result in this text" in done.stderr
    assert "none: cannot be read" in done.stderr
    with _store(runs) as store:
        assert [about.name for about in store.imports()] == ["good.json"]


def test_a_report_on_nothing_says_how_to_import(runs: Path) -> None:
    with open_store(None, runs):
        pass
    done = _fleetbench("report", "imported", status=1)
    assert "nothing was imported" in done.stderr
    assert "inventory/published" in done.stderr


def test_reports_on_chosen_sources_have_places_of_their_own(runs: Path) -> None:
    _fleetbench("import", *(str(path) for path in sorted(PUBLISHED.glob("*.toml"))))
    with _store(runs) as store:
        found = read_imported(store)
    both = place_of(found, chosen=True)
    assert place_of(found, chosen=False) == Path("imported")
    assert place_of(found[:1], chosen=True) == Path("imported", found[0][0].id, "report")
    assert both == place_of(found[::-1], chosen=True)
    assert both.parent == Path("imported/reports")
    assert both.name.startswith("2-sources-")
