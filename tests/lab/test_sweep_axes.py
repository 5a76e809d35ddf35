"""Sweeps over serve arguments and versions of vLLM on real hosts, and what the planner keeps from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from standin_host import INSTALL, STANDIN, VERSION, Fleet

from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, RunState

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
OTHER = "0.19.1"
SNAPSHOT = "/opt/vllm/models/huggingface/hub/models--standin--good/snapshots/1"
SWEEPS = """
[sweeps.arguments]
parallel = [{ tp = 1 }, { tp = 3 }]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.arguments.serve_args]
"--max-num-seqs" = [4, 8]

[sweeps.hopeless]
parallel = [{ tp = 3 }]
repeats = 1

[sweeps.misspelt]
parallel = [{ tp = 1 }]
serve_args = { "--max-num-sequences" = 4 }

[sweeps.started-twice]
parallel = [{ tp = 1 }]
starts = 2
repeats = 2
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.versions]
parallel = [{ tp = 1 }]
builds = ["standin", "older"]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }
"""
SWEEP = ("sweep", "--model", "good", "--hosts", "lab-01", "--sweep")


@pytest.fixture(scope="module")
def axes(booted_fleet: Fleet) -> Fleet:
    """The fleet with sweeps that have axes, and a build more than its hosts have."""
    with (booted_fleet.inventory / "sweeps.toml").open("a", encoding="utf-8") as sweeps:
        sweeps.write(SWEEPS)
    hosts = booted_fleet.inventory / "lab" / "hosts.toml"
    hosts.write_text(f'[builds.older]\nversion = "{OTHER}"\n\n' + hosts.read_text("utf-8"), "utf-8")
    return booted_fleet


@pytest.fixture
def fleet(axes: Fleet) -> Iterator[Fleet]:
    """The same hosts, as they were before."""
    yield axes
    axes.clean()


@pytest.fixture
def judged(fleet: Fleet) -> Iterator[Fleet]:
    """The first host has the model's config.json: thirty-two heads, nothing that tp=3 divides."""
    config = (MODELS / "llama-3.1-8b.json").read_text("utf-8")
    fleet.enter("lab-01", f"mkdir -p {SNAPSHOT} && cat > {SNAPSHOT}/config.json", stdin=config)
    yield fleet
    fleet.on("lab-01", "rm -rf /opt/vllm/models/huggingface")


def test_each_start_of_a_configuration_is_a_server_of_its_own_and_one_row_of_noise(fleet: Fleet) -> None:
    done = fleet.invoke(*SWEEP, "started-twice")
    assert done.status == 0, done.err
    with fleet.store() as store:
        (run,) = store.runs()
        trials = store.trials(run.id)
        rows = [row for row in store.measurements(run.id) if row.kind is MeasurementKind.MEASURE]
    assert [trial.state for trial in trials] == [TrialState.MEASURED] * 2
    assert len({trial.effective["invocation"] for trial in trials}) == 2
    assert len({trial.unit_text for trial in trials}) == 1
    assert [(row.trial, row.repeat) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert rows[0].seed == rows[2].seed
    summary = list(csv.DictReader(io.StringIO(fleet.fleetbench("report", run.id, "--format", "csv"))))
    assert [row["starts"] for row in summary] == ["2", "2"]


def test_each_argument_is_measured_and_what_cannot_be_is_left_out_with_its_reason(judged: Fleet) -> None:
    done = judged.invoke(*SWEEP, "arguments")
    assert done.status == 0, done.err
    assert "trial 3 (tp=3 dp=1 len=1024 max-num-seqs=4) is not tried: impossible: heads: 32" in done.err
    with judged.store() as store:
        (run,) = store.runs()
        trials = store.trials(run.id)
        assert run.state is RunState.DONE
    assert [trial.state for trial in trials] == [TrialState.MEASURED] * 2 + [TrialState.NOT_RUN] * 2
    assert ["--max-num-seqs 4" in trial.unit_text for trial in trials[:2]] == [True, False]
    assert ["--max-num-seqs 8" in trial.unit_text for trial in trials[:2]] == [False, True]
    skipped = trials[2]
    assert skipped.failure is not None
    assert skipped.failure.kind == "planner"
    assert "32 attention heads are not divisible by tp=3" in skipped.failure.cause
    assert "--try-all" in skipped.failure.advice
    assert (skipped.unit_text, skipped.started_at) == ("", "")
    assert trials[0].predicted["verdict"] == "fits"
    assert trials[0].predicted["sequences"] == 4
    report = judged.fleetbench("report", run.id)
    assert "not run: impossible: heads: 32 attention heads are not divisible by tp=3" in report
    assert "tp=1 dp=1 len=1024 max-num-seqs=8" in report
    assert "vllm-sweep" not in judged.left("lab-01")


def test_try_all_tries_it(judged: Fleet) -> None:
    done = judged.invoke(*SWEEP, "hopeless", "--try-all", "--check", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["gpus"], row["verdict"]) == ("0,1,2", "impossible")
    done = judged.invoke(*SWEEP, "hopeless", "--try-all")
    assert done.status == 0, done.err
    with judged.store() as store:
        (trial,) = store.trials(store.run("latest").id)
    assert trial.state is TrialState.MEASURED  # the stand-in has no heads
    assert trial.predicted["verdict"] == "impossible"


def test_a_sweep_of_which_nothing_can_work_borrows_nothing(judged: Fleet) -> None:
    before = judged.listing("lab-01")
    done = judged.invoke(*SWEEP, "hopeless")
    assert done.status == 1
    (error,) = done.errors
    assert "none of the 1 configurations can work" in error
    assert "--try-all" in error
    assert not (judged.runs / "fleetbench.sqlite").exists() or not judged.shown("runs")
    assert judged.listing("lab-01") == before


def test_check_shows_gpus_port_verdict_and_what_is_skipped(judged: Fleet) -> None:
    before = judged.listing("lab-01")
    done = judged.invoke(*SWEEP, "arguments", "--check", "--format", "csv")
    assert done.status == 2, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["gpus"], row["port"], row["verdict"]) for row in rows] == [
        ("0", "8101", "fits"),
        ("0", "8101", "fits"),
        ("", "8101", "impossible, skipped"),
        ("", "8101", "impossible, skipped"),
    ]
    assert (rows[0]["config"], rows[0]["weights GiB"]) == ("tp=1 dp=1 len=1024 max-num-seqs=4", "14.96")
    assert rows[0]["time"]
    assert not rows[2]["time"]
    assert "2 of 4 trials would be tried" in done.err
    assert judged.listing("lab-01") == before


def test_a_host_without_the_models_config_is_not_judged_and_that_is_said(fleet: Fleet) -> None:
    done = fleet.invoke(*SWEEP, "hopeless", "--check", "--format", "csv")
    assert "standin/good is not on the host yet: nothing is judged, everything is tried" in done.err
    assert ",not judged," in done.out
    saved = fleet.invoke(*SWEEP, "hopeless", "--check", "--config", str(MODELS / "llama-3.1-8b.json"))
    assert "heads: 32 attention heads are not divisible by tp=3" in saved.out


def test_a_misspelt_flag_is_refused_before_a_host_is_asked(fleet: Fleet) -> None:
    done = fleet.invoke(*SWEEP, "misspelt")
    assert done.status == 1
    (error,) = done.errors
    assert "has no --max-num-sequences" in error
    assert "did you mean --max-num-seqs" in error


def test_two_builds_serve_from_their_own_venvs_and_one_client_measures_both(fleet: Fleet) -> None:
    fleet.deploy("other", gpus="0")
    refused = fleet.invoke(*SWEEP, "versions")
    assert refused.status == 1
    (error,) = refused.errors
    assert f"/opt/vllm/venvs/vllm-{OTHER} is not there" in error
    assert "invoke provision --hosts lab-01 --build older" in error
    assert fleet.on("lab-01", "systemctl is-active vllm-8001") == "active"
    older = STANDIN.read_text("utf-8").replace(f'"{VERSION}"', f'"{OTHER}"')
    assert fleet.enter("lab-01", INSTALL, OTHER, stdin=older).returncode == 0
    fleet.on("lab-01", f"ln -sfT venvs/vllm-{VERSION} /opt/vllm/venv-vllm")
    try:
        done = fleet.invoke(*SWEEP, "versions")
    finally:
        fleet.on("lab-01", f"rm -r /opt/vllm/venvs/vllm-{OTHER}")
    assert done.status == 0, done.err
    with fleet.store() as store:
        run = store.run("latest")
        trials, rows = store.trials(run.id), store.measurements(run.id)
        clients = {
            (store.directory(run.id) / row.directory / "client.json").read_text("utf-8").count(VERSION) > 0
            for row in rows
        }
    assert [trial.state for trial in trials] == [TrialState.MEASURED] * 2, done.err
    assert [(trial.config.build, trial.vllm_version) for trial in trials] == [
        ("standin", VERSION),
        ("older", OTHER),
    ]
    assert f"/opt/vllm/venvs/vllm-{OTHER}/bin/vllm serve" in trials[1].unit_text
    assert clients == {True}
    report = fleet.fleetbench("report", run.id)
    assert "build=older" in report
    assert fleet.serves("lab-01")
