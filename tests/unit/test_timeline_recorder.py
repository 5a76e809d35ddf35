"""The timeline of a run: every moment of a host is in exactly one period, whatever happens to the clocks."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetbench.errors import Unreadable
from fleetbench.model import Step
from fleetbench.results.timeline import (
    AWAY,
    FILE_NAME,
    NOTHING_TO_DO,
    Period,
    RunTimeline,
    file_text,
    from_text,
    read_timeline,
    seconds_by_step,
    wall_s,
)
from fleetbench.sweep.timeline import Clock, Timeline
from fleetbench.sweep.track import Track

START_MS = 1_796_000_000_000


class Clocks:
    """Clocks of a machine, which a test moves."""

    def __init__(self, boot: str = "first") -> None:
        self.wall, self.steady, self.boot = START_MS, 5_000_000, boot

    def pass_s(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.steady += round(seconds * 1000)

    @property
    def clock(self) -> Clock:
        return Clock(wall_ms=lambda: self.wall, steady_ms=lambda: self.steady, boot=self.boot)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def steps(timeline: RunTimeline, host: str = "h1") -> list[tuple[str, float]]:
    return [(period.step.value, period.seconds) for period in timeline.periods if period.host == host]


def check_contiguous(timeline: RunTimeline, host: str = "h1") -> None:
    mine = [period for period in timeline.periods if period.host == host]
    assert mine
    assert all(one.ended_ms == other.began_ms for one, other in itertools.pairwise(mine))
    assert sum(seconds_by_step(mine).values()) == pytest.approx(wall_s(mine), abs=1e-9)


def a_trial(track: Track, clocks: Clocks) -> None:
    """One trial with all steps, 1 + 2 + … seconds long."""
    track.begin_trial(1, "tp=2 dp=1")
    for length, step in enumerate((Step.STOP, Step.DRAIN, Step.LOAD, Step.COMPILE, Step.WARM_UP), start=1):
        track.enter(step)
        clocks.pass_s(length)
    for repeat in (1, 2):
        track.enter(Step.MEASURE, f"repeat {repeat}")
        clocks.pass_s(6)
        track.enter(Step.FETCH)
        clocks.pass_s(0.25)


def test_the_steps_of_a_host_add_up_to_its_wall_time(clocks: Clocks) -> None:
    timeline = Timeline("run", clock=clocks.clock)
    track = Track(timeline, "h1")
    a_trial(track, clocks)
    track.leave_trial()
    track.enter(Step.RESTORE)
    clocks.pass_s(7)
    track.close()
    found = timeline.so_far()
    check_contiguous(found)
    assert wall_s(found.periods) == 15 + 12.5 + 7
    assert seconds_by_step(found.periods)[Step.MEASURE] == 12
    assert {period.trial for period in found.periods if period.step is not Step.RESTORE} == {1}
    assert [period.trial for period in found.periods if period.step is Step.RESTORE] == [None]


@pytest.mark.parametrize("jump_s", [-7200, 7200])
def test_a_wall_clock_that_is_set_tears_nothing(clocks: Clocks, jump_s: int) -> None:
    timeline = Timeline("run", clock=clocks.clock)
    timeline.enter("h1", Step.LOAD)
    clocks.pass_s(10)
    clocks.wall += jump_s * 1000
    timeline.enter("h1", Step.MEASURE)
    clocks.pass_s(20)
    timeline.close("h1")
    assert steps(timeline.so_far()) == [("load", 10), ("measure", 20)]
    check_contiguous(timeline.so_far())


@pytest.mark.parametrize("jump_s", [0, -7200, 7200])
def test_a_resumed_run_shows_how_long_no_controller_was_there(
    clocks: Clocks, tmp_path: Path, jump_s: int
) -> None:
    first = Timeline("run", tmp_path, clock=clocks.clock)
    first.enter("h1", Step.MEASURE, trial=1)
    clocks.pass_s(30)
    first.write()  # as every few seconds; then it is killed
    clocks.pass_s(600)
    clocks.wall += jump_s * 1000
    second = Timeline("run", tmp_path, clock=clocks.clock)
    clocks.pass_s(2)
    second.enter("h1", Step.STOP, trial=1)
    clocks.pass_s(1)
    second.close("h1")
    found = read_timeline(tmp_path)
    assert found is not None
    assert steps(found) == [("measure", 30), ("idle", 600), ("idle", 2), ("stop", 1)]
    assert [period.note for period in found.periods][1:3] == [AWAY, NOTHING_TO_DO]
    check_contiguous(found)


def test_a_document_is_of_one_moment_though_the_clock_goes_on_while_it_is_made(tmp_path: Path) -> None:
    readings = itertools.count(5_000_000)
    ticking = Clock(wall_ms=lambda: START_MS, steady_ms=lambda: next(readings), boot="first")
    first = Timeline("run", tmp_path, clock=ticking)
    first.enter("h1", Step.MEASURE, trial=1)
    first.write()
    found = read_timeline(tmp_path)
    assert found is not None
    (measured,) = found.periods
    assert measured.ended_ms == found.written_ms
    so_far = first.so_far()
    assert so_far.periods[-1].ended_ms == so_far.written_ms
    second = Timeline("run", tmp_path, clock=ticking)
    second.enter("h1", Step.MEASURE, trial=1)
    notes = [(period.step, period.note, period.began_ms) for period in second.so_far().periods[:2]]
    assert notes == [(Step.MEASURE, "", measured.began_ms), (Step.IDLE, AWAY, measured.ended_ms)]


def test_after_a_reboot_of_the_controller_the_wall_clock_says_how_long_it_was_away(
    clocks: Clocks, tmp_path: Path
) -> None:
    first = Timeline("run", tmp_path, clock=clocks.clock)
    first.enter("h1", Step.MEASURE)
    clocks.pass_s(30)
    first.close("h1")
    after = Clocks(boot="second")
    after.wall, after.steady = clocks.wall + 90_000, 1000
    second = Timeline("run", tmp_path, clock=after.clock)
    second.enter("h1", Step.STOP)
    assert steps(second.so_far()) == [("measure", 30), ("idle", 90), ("stop", 0)]
    before = Clocks(boot="third")
    before.wall = START_MS - 1_000_000  # a clock that was set back: nothing may begin before it ended
    third = Timeline("run", tmp_path, clock=before.clock)
    third.enter("h1", Step.STOP)
    check_contiguous(third.so_far())


def test_a_host_that_was_done_before_the_break_had_nothing_to_do_until_then(
    clocks: Clocks, tmp_path: Path
) -> None:
    first = Timeline("run", tmp_path, clock=clocks.clock)
    first.enter("h1", Step.MEASURE)
    first.enter("h2", Step.MEASURE)
    clocks.pass_s(10)
    first.close("h1")
    clocks.pass_s(50)
    first.write()
    clocks.pass_s(100)
    second = Timeline("run", tmp_path, clock=clocks.clock)
    second.enter("h1", Step.STOP)
    notes = [(period.note, period.seconds) for period in second.so_far().periods if period.step is Step.IDLE]
    assert notes == [(NOTHING_TO_DO, 50), (AWAY, 100)]
    check_contiguous(second.so_far())


def test_a_step_that_is_learnt_of_late_begins_when_the_journal_says(clocks: Clocks) -> None:
    timeline = Timeline("run", clock=clocks.clock)
    track = Track(timeline, "h1")
    track.enter(Step.LOAD)
    clocks.pass_s(10)
    track.journal("INFO 11-30 19:31:35 [core.py:1] Starting to load model org/tiny...", 9)
    assert steps(timeline.so_far()) == [("load", 10)]
    line = "INFO 11-30 19:31:40 [gpu_model_runner.py:1] Model loading took 14.9 GiB memory and 4.1 seconds"
    track.journal(line, 4)
    track.journal(line, 4)  # the same line is read at each look
    clocks.pass_s(1)
    track.enter(Step.WARM_UP, ago_s=100)  # never before what has ended
    assert steps(timeline.so_far()) == [("load", 6), ("warm-up", 5)]
    check_contiguous(timeline.so_far())


def test_time_in_which_the_host_did_not_answer_is_idle_and_then_the_step_goes_on(clocks: Clocks) -> None:
    timeline = Timeline("run", clock=clocks.clock)
    track = Track(timeline, "h1")
    track.away(True)  # before anything began: nothing to interrupt
    track.begin_trial(3, "tp=1 dp=1")
    track.enter(Step.MEASURE, "repeat 1")
    clocks.pass_s(5)
    track.away(True)
    track.away(True)
    clocks.pass_s(20)
    track.away(False)
    track.away(False)
    clocks.pass_s(5)
    track.close()
    found = timeline.so_far()
    assert steps(found) == [("measure", 5), ("idle", 20), ("measure", 5)]
    assert found.periods[1].note == "waiting for the host (measure)"
    assert {period.trial for period in found.periods} == {3}
    assert timeline.spent_s(3, Step.MEASURE) == 10


def test_the_file_is_whole_at_any_moment_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    timeline = Timeline("run", tmp_path)
    broken: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                read_timeline(tmp_path)
            except Unreadable as exc:
                broken.append(exc)

    reader = threading.Thread(target=read)
    reader.start()

    def write(host: str) -> None:
        for step, _ in zip(itertools.cycle((Step.LOAD, Step.MEASURE)), range(40), strict=False):
            timeline.enter(host, step)

    writers = [threading.Thread(target=write, args=(f"h{number}",)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    timeline.__exit__()
    assert broken == []
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    found = read_timeline(tmp_path)
    assert found is not None
    assert set(found.hosts) == {"h0", "h1", "h2", "h3"}
    for host in found.hosts:
        check_contiguous(found, host)


def test_a_full_disk_is_told_once_and_keeps_nobody_from_working(tmp_path: Path) -> None:
    said: list[str] = []
    place = tmp_path / "file"
    place.write_text("no directory")
    timeline = Timeline("run", place, said=said.append)
    timeline.enter("h1", Step.LOAD)
    timeline.enter("h1", Step.MEASURE)
    timeline.close("h1")
    assert len([line for line in said if "cannot write" in line]) == 1
    assert place.read_text() == "no directory"


def test_a_broken_file_is_put_aside_and_not_lost(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    said: list[str] = []
    timeline = Timeline("run", tmp_path, said=said.append)
    timeline.enter("h1", Step.LOAD)
    kept = [path for path in tmp_path.iterdir() if path.name != FILE_NAME]
    assert [path.read_text() for path in kept] == ["{"]
    assert len(said) == 1
    assert kept[0].name in said[0]
    assert read_timeline(tmp_path) is not None


def a_document() -> dict[str, object]:
    found = RunTimeline(
        run_id="20261130-141233-tiny-3f2a",
        periods=(
            Period(
                host="h1",
                lane="0,1",
                step=Step.WARM_UP,
                trial=4,
                config="tp=2 dp=1",
                began_ms=START_MS + 7,
                ended_ms=START_MS + 12_345,
                note="repeat 1",
            ),
            Period(host="h1", step=Step.IDLE, began_ms=START_MS, ended_ms=START_MS),
        ),
        written_ms=START_MS + 1,
        boot="b",
        steady_ms=17,
    )
    text = file_text(found)
    assert from_text(text) == found
    document: dict[str, object] = json.loads(text)
    return document


def test_what_is_written_is_what_is_read() -> None:
    document = a_document()
    assert document["version"] == 1
    assert document["periods"] == [
        {
            "host": "h1",
            "lane": "0,1",
            "trial": 4,
            "config": "tp=2 dp=1",
            "step": "warm-up",
            "began": "2026-11-30T00:53:20.007Z",
            "seconds": 12.338,
            "note": "repeat 1",
        },
        {
            "host": "h1",
            "lane": "",
            "trial": None,
            "config": "",
            "step": "idle",
            "began": "2026-11-30T00:53:20.000Z",
            "seconds": 0.0,
            "note": "",
        },
    ]


def damaged() -> Iterator[str]:
    yield from ("", "[]", "null", '{"version": 2}', '{"version": 1}', "[" * 100_000)
    for key, value in (
        ("run", ...),
        ("written", "yesterday"),
        ("written", "2026-11-30T14:12:33"),
        ("periods", 5),
        ("periods", [{"host": "h"}]),
        ("clock", {"steady_ms": "x"}),
    ):
        document = a_document()
        if value is ...:
            del document[key]
        else:
            document[key] = value
        yield json.dumps(document)
    for key, bad in (("seconds", -1), ("seconds", 1e999), ("step", "sleep"), ("began", None), ("trial", "x")):
        document = a_document()
        document["periods"][0][key] = bad  # type: ignore[index]
        yield json.dumps(document)


@pytest.mark.parametrize("text", list(damaged()))
def test_a_file_that_is_no_timeline_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(Unreadable) as found:
        from_text(text, "the file")
    assert "the file" in found.value.what
    assert found.value.next_step


def test_text_of_a_file_cannot_move_the_cursor() -> None:
    document = a_document()
    document["periods"][0]["config"] = "tp=1\x1b[2J\nforged"  # type: ignore[index]
    assert from_text(json.dumps(document)).periods[0].config == "tp=1 [2J forged"
