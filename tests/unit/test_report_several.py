"""Several runs as one report: what tells rows apart, what is kept apart, which runs are meant, the files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from compared_runs import H100, H200, Case, put_run, store_in
from report_rows import TOO_LITTLE_MEMORY

from fleetbench.cli import main
from fleetbench.errors import UsageError
from fleetbench.model import Config, TrialState, Workload
from fleetbench.report.entry import Entry, Status
from fleetbench.report.tables import tables_of
from fleetbench.report.tables.single_gpu import single_gpu_tables
from fleetbench.report.together.files import (
    MOST_RUNS,
    read_several,
    runs_named,
    runs_of_model,
    write_several,
)
from fleetbench.report.together.joined import Joined, name_of, short_gpus
from fleetbench.report.together.said import said_of_model, said_of_runs
from fleetbench.report.together.text import text_of_several
from fleetbench.results.rows import RunKind, Verdict
from fleetbench.results.store import Store

C64 = Workload(num_prompts=640, max_concurrency=64)
HOSTILE = "x|y\n# <script>alert(1)</script> `z` \x1b[31m"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with store_in(tmp_path) as made:
        yield made


def splits(gpu: str = H100, version: str = "0.11.2", scale: float = 1.0, host: str = "lab-01") -> list[Case]:
    """Four splits of a server of four GPUs; on H100 a single one has too little memory."""
    there = {"gpu": gpu, "host": host, "version": version}
    figures = ((1, 1, 90.0), (2, 1, 150.0), (4, 1, 210.0), (2, 2, 290.0))
    cases = [
        Case(config=Config(tp=tp, dp=dp), outputs=(v * scale, v * scale * 1.01, v * scale * 0.99), **there)
        for tp, dp, v in figures
    ]
    if gpu == H100:
        cases[0] = replace(cases[0], outputs=(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)
    return cases


def together(store: Store, *runs: str) -> Joined:
    return read_several(store, runs)


def names(found: Joined) -> list[str]:
    return [entry.name for entry in found.entries]


def matrices(entries: tuple[Entry, ...]) -> dict[str, str]:
    """The matrices by title, each as text."""
    return {t.title: str(t.table.rows) for t in tables_of(entries) if t.kind == "matrix"}


# ---------------------------------------------------------------- what tells rows apart


def test_models_on_kinds_of_gpu_are_one_table_with_each_repeat(store: Store) -> None:
    runs = [
        put_run(store, Case(outputs=(100.0 * f, 101.0 * f, 99.0 * f), gpu=gpu, host=host), model=model)
        for model in ("alpha", "beta")
        for gpu, host, f in ((H100, "lab-01", 1), (H200, "lab-02", 2))
    ]
    (table,) = single_gpu_tables(together(store, *runs).entries)
    rows = [dict(zip(table.table.columns, row, strict=True)) for row in table.table.rows]
    assert [(row["model"], row["GPU"], row["median out tok/s"]) for row in rows] == [
        ("org/alpha", H100, 100.0),
        ("org/alpha", H200, 200.0),
        ("org/beta", H100, 100.0),
        ("org/beta", H200, 200.0),
    ]
    assert [rows[1][f"repeat {n}"] for n in (1, 2, 3)] == [200.0, 202.0, 198.0]


def test_a_matrix_of_each_kind_of_gpu_and_names_by_gpu(store: Store) -> None:
    found = together(
        store, put_run(store, *splits()), put_run(store, *splits(H200, scale=2.0, host="lab-02"))
    )
    assert names(found)[:2] == ["H100 tp=1 dp=1", "H100 tp=2 dp=1"]
    assert names(found)[4] == "H200 tp=1 dp=1"
    by_title = matrices(found.entries)
    assert list(by_title) == [f"Every split, {H100}", f"Every split, {H200}"]
    assert "failed: CUDA out of memory" in by_title[f"Every split, {H100}"]
    assert "290" in by_title[f"Every split, {H100}"]
    assert "580" in by_title[f"Every split, {H200}"]
    said = list(said_of_model(found.entries))
    assert said[0].startswith("H200 tp=2 dp=2 has the highest output throughput: 580.0 tok/s")
    assert any(f"On {H100}: H100 tp=2 dp=2 has the highest" in each for each in said)


def test_two_versions_are_named_and_never_share_a_matrix_or_a_ladder(store: Store) -> None:
    found = together(
        store,
        put_run(store, *splits(H200, "0.10.1")),
        put_run(store, *splits(H200, "0.11.0", scale=1.5)),
    )
    assert names(found)[0] == "vLLM 0.10.1 tp=1 dp=1"
    assert len(set(names(found))) == 8
    by_title = matrices(found.entries)
    assert list(by_title) == [f"Every split, {H200}, vLLM 0.10.1", f"Every split, {H200}, vLLM 0.11.0"]
    assert "435" not in by_title[f"Every split, {H200}, vLLM 0.10.1"]
    (scaling,) = (t for t in tables_of(found.entries) if t.kind == "scaling")
    speed_ups = dict(
        zip([row[0] for row in scaling.table.rows], [row[3] for row in scaling.table.rows], strict=True)
    )
    assert speed_ups["vLLM 0.10.1 tp=1 dp=1"] == speed_ups["vLLM 0.11.0 tp=1 dp=1"] == 1.0
    assert said_first(found).startswith("vLLM 0.11.0 tp=2 dp=2 has the highest output throughput")


def said_first(found: Joined) -> str:
    return next(iter(said_of_model(found.entries)))


def test_what_did_not_start_has_the_version_of_its_run(store: Store) -> None:
    found = together(
        store, put_run(store, *splits(version="0.10.1")), put_run(store, *splits(H200, "0.11.0"))
    )
    failed = next(entry for entry in found.entries if entry.status is Status.FAILED)
    assert failed.vllm_version == "0.10.1"


def test_the_same_work_twice_is_told_apart_by_host_or_else_by_run(store: Store) -> None:
    one, two = put_run(store, *splits(H200)), put_run(store, *splits(H200, host="lab-02"))
    again = put_run(store, *splits(H200))
    assert names(together(store, one, two))[0] == "lab-01 tp=1 dp=1"
    found = together(store, one, again)
    assert names(found)[0] == f"{one} tp=1 dp=1"
    assert set(matrices(found.entries)) == {f"Every split, {H200}, {one}", f"Every split, {H200}, {again}"}


def test_nothing_is_named_where_nothing_has_to_be(store: Store) -> None:
    one = put_run(store, Case(config=Config(tp=1), outputs=(10.0, 11.0)))
    two = put_run(store, Case(config=Config(tp=2), outputs=(20.0, 21.0)))
    found = together(store, one, two)
    assert names(found) == ["tp=1 dp=1", "tp=2 dp=1"]
    assert [entry.run for entry in found.entries] == [one, two]
    assert {entry.source for entry in found.entries} == {name_of([two, one])}


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ((H100, H200), ("H100", "H200")),
        (("NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL"), ("80GB", "NVL")),
        (("NVIDIA H100", "NVIDIA H100 NVL"), ("NVIDIA H100", "NVIDIA H100 NVL")),
        ((H100,), (H100,)),
        (("", H100), ("", H100)),
    ],
)
def test_a_gpu_is_called_by_the_words_that_tell_it_from_the_others(
    given: tuple[str, ...], short: tuple[str, ...]
) -> None:
    found = short_gpus(given)
    assert tuple(found[name] for name in given) == short


# ---------------------------------------------------------------- what is kept apart


def test_requests_that_differ_are_different_loads_and_are_not_ranked_together(store: Store) -> None:
    hot = replace(C64, temperature=0.7)
    one = put_run(store, Case(outputs=(10.0, 10.1), workloads=(C64,)))
    two = put_run(store, Case(config=Config(tp=2), outputs=(20.0, 20.1), workloads=(hot,)))
    found = together(store, one, two)
    assert [entry.load for entry in found.entries] == [
        f"{C64.label} temperature=0",
        f"{C64.label} temperature=0.7",
    ]
    assert "faster" not in " ".join(said_of_model(found.entries))
    assert any("different requests" in said for said in said_of_runs(found))


def test_rows_of_different_clients_are_not_ranked_together(store: Store) -> None:
    one = put_run(store, Case(outputs=(10.0, 10.1), client="python"))
    two = put_run(store, Case(config=Config(tp=2), outputs=(20.0, 20.1), client="rust"))
    found = together(store, one, two)
    assert [entry.load.rpartition("c=64 ")[2] for entry in found.entries] == ["python client", "rust client"]
    assert "faster" not in " ".join(said_of_model(found.entries))
    assert any("different clients (python; rust)" in said for said in said_of_runs(found))


def test_suspect_rows_and_runs_that_are_not_over_are_said(store: Store) -> None:
    run = put_run(store, Case(outputs=(10.0,), verdict=Verdict.SUSPECT, reasons=("eager mode",)))
    other = store.create_run(kind=RunKind.SWEEP, model="tiny", repo="org/tiny", hosts=["lab-01"]).id
    text = text_of_several(together(store, run, other))
    assert "Nothing can be ranked: the only row is suspect (eager mode)" in text
    assert "10.0 ?" in text
    assert f"{other}: The run is not over" in text


def test_runs_without_any_row_have_a_report_all_the_same(store: Store) -> None:
    empty = [
        store.create_run(kind=RunKind.SWEEP, model="tiny", repo="org/tiny", hosts=["lab-01"]).id
        for _ in range(2)
    ]
    found = together(store, *empty)
    assert "# 2 runs: nothing was planned" in text_of_several(found)


def test_what_a_host_wrote_stays_text(store: Store) -> None:
    failure = replace(TOO_LITTLE_MEMORY, cause=HOSTILE, evidence="", advice=HOSTILE)
    run = put_run(store, Case(state=TrialState.FAILED, failure=failure, gpu=HOSTILE, version=HOSTILE))
    text = text_of_several(together(store, run, put_run(store, *splits(H200, host="lab-02"))))
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\n# <" not in text


# ---------------------------------------------------------------- which runs, and the files


def test_a_run_named_twice_and_too_many_are_refused(store: Store) -> None:
    run = put_run(store, *splits())
    with pytest.raises(UsageError, match="named twice"):
        runs_named(store, [run, "latest"])
    with pytest.raises(UsageError, match=f"more than the {MOST_RUNS}"):
        runs_named(store, [run] * (MOST_RUNS + 1))
    with pytest.raises(UsageError, match="no run 'nope'"):
        runs_named(store, [run, "nope"])


def test_the_runs_of_a_model_are_its_finished_ones_the_oldest_first(store: Store) -> None:
    one, two = put_run(store, *splits(), model="alpha"), put_run(store, *splits(), model="alpha")
    store.create_run(kind=RunKind.SWEEP, model="alpha", repo="org/alpha", hosts=["lab-01"])
    put_run(store, *splits(), model="beta")
    assert runs_of_model(store, "alpha") == runs_of_model(store, "org/alpha") == (one, two)
    with pytest.raises(UsageError) as caught:
        runs_of_model(store, "alpah")
    assert "did you mean alpha" in str(caught.value.next_step)
    store.create_run(kind=RunKind.SWEEP, model="gamma", repo="org/gamma", hosts=["lab-01"])
    with pytest.raises(UsageError, match="is finished"):
        runs_of_model(store, "gamma")


def test_the_files_hold_the_rows_of_all_runs(store: Store, tmp_path: Path) -> None:
    runs = [put_run(store, *splits()), put_run(store, *splits(H200, scale=2.0, host="lab-02"))]
    found = together(store, *runs)
    paths = write_several(store, found)
    assert paths.directory == store.runs_directory / "reports" / name_of(runs)
    rows = list(csv.DictReader(io.StringIO(paths.summary.read_text())))
    assert [row["run"] for row in rows] == [runs[0]] * 4 + [runs[1]] * 4
    measured = list(csv.DictReader(io.StringIO(paths.measurements.read_text())))
    assert len(measured) == 3 * 7
    page = paths.page.read_text()
    assert "H100 tp=2 dp=2" in page
    assert "H200 tp=2 dp=2" in page
    assert f"Run {runs[1]}, Trial 1" in page
    assert [page.count(f'id="trial-{number}"') for number in range(1, 10)] == [1] * 8 + [0]
    assert paths.charts
    assert all(f"charts/{chart.name}" in paths.markdown.read_text() for chart in paths.charts)


def test_imported_figures_stand_in_a_section_of_their_own_and_are_ranked_with_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [put_run(store, *splits()), put_run(store, *splits(H200, host="lab-02"))]
    monkeypatch.setenv("FLEETBENCH_RUNS", str(store.runs_directory))
    source = Path(__file__).parents[2] / "inventory" / "published" / "multi-gpu-report.toml"
    assert CliRunner().invoke(main, ["import", str(source)]).exit_code == 0
    alone = CliRunner().invoke(main, ["report", *runs, "--format", "markdown"])
    both = CliRunner().invoke(main, ["report", *runs, "imported/multi", "--format", "markdown"])
    assert both.exit_code == 0, both.output
    own, _, others = both.stdout.partition("\n## What others measured\n")
    assert own.strip() == alone.stdout.strip()
    assert "Llama-8B" in others
    assert "H200 tp=2 dp=2" not in others
    (place,) = (store.runs_directory / "reports").iterdir()
    assert (place / "imported.csv").is_file()
    page = (place / "report.html").read_text()
    assert "Imported, not ranked with the runs: multi-gpu-report" in page
    twice = CliRunner().invoke(main, ["report", *runs, "imported", "imported/multi"])
    assert twice.exit_code != 0
    assert "named twice" in str(twice.exception) + twice.output


def test_the_command_reports_on_several_runs(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [put_run(store, *splits(), model="alpha"), put_run(store, *splits(H200), model="alpha")]
    monkeypatch.setenv("FLEETBENCH_RUNS", str(store.runs_directory))
    whole = CliRunner().invoke(main, ["report", *runs, "--output", str(tmp_path / "out")])
    assert whole.exit_code == 0, whole.output
    assert "2 runs: org/alpha" in whole.output
    assert "H200 tp=2 dp=2" in whole.output
    assert (tmp_path / "out" / "report.html").is_file()
    for text in (whole.stdout, (tmp_path / "out" / "report.md").read_text()):
        assert sum("Recommended for org/alpha on NVIDIA H" in line for line in text.splitlines()) == 2
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count('<p class="eyebrow">Recommendation</p>') == 2
    assert "has the highest output throughput" in page
    of_model = CliRunner().invoke(main, ["report", "--model", "alpha", "--format", "csv"])
    assert len(list(csv.DictReader(io.StringIO(of_model.stdout)))) == 8
    both = CliRunner().invoke(main, ["report", "--model", "alpha", runs[0]])
    assert both.exit_code != 0
    assert "exclude each other" in str(both.exception) + both.output
