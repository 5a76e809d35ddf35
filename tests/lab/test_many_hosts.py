"""Sweeps on several hosts: the work is spread, and a host that goes away costs no trial."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import permutations

import pytest
from invoked import Done, Running, until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import Step, TrialState
from fleetbench.results.rows import MeasurementKind, RunRow, RunState, TrialRow, Verdict
from fleetbench.results.timeline import Period, read_timeline

AT_ONCE_MS = 2000
SIX = ("sweep", "--model", "paced", "--sweep", "six", "--hosts")


@pytest.fixture
def idle_fleet(booted_fleet: Fleet) -> Iterator[Fleet]:
    """Two alike hosts; what a test leaves on them is taken away."""
    yield booted_fleet
    booted_fleet.clean()


def periods_of(fleet: Fleet, run: RunRow) -> tuple[Period, ...]:
    with fleet.store() as store:
        timeline = read_timeline(store.directory(run.id))
    assert timeline is not None
    return timeline.periods


def latest(fleet: Fleet) -> tuple[RunRow, tuple[TrialRow, ...]]:
    with fleet.store() as store:
        run = store.run("latest")
        return run, store.trials(run.id)


def check_each_measured_once(fleet: Fleet) -> None:
    """Every trial of the run is measured, by one valid repeat and one warm-up, on one host."""
    with fleet.store() as store:
        run = store.run("latest")
        trials, rows = store.trials(run.id), store.measurements(run.id)
    assert {trial.state for trial in trials} == {TrialState.MEASURED}
    measured = [row for row in rows if row.kind is MeasurementKind.MEASURE]
    assert sorted(row.trial for row in measured) == [trial.number for trial in trials]
    assert {row.verdict for row in measured} == {Verdict.VALID}
    hosts = {trial.number: trial.host for trial in trials}
    assert all(row.client == hosts[row.trial] for row in rows)


def expected_s(checked: Done) -> dict[int, float]:
    """What `--check --steps` expects each trial to take."""
    found: dict[int, float] = {}
    for row in csv.DictReader(checked.out.splitlines()):
        found[int(row["trial"])] = found.get(int(row["trial"]), 0.0) + float(row["seconds"])
    return found


def cut_off(fleet: Fleet, host: str, sweep: Running) -> int:
    """Pull a host's cable in the middle of a measured repeat; return the trial that was in the middle."""
    sweep.wait_for(f"{host}: trial")

    def repeat_begun() -> bool:
        return any(
            f" {host}: trial" in line and "repeat 1: started" in line for line in sweep.err.splitlines()
        )

    until(repeat_begun, 90, lambda: sweep.err)
    labs.net(host, "down", settings=fleet.settings)
    lines = [line for line in sweep.err.splitlines() if f" {host}: trial" in line and "repeat 1" in line]
    return int(lines[-1].split(f"{host}: trial ")[1].split()[0])


def test_two_hosts_share_six_trials_longest_first_and_neither_idles_while_work_is_left(
    idle_fleet: Fleet,
) -> None:
    alone = idle_fleet.invoke(*SIX, "lab-01", timeout_s=300)  # from this the durations are learned
    assert alone.status == 0, alone.err
    checked = idle_fleet.invoke(*SIX, "@lab", "--check", "--steps", "--format", "csv")
    assert checked.status == 2, checked.err
    assert "(learned from earlier runs)" in checked.err
    assert checked.out.count("learned from run") == 6 * 7  # each step of each
    done = idle_fleet.invoke(*SIX, "@lab", timeout_s=300)
    assert done.status == 0, done.err
    check_each_measured_once(idle_fleet)
    run, trials = latest(idle_fleet)
    assert [trial.config.max_model_len for trial in trials] == [100, 200, 300, 400, 500, 600]
    assert sorted(trial.host for trial in trials) == ["lab-01"] * 3 + ["lab-02"] * 3
    periods = periods_of(idle_fleet, run)
    begun = {n: min(p.began_ms for p in periods if p.trial == n) for n in range(1, 7)}
    expected = expected_s(checked)
    # The table has tenths of a second for each of seven steps. Both hosts begin at once, the one that took
    # the longest trial perhaps a moment after the other.
    for first, then in permutations(begun, 2):
        if begun[first] + AT_ONCE_MS < begun[then]:
            assert expected[first] >= expected[then] - 0.7, (first, then, begun, expected)
    for host in idle_fleet.names:
        mine = [period for period in periods if period.host == host]
        last = max(index for index, period in enumerate(mine) if period.trial is not None)
        assert Step.IDLE not in {period.step for period in mine[: last + 1]}
        ended = mine[last].ended_ms
        assert all(time <= ended for time in begun.values()), "nothing was left when it gave production back"
    assert "6 of 6 trials done" in done.err
    assert "s left" in done.err


def test_the_trials_of_a_lost_host_move_to_its_twin_and_it_gives_back_when_it_is_there_again(
    idle_fleet: Fleet,
) -> None:
    fleet = idle_fleet
    fleet.deploy("other", gpus="0", host="lab-02")
    sweep = fleet.begin(*SIX, "@lab")
    moved = cut_off(fleet, "lab-02", sweep)
    done = sweep.done(300)
    assert done.status == 3, done.err
    assert f"lab-01: trial {moved} is begun anew here: lab-02 is lost" in done.err
    assert "NOT GIVEN BACK: vllm-8001.service" in done.err
    run, trials = latest(fleet)
    check_each_measured_once(fleet)
    assert next(trial for trial in trials if trial.number == moved).host == "lab-01"
    with fleet.store() as store:
        kept = store.directory(run.id) / f"trial-{moved:02d}-on-lab-02"
        again = {row.attempt for row in store.measurements(run.id, moved)}
        (loan,) = store.loans(run.id, only_open=True)
    assert (kept / "unit.service").is_file()
    assert 2 in again
    assert (loan.host, loan.unit) == ("lab-02", "vllm-8001.service")
    assert run.state is RunState.INTERRUPTED
    labs.net("lab-02", "up", settings=fleet.settings)
    check_resumed(fleet, fleet.invoke("sweep", "--resume", run.id))
    check_each_measured_once(fleet)
    assert fleet.serves("lab-02")


def test_without_a_twin_trials_are_not_run_until_the_host_is_back_and_the_run_is_resumed(
    idle_fleet: Fleet,
) -> None:
    fleet = idle_fleet
    fleet.deploy("other", gpus="0")
    sweep = fleet.begin(*SIX, "lab-01")
    middle = cut_off(fleet, "lab-01", sweep)
    done = sweep.done(300)
    assert done.status == 3, done.err
    run, trials = latest(fleet)
    assert run.state is RunState.INTERRUPTED
    not_run = [trial for trial in trials if trial.state is TrialState.NOT_RUN]
    assert middle in [trial.number for trial in not_run]
    assert {trial.state for trial in trials} <= {TrialState.NOT_RUN, TrialState.MEASURED}
    for trial in not_run:
        assert trial.failure is not None
        assert trial.failure.cause.startswith("lab-01 does not answer since 20")
        assert f"invoke sweep --resume {run.id}" in trial.failure.advice
    labs.net("lab-01", "up", settings=fleet.settings)
    check_resumed(fleet, fleet.invoke("sweep", "--resume", run.id, timeout_s=300))
    check_each_measured_once(fleet)
    assert fleet.serves("lab-01")


def check_resumed(fleet: Fleet, done: Done) -> None:
    """A resumed run is done, and nothing of it is left anywhere."""
    assert done.status == 0, done.err
    with fleet.store() as store:
        run = store.run("latest")
        assert run.state is RunState.DONE
        assert store.loans(run.id, only_open=True) == ()
        assert all("completion" in loan.proof for loan in store.loans(run.id))
    for name in fleet.names:
        assert fleet.left(name) == ""
        assert fleet.on(name, "ls /run/fleetbench 2>/dev/null") == ""
