"""Where the time of a real sweep went: every second has a step, also when no controller was there."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator

import pytest
from invoked import until
from standin_host import Fleet
from terminal_screen import on_terminal

from fleetbench.model import Step
from fleetbench.results.timeline import AWAY, RunTimeline, read_timeline, seconds_by_step, wall_s

SWEEP = ("sweep", "--model", "slow", "--hosts", "lab-01", "--sweep")


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """Production on the first host, which a sweep borrows and gives back."""
    if booted_fleet.model_on("lab-01") != "standin/other":
        booted_fleet.deploy("other", gpus="0,1")
    yield booted_fleet
    booted_fleet.clean(keep_services=True)


def timeline_of(fleet: Fleet) -> RunTimeline:
    with fleet.store() as store:
        found = read_timeline(store.directory(store.run("latest").id))
    assert found is not None
    return found


def check_contiguous(timeline: RunTimeline) -> None:
    for host in timeline.hosts:
        mine = [period for period in timeline.periods if period.host == host]
        assert all(one.ended_ms == other.began_ms for one, other in itertools.pairwise(mine))
        assert sum(seconds_by_step(mine).values()) == pytest.approx(wall_s(mine), abs=1e-6)


def test_every_second_of_a_sweep_has_a_step_and_every_line_of_stdout_is_an_event(served: Fleet) -> None:
    done = served.invoke(*SWEEP, "pair", "--format", "json")
    assert done.status == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [found["event"] for found in events]
    assert (kinds[0], kinds[-1]) == ("run", "summary")
    assert {"step", "trial", "repeat", "message", "progress"} <= set(kinds)
    assert [found["time"] for found in events[1:-1]] == sorted(found["time"] for found in events[1:-1])
    states = [(found["trial"], found["state"]) for found in events if found["event"] == "trial"]
    assert states == [(1, "running"), (1, "measured"), (2, "running"), (2, "measured")]
    summary = events[-1]
    assert summary["run"] == events[0]["run"]
    assert summary["trials"] == {"measured": 2}
    assert summary["best"][0]["output_tokens_per_s"] > 0
    assert summary["next"] == [f"fleetbench {verb} {summary['run']}" for verb in ("report", "recommend")]
    assert "borrowing the GPUs of vllm-8001.service" in done.err

    timeline = timeline_of(served)
    check_contiguous(timeline)
    assert {period.step for period in timeline.periods} == set(Step) - {Step.IDLE}
    assert summary["seconds"] == pytest.approx(
        {step.value: seconds for step, seconds in seconds_by_step(timeline.periods).items()}, abs=0.01
    )
    # The stand-in loads for 2 s and compiles for 2 s: the journal's own times say where one ends.
    for number in (1, 2):
        mine = seconds_by_step(period for period in timeline.periods if period.trial == number)
        assert mine[Step.LOAD] > 1.9
        assert mine[Step.COMPILE] > 1.9
    shown = served.fleetbench("runs", "show", "latest")
    assert "spent measuring" in shown
    assert "| compile |" in served.fleetbench("report", "latest", "--format", "markdown")


def test_a_resumed_sweep_shows_how_long_no_controller_was_there(served: Fleet) -> None:
    sweep = served.begin(*SWEEP, "long")
    sweep.wait_for("/60 requests")
    sweep.kill()
    before = timeline_of(served)
    assert before.periods[-1].step in (Step.WARM_UP, Step.MEASURE, Step.FETCH)
    again = served.invoke(*SWEEP, "long", "--plain")
    assert again.status == 0, again.err
    after = timeline_of(served)
    check_contiguous(after)
    (away,) = [period for period in after.periods if period.note == AWAY]
    assert (away.step, away.began_ms) == (Step.IDLE, before.periods[-1].ended_ms)
    assert after.periods[: len(before.periods)] == before.periods
    assert "its server still runs" in {period.note for period in after.periods}


def test_the_live_table_shows_a_sweep_and_ctrl_c_leaves_a_terminal_that_works(served: Fleet) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    env |= {
        "FLEETBENCH_INVENTORY": str(served.inventory),
        "FLEETBENCH_RUNS": str(served.runs),
        "FLEETBENCH_LAB": served.settings.name,
    }
    running = on_terminal([sys.executable, "-m", "invoke", *SWEEP, "long"], env, width=110)

    def shows(text: str) -> bool:
        return text in running.screen.text

    assert running.read_until(lambda: shows("elapsed/expected"), 60), running.screen.text
    assert running.read_until(lambda: shows("load") and shows("tp=2 dp=1"), 60), running.screen.text
    assert running.read_until(lambda: shows("/60 requests"), 60), running.screen.text
    running.interrupt()
    assert running.read_until(lambda: shows("stop now? [Y/n]"), 10), running.screen.text
    assert not shows("elapsed/expected"), "the table would be drawn over the answer"
    running.type("y\n")
    status = running.end(90)
    text = running.screen.text
    assert status == 130, text
    assert "elapsed/expected" not in text
    assert "vllm-8001.service serves again" in text
    assert "invoke sweep --resume" in text
    assert "\x1b[?25l" not in running.raw
    until(lambda: served.serves("lab-01"))
