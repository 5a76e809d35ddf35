"""What is empty, misspelt or of the wrong kind is refused with a way on, never taken for something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from exported_runs import fill
from imported_figures import PUBLISHED

from fleetbench.cli import main
from fleetbench.results.store import open_store


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run in a store, typed at from an empty directory without an inventory."""
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.delenv("FLEETBENCH_INVENTORY", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with open_store() as store:
        return fill(store)


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "--slo", ""), "nothing is given"),
        (("report", "--model", " "), "nothing is given"),
        (("recommend", "--slo", ""), "nothing is given"),
        (("recommend", "--tariff", ""), "nothing is given"),
        (("compare", "latest", "--by", ""), "nothing is given"),
        (("recommend", "--inventory", "/nope"), "there is no inventory at /nope"),
        (("ceiling", "Qwen3-8B", "--gpus", "H200", "--inventory", "/nope"), "there is no inventory at /nope"),
        (("ceiling", "Qwen3-8B", "--gpus", "H200", "--vllm", "99"), "the newest that is known is 0."),
        (
            ("ceiling", "Qwen3-8B", "--gpus", "H200", "--serve-args", "--quantisation fp8"),
            "did you mean --quantization?",
        ),
        (("export", "--format", "csv", "-o", "nope/x.csv"), "there is no directory nope"),
        (("export", "--format", "parquet", "-o", "x.csv"), "x.csv is called csv, and --format is parquet"),
        (("export", "imported/multi", "--format", "csv"), "imported/multi is no run"),
        (("verify", "imported"), "fleetbench report imported shows imported figures"),
        (("look", "nope.csv"), "there is no file nope.csv"),
        (("stat", "imported/multi"), "imported/multi is no run"),
        (("report", "nope"), "All are listed by `fleetbench runs`"),
        (("recommend", "--objective", "tok/s"), "tokens/s"),
        (("report", "latest", "--model", "tiny"), "exclude each other"),
        (("export", "--format", "markdown", "--rows", "requests"), "--rows is for csv, parquet and json"),
        (("compare", "latest/9"), "has no trial 9"),
    ],
)
def test_what_is_typed_wrongly_is_refused(words: tuple[str, ...], says: str, run_id: str) -> None:
    done = typed(*words)
    assert (done.exit_code, says in done.stderr) == (2, True), done.stderr
    assert f"did you mean {run_id}" not in done.stderr  # the newest run is not what a strange word means
    assert "earlier" not in done.stderr
    assert not list(Path().iterdir())  # nothing was written


def test_runs_of_two_archives_are_not_one_file(run_id: str) -> None:
    with open_store() as store:
        other = fill(store)
    done = typed("export", run_id, other, "--format", "archive", "-o", "both.tar.xz")
    assert (done.exit_code, "2 runs are 2 archives" in done.stderr) == (2, True), done.stderr
    assert not Path("both.tar.xz").exists()


def test_what_vllm_knows_and_does_not_matter_here_is_no_mistake(run_id: str) -> None:
    words = "--max-num-seqs 64 --kv-cache-metrics --no-enable-prefix-caching --kv-cache-dtype=fp8"
    done = typed("ceiling", "Qwen3-8B", "--gpus", "H200", "--serve-args", words)
    assert done.exit_code == 0, done.stderr


def test_a_model_that_has_sizes_is_found_and_the_missing_inventory_is_told(run_id: str) -> None:
    done = typed("ceiling", "qwen3-coder", "--gpus", "H200")
    assert done.exit_code == 1
    assert "did you mean Qwen3-Coder-30B-A3B-Instruct" in done.stderr
    assert "there is no inventory at" in done.stderr


def test_gpus_without_a_number_are_not_said_to_be_unknown(tmp_path: Path, run_id: str) -> None:
    directory = Path(__file__).parents[2] / "inventory"
    done = typed("plan", "qwen3-coder", "--gpus", "H100", "--inventory", str(directory))
    assert (done.exit_code, "'H100' does not say how many GPUs" in done.stderr) == (2, True), done.stderr


def test_what_is_no_csv_is_told_without_python_s_words(run_id: str, recwarn: pytest.WarningsRecorder) -> None:
    path = Path("bin.dat")
    path.write_bytes(bytes(range(256)) * 20)
    done = typed("look", str(path))
    assert "Error" not in done.stderr
    assert "Warning" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3
    assert not [str(each.message) for each in recwarn if "agate" in str(each.filename)]


def test_an_empty_store_says_how_results_come_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "none"))
    done = typed("report")
    assert "`fleetbench runs add FILE`" in done.stderr
    assert "`fleetbench import FILE`" in done.stderr


def test_loads_that_differ_are_refused_with_what_to_type(run_id: str) -> None:
    done = typed("compare", "latest:c=8", "latest:c=32")
    assert done.exit_code == 1  # documented: refused, nothing was typed wrongly
    assert "…:n=80 and …:n=320" in done.stderr
    assert "or or" not in done.stderr
    typed("import", str(PUBLISHED / "multi-gpu-report.toml"))
    foreign = typed("compare", "imported/multi/13", "imported/multi/14")
    assert "or or" not in foreign.stderr
    assert foreign.stderr.count("--anyway") == 1


def test_one_sentence_is_said_once(run_id: str) -> None:
    typed("import", str(PUBLISHED / "multi-gpu-report.toml"))
    lines = [
        line for line in typed("compare", run_id, "imported/multi", "--anyway").stdout.splitlines() if line
    ]
    alone = [line for line in lines if "choose one" in line]
    assert len(alone) == len(set(alone))


def test_an_answer_to_one_question_of_two_is_an_answer(run_id: str) -> None:
    typed("import", str(PUBLISHED / "tensor-vs-data-parallel.toml"))
    done = typed("recommend", "imported/tensor")
    assert done.exit_code == 0, done.stdout
    assert typed("recommend", "--slo", "ttft_p99_ms<0.001").exit_code == 1
