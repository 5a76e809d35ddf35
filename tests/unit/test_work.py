"""The queue of a run: who takes which trial, what waits, what moves, what is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nouns import HOST

from fleetbench.errors import FleetbenchError, NotReached
from fleetbench.model import Config, Failure, GpuSet, Trial, TrialState, Workload
from fleetbench.plan.schedule import Place
from fleetbench.results.rows import MeasurementKind, RunKind, TrialRow, Verdict
from fleetbench.results.store import Store, open_store
from fleetbench.results.values import BenchResult
from fleetbench.sweep.work import AWAY, Work

KINDS = {"a": "h100", "b": "h100", "c": "h200"}
AWAY_ERROR = NotReached("no answer", host="a", cause="timed out")


class Lengths:
    """Trials take as long as their context."""

    def seconds(self, row: TrialRow) -> float:
        return float(row.config.max_model_len or 0)

    def learn(self) -> None:
        """There is nothing to learn."""


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(database_url, tmp_path / "runs") as opened:
        yield opened


def place(name: str, port: int = 8101) -> Place:
    host = replace(HOST, name=name)
    return Place(host=host, gpus=GpuSet((0, 1, 2, 3)), kind=KINDS[name], port=port)


def run_of(store: Store, *lengths: int, hosts: tuple[str, ...] = ("a",), tp: int = 1) -> str:
    run = store.create_run(kind=RunKind.SWEEP, model="m", hosts=["a", "b", "c"])
    trials = [
        Trial(
            number=number,
            host=hosts[(number - 1) % len(hosts)],
            gpus=GpuSet(tuple(range(tp))),
            port=8101,
            config=Config(tp=tp, max_model_len=length),
            workloads=(Workload(),),
            repeats=2,
        )
        for number, length in enumerate(lengths, 1)
    ]
    store.add_trials(run.id, trials)
    return run.id


def work_on(store: Store, run: str, **further: object) -> Work:
    return Work(store, run, KINDS, times=Lengths(), **further)  # type: ignore[arg-type]


def row(store: Store, run: str, number: int) -> TrialRow:
    return next(found for found in store.trials(run) if found.number == number)


def never() -> bool:
    return False


def test_the_longest_trial_is_taken_first_and_its_host_is_written_down_before_it_begins(store: Store) -> None:
    run = run_of(store, 10, 30, 20, tp=2)
    work = work_on(store, run)
    taken = work.take(place("b", 8105))
    assert taken is not None
    assert taken.row.number == 2
    there = row(store, run, 2)
    assert (there.host, there.gpus, there.port, there.state) == (
        "b",
        GpuSet((0, 1)),
        8105,
        TrialState.PENDING,
    )
    numbers = [found.row.number for name in "ab" if (found := work.take(place(name)))]
    assert numbers == [3, 1]
    assert work.take(place("a")) is None


def test_a_host_of_another_kind_gets_none_of_it(store: Store) -> None:
    work = work_on(store, run_of(store, 10, 20))
    assert not work.has("c")
    assert work.take(place("c")) is None
    assert not work.wait("c", never)


def test_equally_long_trials_are_taken_in_their_order(store: Store) -> None:
    work = work_on(store, run_of(store, 10, 10, 10))
    assert [taken.row.number for _ in range(3) if (taken := work.take(place("a")))] == [1, 2, 3]


def test_a_trial_that_was_running_stays_with_its_host_and_comes_first(store: Store) -> None:
    run = run_of(store, 10, 99, hosts=("b", "a"))
    store.set_trial(run, 1, state=TrialState.RUNNING)
    work = work_on(store, run)
    first = work.take(place("a"))
    assert first is not None
    assert first.row.number == 2
    assert work.take(place("a")) is None
    again = work.take(place("b", 8107))
    assert again is not None
    assert (again.row.number, again.row.port, again.lost_on) == (1, 8101, "")


def test_a_host_waits_while_its_twin_is_in_the_middle_and_takes_over_when_that_is_lost(store: Store) -> None:
    run = run_of(store, 10)
    work = work_on(store, run)
    taken = work.take(place("a"))
    assert taken is not None
    store.set_trial(run, 1, state=TrialState.RUNNING)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(work.wait("b", never)))
    waiting.start()
    work.lose("a", AWAY_ERROR)
    waiting.join(10)
    assert answers == [True]
    moved = work.take(place("b", 8103))
    assert moved is not None
    assert (moved.lost_on, moved.row.host, moved.row.port) == ("a", "b", 8103)
    assert moved.row.state is TrialState.PENDING
    store.set_trial(run, 1, state=TrialState.MEASURED)
    work.ended(1)
    assert not work.wait("b", never)
    assert work.close() == ()


def test_a_host_without_work_ends_when_its_twin_ends_well(store: Store) -> None:
    run = run_of(store, 10)
    work = work_on(store, run)
    work.take(place("a"))
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(work.wait("b", never)))
    waiting.start()
    store.set_trial(run, 1, state=TrialState.MEASURED)
    work.ended(1)
    waiting.join(10)
    assert answers == [False]


def test_nobody_waits_for_a_trial_whose_host_failed_without_being_lost(store: Store) -> None:
    run = run_of(store, 10)
    work = work_on(store, run)
    work.take(place("a"))
    store.set_trial(run, 1, state=TrialState.RUNNING)
    work.leave("a")
    assert not work.wait("b", never)
    assert work.close() == ()
    assert row(store, run, 1).state is TrialState.RUNNING


def test_what_a_lost_host_measured_counts_no_more_and_is_measured_under_new_names(store: Store) -> None:
    run = run_of(store, 10)
    store.set_trial(run, 1, state=TrialState.RUNNING, ready_s=9, effective={"invocation": "x"}, unit_text="u")
    kind = MeasurementKind.MEASURE
    for repeat, name in ((1, "fleetbench-bench-r-t1-r1"), (2, "fleetbench-bench-r-t1-r2-again-0a1b")):
        store.start_measurement(run, 1, 0, repeat, kind, seed=5, unit_name=name, client="a")
    store.finish_measurement(
        run, 1, 0, 1, kind, result=BenchResult(output_throughput=7.0), verdict=Verdict.VALID
    )
    work = work_on(store, run)
    work.lose("a", AWAY_ERROR)
    moved = work.take(place("b"))
    assert moved is not None
    assert [found.unit_name for found in moved.before] == [
        "fleetbench-bench-r-t1-r1",
        "fleetbench-bench-r-t1-r2-again-0a1b",
    ]
    trial = row(store, run, 1)
    assert (trial.host, trial.state, trial.ready_s, trial.effective) == ("b", TrialState.PENDING, None, {})
    assert (trial.unit_text, trial.started_at) == ("", "")
    rows = store.measurements(run)
    assert [found.finished for found in rows] == [False, False]
    assert [found.attempt for found in rows] == [2, 2]
    assert {found.client for found in rows} == {"b"}
    assert {found.verdict for found in rows} == {None}
    for found, before in zip(rows, moved.before, strict=True):
        assert found.unit_name != before.unit_name
        assert found.unit_name.count("-again-") == 1


def test_with_a_bench_client_apart_a_moved_trial_is_measured_from_there_again(store: Store) -> None:
    run = run_of(store, 10)
    store.set_trial(run, 1, state=TrialState.RUNNING)
    store.start_measurement(run, 1, 0, 1, MeasurementKind.MEASURE, seed=5, unit_name="u", client="z")
    work = work_on(store, run, client="z")
    work.lose("a", AWAY_ERROR)
    work.take(place("b"))
    assert {found.client for found in store.measurements(run)} == {"z"}


def test_without_a_twin_the_rest_is_not_run_with_host_time_and_the_way_to_resume(store: Store) -> None:
    run = run_of(store, 10, 20, 30, hosts=("c",))
    work = work_on(store, run)
    exc = NotReached("no answer", host="c", cause="timed out")
    exc.since = "2026-11-30T10:00:00Z"
    assert work.take(place("c")) is not None
    store.set_trial(run, 3, state=TrialState.RUNNING)
    work.lose("c", exc)
    assert [found.number for found in work.close()] == [1, 2, 3]
    for found in store.trials(run):
        assert found.state is TrialState.NOT_RUN
        assert found.failure == Failure(
            kind=AWAY,
            cause="c does not answer since 2026-11-30T10:00:00Z",
            evidence="timed out",
            advice=f"when it is back: invoke sweep --resume {run}",
        )
    again = work_on(store, run)
    assert [found.state for found in store.trials(run)] == [
        TrialState.PENDING,
        TrialState.PENDING,
        TrialState.RUNNING,
    ]
    assert {found.failure for found in store.trials(run)} == {None}
    first = again.take(place("c"))
    assert first is not None
    assert first.row.number == 3


def test_a_trial_that_was_not_run_for_another_reason_stays_so(store: Store) -> None:
    run = run_of(store, 10)
    why = Failure(kind="cannot", cause="it does not fit")
    store.set_trial(run, 1, state=TrialState.NOT_RUN, failure=why)
    work = work_on(store, run)
    assert not work.has("a")
    assert row(store, run, 1).failure == why


def test_while_one_host_of_a_kind_is_left_nothing_is_given_up(store: Store) -> None:
    run = run_of(store, 10, 20)
    work = work_on(store, run)
    work.lose("a", AWAY_ERROR)
    assert work.close() == ()
    assert work.has("b")


def test_a_failure_skips_what_it_implies_on_all_hosts_of_the_kind_and_on_no_other(store: Store) -> None:
    run = run_of(store, 100, 200, 300, 300, hosts=("a", "b", "b", "c"))
    work = work_on(store, run)
    first = work.take(place("a"))
    assert first is not None
    assert first.row.number == 3
    memory = Failure(kind="gpu-out-of-memory", cause="does not fit")
    second = work.take(place("a"))
    assert second is not None
    assert second.row.number == 2
    store.set_trial(run, 1, state=TrialState.FAILED, failure=memory)
    store.set_trial(run, 3, state=TrialState.MEASURED)
    work.ended(3)
    work.ended(1)
    states = [found.state for found in store.trials(run)]
    assert states == [TrialState.FAILED, TrialState.PENDING, TrialState.MEASURED, TrialState.PENDING]
    store.set_trial(run, 3, state=TrialState.PENDING)
    work.ended(1)
    skipped = row(store, run, 3)
    assert skipped.state is TrialState.IMPLIED
    assert skipped.failure is not None
    assert skipped.failure.cause == "implied by trial 1: does not fit"
    assert row(store, run, 4).state is TrialState.PENDING


def test_what_a_failure_implies_is_made_up_for_when_a_controller_died_before_it_said_so(store: Store) -> None:
    run = run_of(store, 100, 200)
    store.set_trial(
        run, 1, state=TrialState.FAILED, failure=Failure(kind="gpu-out-of-memory", cause="no room")
    )
    work_on(store, run, prune=False)
    assert row(store, run, 2).state is TrialState.PENDING
    work_on(store, run)
    assert row(store, run, 2).state is TrialState.IMPLIED


def test_what_is_left_is_told_over_all_hosts(store: Store) -> None:
    run = run_of(store, 600, 500, 400, 300)
    said: list[str] = []
    work = work_on(store, run, said=lambda text, host: said.append(text))
    assert round(work.remaining_s()) == 900  # 600 + 300 beside 500 + 400
    taken = work.take(place("a"))
    assert taken is not None
    assert round(work.remaining_s()) == 900
    work.lose("b", NotReached("gone", host="b"))
    assert round(work.remaining_s()) == 1800
    store.set_trial(run, 1, state=TrialState.MEASURED)
    work.ended(1)
    assert said == ["1 of 4 trials done, about 20 min left"]


def test_a_trial_that_has_begun_is_not_placed_a_second_time(store: Store) -> None:
    run = run_of(store, 10)
    store.set_trial(run, 1, state=TrialState.RUNNING)
    with pytest.raises(FleetbenchError, match="has not begun"):
        store.place_trial(run, 1, host="b", gpus=GpuSet((0,)), port=8101)
    assert row(store, run, 1).host == "a"


def test_two_hosts_never_take_the_same_trial(store: Store) -> None:
    run = run_of(store, *range(1, 21))
    work = work_on(store, run)
    taken: list[int] = []

    def take_all(name: str) -> None:
        while (found := work.take(place(name))) is not None:
            taken.append(found.row.number)

    threads = [threading.Thread(target=take_all, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(taken) == list(range(1, 21))


def test_ctrl_c_ends_the_waiting(store: Store) -> None:
    run = run_of(store, 10)
    work = work_on(store, run)
    work.take(place("a"))
    assert not work.wait("b", lambda: True)
