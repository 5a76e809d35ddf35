"""Which ends of a bench client say nothing about the server, and are measured once more."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from fleetbench.bench.client import Left, State
from fleetbench.bench.left import ATTEMPTS, begin_again

WANTED = 10
REPORT = {
    "backend": "vllm",
    "model_id": "m",
    "num_prompts": WANTED,
    "duration": 2.0,
    "completed": WANTED,
    "failed": 0,
    "total_input_tokens": 80,
    "total_output_tokens": 80,
    "request_throughput": 5.0,
    "output_throughput": 40.0,
    "total_token_throughput": 80.0,
}


def left(exit_status: int | None, result: str = "success", **changed: object) -> Left:
    """What a client left; with a report unless `completed` is None."""
    report = {**REPORT, **changed}
    content: Mapping[str, bytes] = (
        {} if report["completed"] is None else {"result.json": json.dumps(report).encode()}
    )
    return Left(content=content, exit_status=exit_status, result=result)


def why(state: State, found: Left, *, attempt: int = 1, outlived: bool = False, rust: bool = False) -> str:
    return begin_again(attempt, state, found, outlived=outlived, wanted=WANTED, rust=rust)[0]


def test_a_good_end_stands() -> None:
    assert why(State.FINISHED, left(0)) == ""
    assert why(State.FINISHED, left(0), outlived=True) == ""


def test_a_report_stands_whatever_became_of_the_status() -> None:
    assert why(State.ENDED, left(None)) == ""
    assert why(State.FINISHED, left(137)) == ""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (left(139, completed=None), "signal 11 ended it"),
        (left(137, completed=None), "signal 9 ended it"),
        (left(None, "signal", completed=None), "it was killed (systemd: signal)"),
        (left(None, "oom-kill", completed=None), "it was killed (systemd: oom-kill)"),
    ],
)
def test_a_crash_is_measured_once_more_and_not_for_ever(found: Left, words: str) -> None:
    assert why(State.ENDED, found) == f"the client crashed, {words}; measuring again"
    assert why(State.ENDED, found, attempt=ATTEMPTS) == ""


@pytest.mark.parametrize(
    "found", [left(None, "timeout", completed=None), left(1, completed=None), left(0, completed=3, failed=7)]
)
def test_what_took_too_long_or_failed_by_itself_stands(found: Left) -> None:
    assert why(State.FINISHED, found) == ""


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (State.RUNNING, left(None, completed=None)),
        (State.ENDED, left(None, completed=None)),
        (State.FINISHED, left(0, completed=3, failed=7)),
        (State.FINISHED, left(1, completed=None)),
    ],
)
def test_what_a_server_that_went_away_left_undone_is_begun_anew_however_often(
    state: State, found: Left
) -> None:
    for attempt in (1, ATTEMPTS, 7):
        assert "its server went away" in why(state, found, attempt=attempt, outlived=True)


def test_after_a_reboot_of_its_host_it_is_measured_once_more() -> None:
    assert "rebooted" in why(State.LOST, left(None, completed=None))
    assert why(State.LOST, left(None, completed=None), attempt=ATTEMPTS) == ""


def test_the_rust_client_gives_way_to_the_python_client_when_nobody_insists() -> None:
    found = left(1, completed=None)
    assert begin_again(1, State.FINISHED, found, outlived=False, wanted=WANTED, rust=True)[1]
    assert not begin_again(1, State.FINISHED, found, outlived=False, wanted=WANTED, rust=False)[1]
