"""Benches on real hosts: interrupted in every way there is, complete in the end, nothing measured twice."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from invoked import Done, Running, until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, RunState, Verdict

BENCH = ("bench", "--hosts", "lab-01", "--input-len", "8", "--output-len", "8", "--concurrency", "1")
# Repeats of three seconds each (the stand-in's pace is 0.05 s a request): time enough to interfere.
LONG = (*BENCH, "--num-prompts", "60", "--no-warmup", "--repeats")
SHORT = (*BENCH, "--num-prompts", "10", "--repeats", "1")


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A service on port 8001 of the first host, the same for all tests that leave it as it was."""
    if booted_fleet.model_on("lab-01") != "standin/good":
        booted_fleet.deploy("good")
    yield booted_fleet
    booted_fleet.clean(keep_services=True)


def requests_sent(bench: Running) -> int:
    """How many requests the newest client has finished, as its progress says."""
    found = re.findall(r"repeat \d: (\d+)/60 requests", bench.err)
    return int(found[-1]) if found else 0


def long_bench(fleet: Fleet, *words: str, repeats: str = "1") -> Running:
    """A bench that is in the middle of its first repeat."""
    bench = fleet.begin(*LONG, repeats, *words)
    bench.wait_for("requests")
    assert 0 < requests_sent(bench) < 60
    return bench


def check_complete(fleet: Fleet, done: Done, *, client: str = "lab-01", starts: int = 1) -> None:
    """All repeats measured and valid, each client started once, nothing left on the hosts."""
    assert done.status == 0, done.err
    with fleet.store() as store:
        (run,) = store.runs()
        rows = store.measurements(run.id)
        assert run.state is RunState.DONE
        assert {row.verdict for row in rows if row.kind is MeasurementKind.MEASURE} == {Verdict.VALID}
        assert [row.client for row in rows] == [client] * len(rows)
        assert all(row.result and row.result.completed == row.result.num_prompts for row in rows)
        files = {path.name for path in (store.directory(run.id) / rows[-1].directory).iterdir()}
    assert files >= {"stdout", "stderr", "result.json", "client.json"}
    started = fleet.bench_starts(client)
    assert len(started) == starts
    assert len(set(started)) == len(rows), "each repeat has a seed of its own"
    for name in fleet.names:
        assert fleet.left(name) == ""


def test_a_bench_runs_on_the_servers_own_host(served: Fleet) -> None:
    done = served.invoke(*SHORT)
    check_complete(served, done, starts=2)
    assert served.bench_starts("lab-02") == []
    assert "repeat 1: started" in done.err
    run = done.out.split()[-1]
    (row,) = served.shown("report", run)
    assert row["verdict"] == "valid"
    again = served.invoke("bench", "--resume", run)
    assert again.status == 1
    assert "is done" in again.errors[0]


def test_a_bench_runs_from_another_host(served: Fleet) -> None:
    check_complete(served, served.invoke(*SHORT, "--client", "lab-02"), client="lab-02", starts=2)
    assert served.bench_starts("lab-01") == []


def test_a_service_that_only_its_own_host_can_reach_is_not_measured_from_another(fleet: Fleet) -> None:
    fleet.deploy("good", "--bind", "127.0.0.1")
    refused = fleet.invoke(*SHORT, "--client", "lab-02")
    assert refused.status == 1
    assert "listens on 127.0.0.1 only" in refused.errors[0]
    own = fleet.invoke(*SHORT, "--no-warmup")
    assert own.status == 0, own.err


def test_a_controller_killed_in_the_middle_goes_on_where_it_was(served: Fleet) -> None:
    long_bench(served, repeats="2").kill()
    again = served.invoke(*LONG, "2")
    assert "continuing run" in again.err
    assert "repeat 1: running" in again.err or "repeat 1: finished" in again.err
    check_complete(served, again, starts=2)


def test_what_was_finished_while_nobody_watched_is_fetched_and_not_measured_again(served: Fleet) -> None:
    long_bench(served).kill()
    until(lambda: "exit_status" in served.on("lab-01", "ls /opt/vllm/runs/*/out"))
    again = served.invoke(*LONG, "1")
    assert "repeat 1: finished" in again.err
    check_complete(served, again)


def test_a_network_cut_for_twenty_seconds_does_no_harm(served: Fleet) -> None:
    bench = long_bench(served)
    labs.net("lab-01", "down", settings=served.settings)
    mend = threading.Timer(20, lambda: labs.net("lab-01", "up", settings=served.settings))
    mend.start()
    done = bench.done(180)
    mend.join()
    check_complete(served, done)


def test_after_a_reboot_of_the_client_host_it_is_measured_again(served: Fleet) -> None:
    bench = long_bench(served, "--client", "lab-02")
    labs.reboot("lab-02", hard=True, settings=served.settings)
    done = bench.done()
    assert "rebooted; measuring again" in done.err
    check_complete(served, done, client="lab-02", starts=2)
    with served.store() as store:
        assert [row.attempt for row in store.measurements(store.run("latest").id)] == [2]


def test_after_a_reboot_of_the_servers_host_it_is_warmed_up_and_measured_again(served: Fleet) -> None:
    bench = served.begin(*BENCH, "--num-prompts", "60", "--repeats", "1")
    bench.wait_for("/60 requests")
    labs.reboot("lab-01", hard=True, settings=served.settings)
    done = bench.done()
    assert "the host was rebooted in the middle; measuring again" in done.err
    check_complete(served, done, starts=4)
    with served.store() as store:
        rows = store.measurements(store.run("latest").id)
    assert [(row.kind.value, row.attempt) for row in rows] == [("warmup", 2), ("measure", 2)]


def test_a_client_that_takes_too_long_is_ended_and_its_numbers_do_not_count(served: Fleet) -> None:
    done = served.invoke(*LONG, "1", "--limit", "1")
    assert done.status == 1
    (error,) = done.errors
    assert "the client ran into its limit of 1 s and was killed" in error
    assert served.left("lab-01") == ""


def test_a_server_that_dies_ends_the_bench_with_its_cause_and_a_verdict(served: Fleet) -> None:
    bench = long_bench(served)
    served.on("lab-01", "kill -9 $(systemctl show vllm-8001 -P MainPID)")
    done = bench.done(60)
    assert done.status == 1
    (error,) = done.errors
    assert error.startswith("error: lab-01: vllm-8001.service")
    assert "killed" in error.lower() or "signal" in error.lower()
    assert len(error.splitlines()) <= 3
    with served.store() as store:
        (run,) = store.runs()
        (row,) = store.measurements(run.id)
        (trial,) = store.trials(run.id)
        kept = {path.name for path in (store.directory(run.id) / row.directory).iterdir()}
    assert run.state is RunState.FAILED
    assert trial.state is TrialState.FAILED
    assert trial.failure is not None
    assert row.verdict is Verdict.INVALID
    assert "the server died during the run" in row.reasons[0]
    assert "client.json" in kept
    assert served.left("lab-01") == ""
    assert "the server died" in served.fleetbench("report", run.id)


def test_ctrl_c_says_how_to_go_on_and_going_on_works(served: Fleet) -> None:
    bench = long_bench(served)
    bench.interrupt()
    done = bench.done(30)
    assert done.status == 130
    command = re.search(r"continue with: invoke (bench --resume \S+)", done.err)
    assert command is not None, done.err
    assert "Traceback" not in done.err
    with served.store() as store:
        assert store.run("latest").state is RunState.INTERRUPTED
    check_complete(served, served.invoke(*command[1].split()))


def test_a_client_that_cannot_write_its_result_is_named_and_measured_when_there_is_room(
    served: Fleet,
) -> None:
    full = "mkdir -p /opt/vllm/runs && mount -t tmpfs -o size=64k,mode=755 tmpfs /opt/vllm/runs"
    served.on("lab-01", full)
    try:
        bench = served.begin(*LONG, "1")
        bench.wait_for("started")
        served.on("lab-01", "head -c 1000000 /dev/zero > /opt/vllm/runs/filler; true")
        done = bench.done(90)
    finally:
        served.on("lab-01", "umount -l /opt/vllm/runs")
    assert done.status == 1
    (error,) = done.errors
    assert "the client cannot write its results\n  cause: No space left on device" in error
    with served.store() as store:
        assert store.run("latest").state is RunState.INTERRUPTED
    again = served.invoke(*LONG, "1")
    assert "continuing run" in again.err
    check_complete(served, again, starts=2)


def test_a_client_whose_status_was_not_written_does_not_keep_the_bench_waiting(served: Fleet) -> None:
    bench = long_bench(served)
    served.on("lab-01", "mkdir /opt/vllm/runs/*/out/exit_status.part")
    check_complete(served, bench.done(60))
