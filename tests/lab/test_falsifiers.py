"""Planted falsifiers: each is caught by the rule that is meant for it, with the numbers that show it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from falsified import HOST, REMARKS, clean, finding, known_fleet, measured, sweep, trials
from invoked import until
from known_host import VENV, VERSION_FILE, WRONG_FILE
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import Verdict

LOAD = ("--concurrency", "4", "--input-len", "32", "--output-len", "16", "--repeats", "1")
# A client that gets a fifth of a CPU, and that not evenly: what the scheduler does to one among many.
STARVE = """
while systemctl kill -s STOP 'fleetbench-preload-*'; do
  sleep 0.5; systemctl kill -s CONT 'fleetbench-preload-*'; sleep 0.1
done
"""
BENCH = ("bench", "--hosts", HOST, *LOAD, "--no-warmup", "--new", "--num-prompts", "80")
LONG = (*BENCH[:-1], "320")


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One host for the file."""
    with known_fleet(tmp_path_factory.mktemp("known")) as fleet:
        yield fleet


@pytest.fixture
def known(booted: Fleet) -> Iterator[Fleet]:
    """The same host, clean afterwards."""
    yield booted
    clean(booted)


def wrong_client(fleet: Fleet, **wrong: float) -> None:
    """Let the client do something wrong from now on."""
    fleet.enter(HOST, 'cat > "$1"', WRONG_FILE, stdin=json.dumps(wrong))


def test_a_clean_measurement_is_valid(known: Fleet) -> None:
    sweep(known, "clean")
    (row,) = measured(known)
    assert {one.rule for one in row.findings} <= REMARKS
    assert row.verdict is Verdict.VALID


def test_all_requests_failing(known: Fleet) -> None:
    sweep(known, "all-fail")
    (row,) = measured(known)
    assert row.verdict is Verdict.INVALID
    assert finding(row, "no-requests").numbers["completed"] == 0


def test_a_fifth_of_the_requests_failing(known: Fleet) -> None:
    sweep(known, "some-fail")
    (row,) = measured(known)
    assert row.verdict is Verdict.INVALID
    numbers = finding(row, "failed-requests").numbers
    assert numbers["completed"] + numbers["failed"] == 80
    assert numbers["failed"] == 16


def test_a_stall_of_ten_seconds_in_the_middle(known: Fleet) -> None:
    sweep(known, "stalling")
    (row,) = measured(known)
    assert row.verdict is Verdict.SUSPECT
    assert finding(row, "stalled").verdict is Verdict.SUSPECT


def test_a_client_without_cpu(known: Fleet) -> None:
    running = known.begin("sweep", "--model", "clean", "--hosts", HOST, "--sweep", "long")
    running.wait_for("/320 requests")
    known.enter(HOST, "cat > /run/starve.sh", stdin=STARVE)
    known.on(HOST, "systemd-run --quiet --unit=foreign bash /run/starve.sh")
    done = running.done()
    assert done.status == 0, done.err
    (row,) = measured(known)
    assert row.verdict is Verdict.SUSPECT
    assert finding(row, "client-bound").verdict is Verdict.SUSPECT


def test_another_tensor_parallel_size_than_asked_for(known: Fleet) -> None:
    sweep(known, "narrow")
    (trial,) = trials(known)
    assert trial.state is TrialState.FAILED
    assert trial.failure is not None
    assert trial.failure.kind == "effective-configuration-differs"
    assert trial.failure.evidence == "asked for tensor-parallel size 2, it runs with 1"
    assert measured(known) == ()


def test_another_model_behind_the_port(known: Fleet) -> None:
    sweep(known, "masked")
    (trial,) = trials(known)
    assert trial.failure is not None
    assert trial.failure.kind == "effective-configuration-differs"
    assert trial.failure.evidence == "asked for model known/masked, it loaded known/another"
    assert measured(known) == ()


def test_eager_mode_that_nobody_asked_for(known: Fleet) -> None:
    sweep(known, "eager")
    (row,) = measured(known)
    assert row.verdict is Verdict.SUSPECT
    assert finding(row, "eager-mode").verdict is Verdict.SUSPECT


def test_a_gpu_that_heat_holds_down(known: Fleet) -> None:
    labs.gpus(HOST, "4x H100 throttle=40", settings=known.settings)
    sweep(known, "clean", "long")
    (row,) = measured(known)
    assert row.verdict is Verdict.SUSPECT
    held = finding(row, "throttled")
    assert held.verdict is Verdict.SUSPECT
    assert "hardware thermal slowdown" in held.text


def test_a_warm_prefix_cache_by_a_repeated_seed(known: Fleet) -> None:
    known.deploy("caching")
    assert known.invoke(*BENCH).status == 0
    (first,) = measured(known)
    assert first.verdict is Verdict.VALID
    assert known.invoke(*BENCH).status == 0
    (again,) = measured(known)
    assert again.seed == first.seed
    assert again.verdict is Verdict.SUSPECT
    assert finding(again, "prefix-cache").numbers["share"] == pytest.approx(0.5)


def test_prompts_that_are_shorter_than_asked_for(known: Fleet) -> None:
    wrong_client(known, input_share=0.5)
    sweep(known, "clean")
    (row,) = measured(known)
    assert row.verdict is not Verdict.VALID
    finding(row, "prompt-length")


def test_tokens_that_the_servers_counters_do_not_know(known: Fleet) -> None:
    sweep(known, "miscounting")
    (row,) = measured(known)
    assert row.verdict is Verdict.SUSPECT
    finding(row, "server-tokens")


def second_server(fleet: Fleet) -> None:
    """Start another server on the port of the service, as vLLM up to 0.24 lets anybody do."""
    command = f"{VENV}/bin/vllm serve known/clean --port 8001"
    fleet.on(HOST, f"systemd-run --quiet --unit=foreign --uid=vllm --setenv=KNOWN_TTFT_S=0.03 {command}")
    until(lambda: "startup complete" in fleet.on(HOST, "journalctl -u foreign -o cat --no-pager"))


def test_a_second_server_that_comes_to_share_the_port(known: Fleet) -> None:
    known.deploy("clean")
    running = known.begin(*LONG)
    running.wait_for("/320 requests")
    second_server(known)
    running.done()
    (row,) = measured(known)
    assert row.verdict is Verdict.INVALID
    assert finding(row, "second-listener").verdict is Verdict.INVALID
    assert known.on(HOST, "systemctl is-active foreign") == "active"


def test_a_second_server_that_shares_the_port_is_named_before_anything_is_measured(known: Fleet) -> None:
    known.deploy("clean")
    second_server(known)
    done = known.invoke(*BENCH)
    assert done.status == 1
    (error,) = done.errors
    assert "port 8001 is held by pid" in error
    assert "foreign.service" in error
    assert measured(known) == ()


def test_a_version_that_is_switched_in_the_middle_of_a_sweep(known: Fleet) -> None:
    running = known.begin("sweep", "--model", "clean", "--hosts", HOST, "--sweep", "two")
    running.wait_for("/80 requests")
    known.enter(HOST, 'cat > "$1"', VERSION_FILE, stdin="0.33.0\n")
    done = running.done()
    assert done.status == 0, done.err
    first, second = trials(known)
    assert first.state is TrialState.MEASURED
    assert second.failure is not None
    assert second.failure.evidence.startswith("asked for vLLM 0.32.0, 0.33.0 answers")
