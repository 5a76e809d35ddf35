"""Sweeps on real hosts: production is borrowed and given back, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from invoked import Running, until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, RunState, Verdict

SWEEP = ("sweep", "--model", "good", "--hosts", "lab-01", "--sweep")


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """Production on two of the first host's four GPUs: each test has to leave it serving."""
    if booted_fleet.model_on("lab-01") != "standin/other":
        booted_fleet.deploy("other", gpus="0,1")
    yield booted_fleet
    booted_fleet.clean(keep_services=True)


def check_given_back(fleet: Fleet) -> None:
    """Production serves as before, and nothing of the sweep is left."""
    until(lambda: fleet.serves("lab-01"))
    assert fleet.model_on("lab-01") == "standin/other"
    assert fleet.on("lab-01", "systemctl is-enabled vllm-8001") == "enabled"
    with fleet.store() as store:
        (run,) = store.runs()
        (loan,) = store.loans(run.id)
        assert loan.unit == "vllm-8001.service"
        assert loan.returned_at
        assert "completion" in loan.proof
    for name in fleet.names:
        assert fleet.left(name) == ""


def check_measured(fleet: Fleet, repeats: int = 1) -> None:
    """Each trial of the run is measured, each repeat once and valid."""
    with fleet.store() as store:
        (run,) = store.runs()
        assert run.state is RunState.DONE
        trials, rows = store.trials(run.id), store.measurements(run.id)
    assert {trial.state for trial in trials} == {TrialState.MEASURED}
    measured = [row for row in rows if row.kind is MeasurementKind.MEASURE]
    assert len(measured) == repeats * len(trials)
    assert {row.verdict for row in measured} == {Verdict.VALID}
    starts = [line for name in fleet.names for line in fleet.bench_starts(name)]
    assert len(starts) == len(rows), "nothing ran twice"


def middle_of(fleet: Fleet, hosts: str = "lab-01", sweep_name: str = "long") -> Running:
    """A sweep in the middle of a first repeat."""
    sweep = fleet.begin("sweep", "--model", "good", "--hosts", hosts, "--sweep", sweep_name)
    sweep.wait_for("borrowing the GPUs of vllm-8001.service")
    sweep.wait_for("/60 requests")
    return sweep


def test_two_configurations_are_measured_and_the_third_has_its_cause(served: Fleet) -> None:
    done = served.invoke(*SWEEP, "three")
    assert done.status == 0, done.err
    check_given_back(served)
    run = done.out.split()[-1]
    shown = served.shown("runs", "show", run)
    assert [trial["state"] for trial in shown["trials"]] == ["measured", "measured", "failed"]
    assert len(shown["measurements"]) == 4
    failure = shown["trials"][2]["failure"]
    assert "needs 8 GPUs" in failure["cause"]
    report = served.fleetbench("report", run)
    assert report.count("valid 1/1") == 2
    assert "needs 8 GPUs" in report
    with served.store() as store:
        evidence = {path.name for path in (store.directory(run) / "trial-01").iterdir()}
    assert evidence >= {"unit.service", "facts-before.json", "server.journal"}


@pytest.mark.parametrize(("model", "cause"), [("exit", "memory"), ("hang", "no answer within 1 s")])
def test_a_model_that_cannot_start_is_a_result_with_cause_and_evidence(
    served: Fleet, model: str, cause: str
) -> None:
    done = served.invoke("sweep", "--model", model, "--hosts", "lab-01", "--sweep", "impatient")
    assert done.status == 0, done.err
    check_given_back(served)
    (trial,) = served.shown("runs", "show", "latest")["trials"]
    assert trial["state"] == "failed"
    assert cause in trial["failure"]["cause"]
    assert trial["failure"]["evidence"]
    assert trial["failure"]["evidence"] in served.fleetbench("report", "latest")


def test_after_a_kill_in_the_middle_the_same_command_finishes_and_gives_back(served: Fleet) -> None:
    middle_of(served).kill()
    assert served.on("lab-01", "systemctl is-active vllm-8001") == "inactive"
    again = served.invoke(*SWEEP, "long")
    assert again.status == 0, again.err
    assert "continuing run" in again.err
    assert "its server still runs" in again.err
    check_measured(served)
    check_given_back(served)


def test_after_a_kill_and_a_reboot_production_is_back_by_itself_and_the_sweep_can_go_on(
    served: Fleet,
) -> None:
    middle_of(served).kill()
    labs.reboot("lab-01", hard=True, settings=served.settings)
    until(lambda: served.serves("lab-01"))
    assert served.on("lab-01", "ls /run/systemd/system | grep vllm") == ""
    again = served.invoke(*SWEEP, "long")
    assert again.status == 0, again.err
    check_given_back(served)
    with served.store() as store:
        (run,) = store.runs()
        assert run.state is RunState.DONE
        attempts = [row.attempt for row in store.measurements(run.id) if row.trial == 1]
    assert 2 in attempts


def test_a_reboot_in_the_middle_is_not_held_against_the_configuration(served: Fleet) -> None:
    sweep = middle_of(served)
    labs.reboot("lab-01", hard=True, settings=served.settings)
    done = sweep.done()
    assert done.status == 0, done.err
    assert "trial 1 is begun once more" in done.err
    check_given_back(served)
    with served.store() as store:
        (run,) = store.runs()
        (trial,) = store.trials(run.id)
        rows = store.measurements(run.id)
    assert (run.state, trial.state) == (RunState.DONE, TrialState.MEASURED)
    assert [(row.kind, row.attempt) for row in rows] == [
        (MeasurementKind.WARMUP, 2),
        (MeasurementKind.MEASURE, 2),
    ]


@pytest.mark.parametrize(("hosts", "sweep_name"), [("lab-01", "long"), ("@lab", "long-pair")])
def test_ctrl_c_gives_production_back_and_the_sweep_can_be_resumed(
    served: Fleet, hosts: str, sweep_name: str
) -> None:
    sweep = middle_of(served, hosts, sweep_name)
    sweep.interrupt()
    done = sweep.done(90)
    assert done.status == 130, done.err
    (error,) = done.errors
    assert "invoke sweep --resume" in error
    check_given_back(served)
    resumed = served.invoke(*error.splitlines()[-1].partition("invoke ")[2].split())
    assert resumed.status == 0, resumed.err
    check_given_back(served)
    with served.store() as store:
        rows = store.measurements(store.run("latest").id)
    assert {row.verdict for row in rows if row.kind is MeasurementKind.MEASURE} == {Verdict.VALID}


def test_a_stopped_service_stays_stopped_and_is_no_obstacle(served: Fleet) -> None:
    served.on("lab-01", "systemctl stop vllm-8001")
    done = served.invoke(*SWEEP, "one")
    assert done.status == 0, done.err
    check_measured(served)
    assert served.on("lab-01", "systemctl is-active vllm-8001") == "inactive"
    assert served.on("lab-01", "systemctl is-enabled vllm-8001") == "enabled"
    assert served.left("lab-01") == ""


def test_two_alike_hosts_share_the_work_and_a_service_on_other_gpus_is_left_alone(fleet: Fleet) -> None:
    fleet.deploy("other", gpus="3", host="lab-02")
    pid = fleet.on("lab-02", "systemctl show vllm-8001 -P MainPID")
    done = fleet.invoke(
        "sweep", "--model", "good", "--hosts", "@lab", "--sweep", "pair", "--client", "lab-02"
    )
    assert done.status == 0, done.err
    check_measured(fleet)
    with fleet.store() as store:
        (run,) = store.runs()
        assert {trial.host for trial in store.trials(run.id)} == {"lab-01", "lab-02"}
        assert {row.client for row in store.measurements(run.id)} == {"lab-02"}
        assert store.loans(run.id) == ()
    assert fleet.on("lab-02", "systemctl show vllm-8001 -P MainPID") == pid
    assert (fleet.left("lab-01"), fleet.left("lab-02")) == ("", "")


def test_check_shows_the_plan_and_touches_nothing(fleet: Fleet) -> None:
    before = fleet.listing("lab-01")
    done = fleet.invoke(*SWEEP, "three", "--check", "--format", "csv")
    assert done.status == 2
    assert [line.split(",")[0] for line in done.out.splitlines()] == ["trial", "1", "2", "3"]
    assert fleet.listing("lab-01") == before
