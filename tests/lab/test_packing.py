"""--pack: trials side by side on one host, where a control shows that it does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from invoked import Done
from standin_host import Fleet

from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunState, TrialRow, Verdict


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """Production on two of the first host's four GPUs."""
    booted_fleet.deploy("other", gpus="2,3")
    yield booted_fleet
    booted_fleet.clean()


def packed(fleet: Fleet, model: str) -> Done:
    return fleet.invoke(
        *("sweep", "--model", model, "--hosts", "lab-01", "--sweep", "packed", "--pack"), timeout_s=300
    )


def check_run(fleet: Fleet, done: Done) -> tuple[tuple[TrialRow, ...], tuple[MeasurementRow, ...]]:
    """Each trial is measured, three valid repeats each; production serves, nothing is left."""
    assert done.status == 0, done.err
    with fleet.store() as store:
        run = store.run("latest")
        assert run.state is RunState.DONE
        trials, rows = store.trials(run.id), store.measurements(run.id)
        assert all("completion" in loan.proof for loan in store.loans(run.id))
    assert {trial.state for trial in trials} == {TrialState.MEASURED}
    measured = [row for row in rows if row.kind is MeasurementKind.MEASURE]
    assert [row.trial for row in measured] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert {row.verdict for row in measured} == {Verdict.VALID}
    assert fleet.serves("lab-01")
    assert fleet.left("lab-01") == ""
    return trials, rows


def test_trials_that_do_not_disturb_each_other_run_side_by_side_and_their_rows_say_so(served: Fleet) -> None:
    done = packed(served, "calm")
    trials, rows = check_run(served, done)
    assert "the control is within the noise, trials on 2 GPUs go on side by side" in done.err
    control = {row.trial for row in rows if row.kind is MeasurementKind.CONTROL}
    assert control == {1}
    beside = {trial.number: trial.packed_with for trial in trials}
    assert beside[1] == ()
    assert beside[2] == (1,)
    assert 4 in beside[3]
    assert 3 in beside[4]
    by_number = {trial.number: trial for trial in trials}
    assert not set(by_number[3].gpus.indices) & set(by_number[4].gpus.indices)
    assert by_number[3].port != by_number[4].port
    assert {row.attempt for row in rows} == {1}
    assert len(served.bench_starts("lab-01")) == len(rows), "nothing ran twice"
    assert "ran on other GPUs of lab-01 (--pack)" in served.fleetbench("report", "latest")


def test_trials_that_disturb_each_other_are_measured_one_after_the_other(served: Fleet) -> None:
    done = packed(served, "loud")
    trials, rows = check_run(served, done)
    assert "BEYOND THE NOISE" in done.err
    assert "(-20.0 %" in done.err
    assert "--pack is refused for trials on 2 GPUs" in done.err
    assert "trial 2 ran beside others; it is begun again alone" in done.err
    assert {trial.packed_with for trial in trials} == {()}
    with served.store() as store:
        assert (store.directory(trials[0].run_id) / "trial-02-packed" / "unit.service").is_file()
    speeds = [
        row.result.output_throughput
        for row in rows
        if row.kind is MeasurementKind.MEASURE and row.result is not None
    ]
    assert all(speed is not None and speed > 950 for speed in speeds), "none was measured beside another"
    assert {row.attempt for row in rows if row.trial == 2} == {2}


def test_without_repeats_there_is_no_noise_to_compare_with(fleet: Fleet) -> None:
    done = fleet.invoke(
        *("sweep", "--model", "calm", "--hosts", "lab-01", "--sweep", "packed", "--pack", "--repeats", "1")
    )
    assert done.status == 1
    assert "--pack cannot tell noise from harm by 1 repeat" in done.err
