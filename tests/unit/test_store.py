"""The store on SQLite and on a real PostgreSQL: what is written is found again, once, whatever is killed."""

from __future__ import annotations

import itertools
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetbench.errors import FleetbenchError, NotPossible, UsageError
from fleetbench.model import Config, Failure, GpuSet, Trial, TrialState, Workload
from fleetbench.results.controllers import this_controller
from fleetbench.results.rows import (
    LoanRow,
    MeasurementKind,
    MeasurementState,
    RunKind,
    RunRow,
    RunState,
    Verdict,
)
from fleetbench.results.schema import LATENCY_COLUMNS
from fleetbench.results.store import Store, open_store
from fleetbench.results.store_runs import slug
from fleetbench.results.values import BenchResult

REPOSITORY = Path(__file__).resolve().parents[2]
WORKLOAD = Workload(num_prompts=640, max_concurrency=64, extra_args=("--foo", "b'ar"))
TRIAL = Trial(
    number=1,
    host="h100-01",
    gpus=GpuSet((0, 1)),
    port=8101,
    config=Config(tp=2, serve_args=("--enable-x", '{"a": 1}')),
    workloads=(WORKLOAD, Workload(request_rate=2.5, temperature=0.7)),
    repeats=3,
)
RESULT = BenchResult(
    completed=640,
    failed=0,
    num_prompts=640,
    max_concurrency=64,
    request_rate="inf",
    duration=12.5,
    total_input_tokens=81_920,
    total_output_tokens=5_000_000_000,
    request_throughput=51.2,
    output_throughput=6553.6,
    total_token_throughput=13107.2,
    model_id="a/b",
    backend="vllm",
    date="20261130-141233",
    latencies={name: 1.5 + place for place, name in enumerate(LATENCY_COLUMNS)}
    | {"std_ttft_ms": 0.25, "p99.9_itl_ms": 9.75},
    extra={"spec_decode_acceptance_rate": 0.5, "rtfx": 0.0},
)


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(database_url, tmp_path / "runs") as opened:
        yield opened


def new_run(store: Store, **changes: object) -> RunRow:
    given = {
        "kind": RunKind.SWEEP,
        "model": "qwen3-coder",
        "repo": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "sweep": "tp-dp",
        "hosts": ["h100-02", "h100-01"],
        "arguments": {"hosts": ["h100-02", "h100-01"], "repeats": 3, "yes": True, "limit": None},
        "fingerprint": "f00d",
    }
    return store.create_run(**(given | changes))  # type: ignore[arg-type]


def started(store: Store, run: RunRow, repeat: int = 1, **changes: object):  # type: ignore[no-untyped-def]
    given = {"seed": 17, "unit_name": "fleetbench-bench-1.service", "client": "h100-02"}
    return store.start_measurement(
        run.id,
        1,
        0,
        repeat,
        MeasurementKind.MEASURE,
        **(given | changes),  # type: ignore[arg-type]
    )


def test_a_run_is_found_again_as_it_was_written(store: Store) -> None:
    run = new_run(store)
    assert store.runs() == (run,)
    assert store.run(run.id) == run
    assert run.hosts == ("h100-02", "h100-01")
    assert run.arguments == {"hosts": ["h100-02", "h100-01"], "repeats": 3, "yes": True, "limit": None}
    assert run.state is RunState.RUNNING
    assert run.controller == this_controller()
    assert store.directory(run.id).is_dir()


def test_a_run_id_says_when_and_what(database_url: str, tmp_path: Path) -> None:
    def clock() -> datetime:
        return datetime(2026, 11, 30, 14, 12, 33, tzinfo=UTC)

    with open_store(database_url, tmp_path / "runs", clock=clock) as store:
        ids = {new_run(store).id for _ in range(40)}
    assert len(ids) == 40
    assert all(run_id.startswith("20261130-141233-qwen3-coder-") for run_id in ids)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-coder-30b-a3b-instruct"),
        ('"; touch /tmp/x', "x"),
        ("../../etc/", "etc"),
        ("%n $HOME\n", "n-home"),
        ("模型", "model"),
        ("", "model"),
        ("-" * 9, "model"),
        ("a" * 300, "a" * 32),
    ],
)
def test_a_hostile_model_name_makes_a_harmless_id(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_a_run_is_named_by_the_beginning_of_its_id_or_as_latest(store: Store) -> None:
    first, second = new_run(store), new_run(store, model="llama")
    assert store.run(first.id[:-2]) == first
    assert store.run("latest") in (first, second)
    with pytest.raises(UsageError, match="more than one run begins with '20'") as caught:
        store.run("20")
    assert first.id in caught.value.cause


@pytest.mark.parametrize("name", ["nope", "", "%", "_", "' OR 1=1 --", "a\x00b", "\udcff", "x" * 5000])
def test_an_unknown_run_is_refused_and_a_near_one_suggested(store: Store, name: str) -> None:
    with pytest.raises(NotPossible, match="there is no run yet"):
        store.run(name)
    run = new_run(store)
    with pytest.raises(UsageError, match="no run") as caught:
        store.run(name)
    assert run.id not in caught.value.next_step  # nothing like it: the newest run would be no guess
    assert "`fleetbench runs`" in caught.value.next_step
    with pytest.raises(UsageError, match="no run") as near:
        store.run(f"{run.id[:-1]}x")
    assert f"did you mean {run.id}?" in near.value.next_step
    assert len(str(caught.value)) < 500
    with pytest.raises(UsageError):
        store.set_run_state(name, RunState.DONE)
    with pytest.raises(FleetbenchError):
        store.directory(name)


def test_part_of_an_id_suggests_the_run_that_has_it(store: Store) -> None:
    run = new_run(store)
    new_run(store, model="llama")
    with pytest.raises(UsageError) as caught:
        store.run("Qwen3")
    assert f"did you mean {run.id}?" in caught.value.next_step


def test_a_final_state_ends_a_run_and_a_claim_opens_it_again(store: Store) -> None:
    run = new_run(store)
    store.set_run_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
    assert (store.run(run.id).note, store.run(run.id).ended_at) == ("Ctrl-C", "")
    store.set_run_state(run.id, RunState.DONE)
    assert store.run(run.id).ended_at
    claimed = store.claim_run(run.id)
    assert claimed.state is RunState.RUNNING
    assert claimed.ended_at == ""


def test_a_run_that_a_living_process_works_on_is_not_taken_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = f"{socket.gethostname()}:{os.getppid()}:"
    monkeypatch.setattr("fleetbench.results.store_runs.this_controller", lambda: parent)
    run = new_run(store)
    monkeypatch.undo()
    with pytest.raises(NotPossible, match="is being worked on"):
        store.claim_run(run.id)
    store.set_run_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
    assert store.claim_run(run.id).controller == this_controller()


@pytest.mark.parametrize("started", ["", "1"], ids=["no such process", "its number was given away again"])
def test_a_run_of_a_dead_process_is_taken_over(
    store: Store, monkeypatch: pytest.MonkeyPatch, started: str
) -> None:
    pid = os.getppid() if started else 2**22 + 1
    dead = f"{socket.gethostname()}:{pid}:{started}"
    monkeypatch.setattr("fleetbench.results.store_runs.this_controller", lambda: dead)
    run = new_run(store)
    monkeypatch.undo()
    assert store.claim_run(run.id).controller == this_controller()


def test_a_run_is_made_with_all_its_trials_or_not_at_all(store: Store) -> None:
    with pytest.raises(FleetbenchError):
        new_run(store, trials=[TRIAL, TRIAL])
    assert store.runs() == ()
    assert not any(path.is_dir() for path in store.runs_directory.iterdir())
    run = new_run(store, trials=[TRIAL, Trial(number=2, **_without_number(TRIAL))])
    assert [row.number for row in store.trials(run.id)] == [1, 2]


def test_unfinished_work_is_found_by_what_it_is_in_any_order_of_hosts(store: Store) -> None:
    run = new_run(store)

    def look(**changes: object) -> RunRow | None:
        given = {
            "kind": RunKind.SWEEP,
            "hosts": ["h100-01", "h100-02"],
            "model": "qwen3-coder",
            "fingerprint": "f00d",
        }
        return store.find_unfinished(**(given | changes))  # type: ignore[arg-type]

    assert look() == run
    assert look(hosts=["h100-01"]) is None
    assert look(kind=RunKind.BENCH) is None
    assert look(model="other") is None
    assert look(fingerprint="beef") is None
    store.set_run_state(run.id, RunState.INTERRUPTED)
    found = look()
    assert found is not None
    assert found.id == run.id
    for state in (RunState.DONE, RunState.FAILED):
        store.set_run_state(run.id, state)
        assert look() is None


def test_trials_come_back_as_they_were_planned_and_are_added_once(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    store.set_trial(run.id, 1, state=TrialState.RUNNING)
    store.add_trials(run.id, [TRIAL, Trial(number=2, **_without_number(TRIAL))])
    first, second = store.trials(run.id)
    assert (first.state, second.state) == (TrialState.RUNNING, TrialState.PENDING)
    assert (first.host, first.gpus, first.port, first.repeats) == ("h100-01", GpuSet((0, 1)), 8101, 3)
    assert first.config == TRIAL.config
    assert first.workloads == TRIAL.workloads


def test_adding_trials_to_no_run_is_refused(store: Store) -> None:
    new_run(store)
    with pytest.raises(UsageError, match="no run"):
        store.add_trials("20261130-141233-nothing-0000", [TRIAL])


def test_a_trial_that_is_skipped_has_its_end_and_its_reason_at_once(store: Store) -> None:
    run = new_run(store)
    why = Failure(kind="planner", cause="impossible: heads", evidence="40 heads", advice="--try-all")
    skipped = replace(TRIAL, number=2, skipped=why, predicted={"verdict": "impossible", "reasons": ["x\x00"]})
    store.add_trials(run.id, [replace(TRIAL, predicted={"weights_gib": 8.5, "kv_tokens": 4096}), skipped])
    tried, left_out = store.trials(run.id)
    assert (tried.state, tried.failure, tried.ended_at) == (TrialState.PENDING, None, "")
    assert tried.predicted == {"weights_gib": 8.5, "kv_tokens": 4096}
    assert (left_out.state, left_out.failure) == (TrialState.NOT_RUN, why)
    assert left_out.predicted == {"verdict": "impossible", "reasons": ["x\ufffd"]}
    assert left_out.ended_at


def test_a_trial_keeps_what_is_not_changed(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    store.set_trial(run.id, 1, state=TrialState.RUNNING, unit_text="[Unit]\n", spec_hash="abc", unit_name="u")
    store.set_trial(run.id, 1, vllm_version="0.10.1.1", ready_s=74.25, effective={"max_model_len": 65536})
    store.set_trial(run.id, 1, state=TrialState.MEASURED)
    (trial,) = store.trials(run.id)
    assert trial.state is TrialState.MEASURED
    assert (trial.unit_text, trial.spec_hash, trial.unit_name) == ("[Unit]\n", "abc", "u")
    assert (trial.vllm_version, trial.ready_s, trial.effective) == (
        "0.10.1.1",
        74.25,
        {"max_model_len": 65536},
    )
    assert trial.started_at
    assert trial.ended_at


def test_a_trial_that_goes_on_keeps_the_time_of_its_start(database_url: str, tmp_path: Path) -> None:
    seconds = itertools.count()

    def clock() -> datetime:
        return datetime(2026, 11, 30, 14, tzinfo=UTC) + timedelta(seconds=next(seconds))

    with open_store(database_url, tmp_path / "runs", clock=clock) as store:
        run = new_run(store)
        store.add_trials(run.id, [TRIAL])
        seen = [store.trials(run.id)[0].started_at]
        states = (TrialState.RUNNING, TrialState.RUNNING, TrialState.FAILED, TrialState.RUNNING)
        for state in states:
            store.set_trial(run.id, 1, state=state)
            seen.append(store.trials(run.id)[0].started_at)
    pending, begun, resumed, failed, tried_again = seen
    assert pending == ""
    assert begun == resumed == failed < tried_again


def test_a_failure_is_stored_whole_and_cleared_by_another_try(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    failure = Failure(
        kind="oom", cause="out of memory", evidence="torch.OutOfMemoryError: \x00\udcff", advice="tp=4"
    )
    store.set_trial(run.id, 1, state=TrialState.FAILED, failure=failure)
    (trial,) = store.trials(run.id)
    assert trial.failure == Failure(
        kind="oom", cause="out of memory", evidence="torch.OutOfMemoryError: \ufffd?", advice="tp=4"
    )
    store.set_trial(run.id, 1, state=TrialState.RUNNING)
    (trial,) = store.trials(run.id)
    assert trial.failure is None
    assert trial.ended_at == ""


def test_changing_a_trial_that_does_not_exist_is_refused(store: Store) -> None:
    run = new_run(store)
    with pytest.raises(FleetbenchError, match="no trial 7"):
        store.set_trial(run.id, 7, state=TrialState.RUNNING)


def test_a_result_comes_back_digit_by_digit(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    row = started(store, run)
    assert (row.state, row.result, row.verdict) == (MeasurementState.RUNNING, None, None)
    assert row.directory == "trial-01/workload-0/measure-1"
    finished = store.finish_measurement(
        run.id,
        1,
        0,
        1,
        MeasurementKind.MEASURE,
        result=RESULT,
        verdict=Verdict.SUSPECT,
        reasons=("few waves",),
        exit_status=0,
    )
    assert finished.result == RESULT
    assert finished.finished
    assert finished.exit_status == 0
    assert finished.reasons == ("few waves",)
    assert store.measurements(run.id) == (finished,)


def test_what_is_unknown_stays_unknown(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    started(store, run)
    finished = store.finish_measurement(
        run.id, 1, 0, 1, MeasurementKind.MEASURE, result=None, verdict=Verdict.INVALID
    )
    assert finished.result == BenchResult()
    assert finished.exit_status is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**63, -(10**30)])
def test_a_number_that_no_database_takes_is_left_out_and_said(store: Store, value: float) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    started(store, run)
    result = BenchResult(
        completed=value,  # type: ignore[arg-type]
        duration=value,
        latencies={"p99_ttft_ms": value, "std_ttft_ms": value},
        extra={"odd": value, "fine": 1.0},
    )
    finished = store.finish_measurement(
        run.id, 1, 0, 1, MeasurementKind.MEASURE, result=result, verdict=Verdict.INVALID
    )
    assert finished.result == BenchResult(extra={"fine": 1.0})
    assert len(finished.reasons) == 5
    assert all("cannot be stored" in reason or "can be stored" in reason for reason in finished.reasons)


def test_starting_the_same_measurement_twice_gives_the_first_one_back(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    first = started(store, run)
    assert started(store, run, seed=99, unit_name="other") == first
    store.finish_measurement(
        run.id, 1, 0, 1, MeasurementKind.MEASURE, result=RESULT, verdict=Verdict.VALID, exit_status=0
    )
    resumed = started(store, run, seed=99, unit_name="other")
    assert resumed.finished
    assert resumed.seed == 17
    assert len(store.measurements(run.id)) == 1


def test_a_measurement_that_left_nothing_can_be_started_again_and_is_counted(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    started(store, run)
    row = started(store, run, seed=18, unit_name="second", again=True)
    assert (row.attempt, row.seed, row.unit_name) == (2, 18, "second")
    assert store.measurements(run.id) == (row,)


def test_warm_ups_come_first_and_do_not_collide_with_measures(store: Store) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    started(store, run, repeat=2)
    started(store, run, repeat=1)
    store.start_measurement(run.id, 1, 0, 1, MeasurementKind.WARMUP, seed=5, unit_name="w", client="h100-02")
    kinds = [(row.kind.value, row.repeat) for row in store.measurements(run.id, 1)]
    assert kinds == [("warmup", 1), ("measure", 1), ("measure", 2)]
    assert store.measurements(run.id, 2) == ()


def test_a_measurement_of_a_trial_that_does_not_exist_is_refused(store: Store) -> None:
    run = new_run(store)
    with pytest.raises(FleetbenchError, match="cannot record the measurement"):
        started(store, run)
    with pytest.raises(FleetbenchError, match="has no measure 1 of trial 1"):
        store.finish_measurement(
            run.id, 1, 0, 1, MeasurementKind.MEASURE, result=None, verdict=Verdict.INVALID
        )


def test_a_loan_keeps_the_state_in_which_the_unit_was_first_found(store: Store) -> None:
    run = new_run(store)
    loan = LoanRow(
        run_id=run.id,
        host="h100-01",
        unit="vllm-8001.service",
        active_state="active",
        enabled_state="enabled",
        spec_hash="abc",
    )
    store.add_loans(run.id, [loan])
    stopped = LoanRow(run_id=run.id, host="h100-01", unit="vllm-8001.service", active_state="inactive")
    other = LoanRow(run_id=run.id, host="h100-02", unit="vllm-8002.service", active_state="active")
    store.add_loans(run.id, [stopped, other])
    first, second = store.loans(run.id)
    assert (first.active_state, first.enabled_state, first.spec_hash) == ("active", "enabled", "abc")
    assert second.unit == "vllm-8002.service"
    store.return_loan(run.id, "h100-01", "vllm-8001.service", "answered a completion in 0.2 s")
    assert store.loans(run.id, only_open=True) == (second,)
    assert store.open_loans("h100-01") == ()
    assert store.open_loans("h100-02") == (second,)
    assert store.loans(run.id)[0].proof == "answered a completion in 0.2 s"
    with pytest.raises(FleetbenchError, match="no loan of"):
        store.return_loan(run.id, "h100-01", "unheard-of")


WRITER = """
import sys
from pathlib import Path
from fleetbench.results.rows import MeasurementKind, Verdict
from fleetbench.results.store import open_store
from fleetbench.results.values import BenchResult
url, directory, run_id, first, count = sys.argv[1:]
store = open_store(url, Path(directory))
for repeat in range(int(first), int(first) + int(count)):
    store.start_measurement(run_id, 1, 0, repeat, MeasurementKind.MEASURE, seed=repeat, unit_name="u",
                            client="c")
    store.finish_measurement(run_id, 1, 0, repeat, MeasurementKind.MEASURE, exit_status=0,
                             result=BenchResult(completed=repeat), verdict=Verdict.VALID)
    print(repeat, flush=True)
"""


def writer(url: str, store: Store, run: RunRow, first: int, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(store.runs_directory), run.id, str(first), str(count)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_side_by_side_and_nothing_is_lost_or_doubled(
    store: Store, database_url: str
) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    # The ranges overlap: repeats 31 to 60 are started by both.
    writers = [writer(database_url, store, run, 1, 60), writer(database_url, store, run, 31, 60)]
    for process in writers:
        process.communicate(timeout=120)
        assert process.returncode == 0
    rows = store.measurements(run.id)
    assert [row.repeat for row in rows] == list(range(1, 91))
    assert all(row.attempt == 1 and row.result and row.result.completed == row.repeat for row in rows)


def test_a_writer_killed_at_any_instant_leaves_every_step_it_had_taken(
    store: Store, database_url: str
) -> None:
    run = new_run(store)
    store.add_trials(run.id, [TRIAL])
    process = writer(database_url, store, run, 1, 100_000)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    told, _ = process.communicate(timeout=60)
    last = int(told.split()[-1]) if told.split() else 1
    with open_store(database_url, store.runs_directory) as again:
        rows = again.measurements(run.id)
        done = [row.repeat for row in rows if row.finished]
        # One more step may have been taken than could be told.
        assert done == list(range(1, len(done) + 1))
        assert len(done) in (last, last + 1)
        assert len(rows) - len(done) <= 1
        row = started(again, run, repeat=len(done) + 1)
        assert not row.finished
    if database_url.startswith("sqlite"):
        with sqlite3.connect(database_url.removeprefix("sqlite:///")) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_default_store_is_a_file_in_the_runs_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.delenv("FLEETBENCH_RUNS", raising=False)
    open_store().close()
    assert (tmp_path / "runs" / "fleetbench.sqlite").is_file()
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "else"))
    open_store().close()
    assert (tmp_path / "else" / "fleetbench.sqlite").is_file()
    monkeypatch.setenv("FLEETBENCH_DB", f"sqlite:///{tmp_path / 'apart' / 'x.sqlite'}")
    open_store().close()
    assert (tmp_path / "apart" / "x.sqlite").is_file()


def test_reading_where_there_is_no_store_is_refused_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(FleetbenchError, match="there is no store") as caught:
        open_store(None, tmp_path / "runs", create=False)
    assert caught.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_runs_directory_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FleetbenchError, match="cannot write to") as caught:
        open_store(f"sqlite:///{tmp_path / 'x.sqlite'}", tmp_path / "file" / "deep" / "runs")
    assert "Not a directory" in caught.value.cause
    assert "FLEETBENCH_RUNS" in caught.value.next_step
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_runs_directory_that_turns_unwritable_leaves_no_run(store: Store, tmp_path: Path) -> None:
    (tmp_path / "runs").rename(tmp_path / "moved")
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(FleetbenchError, match="cannot make the run's directory"):
        new_run(store)
    assert store.runs() == ()


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql://who:sesame@127.0.0.1:1/none", "cannot open the store"),
        ("mysql://who:sesame@localhost/none", "not supported: mysql"),
        ("nonsense sesame", "not a database URL"),
        ("sqlite:////proc/nowhere/sesame.sqlite", "cannot write to"),
    ],
)
def test_a_database_that_cannot_be_used_is_explained_without_its_password(
    tmp_path: Path, url: str, what: str
) -> None:
    with pytest.raises(FleetbenchError, match=what) as caught:
        open_store(url, tmp_path / "deep" / "runs")
    assert caught.value.next_step
    assert len(str(caught.value).splitlines()) <= 3
    if "who" in url:
        assert "sesame" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "x.sqlite"
    file.write_text("not a database, " * 100)
    with pytest.raises(FleetbenchError, match="cannot read the store") as caught:
        open_store(f"sqlite:///{file}", tmp_path / "runs")
    assert "not a database" in caught.value.cause
    assert file.read_text() == "not a database, " * 100
    assert not (tmp_path / "runs").exists()


def _without_number(trial: Trial) -> dict[str, object]:
    return {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name != "number"}
