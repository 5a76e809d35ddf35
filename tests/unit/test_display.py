"""What an operator sees of a sweep: events as JSON lines, the live table, and the end on one screen."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import report_rows
from rich.console import Console
from terminal_screen import OnTerminal, on_terminal

from fleetbench import console
from fleetbench.model import Config, Failure, Step, TrialState
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import RunState
from fleetbench.sweep.board import Board, TrialView, after, empty_board, left_s
from fleetbench.sweep.events import Event, EventKind, as_object
from fleetbench.sweep.timeline import Timeline, wall_ms
from fleetbench.sweep.track import Track
from fleetbench.verbs.closing import as_summary, close, lines
from fleetbench.verbs.common import Options
from fleetbench.verbs.display import REMEMBERED_S, Remembered, watching
from fleetbench.verbs.live_table import clock, picture

HOSTILE = (
    "CUDA out of [red]memory[/red] [link=file:///etc]x[/link] \x1b[2J\x1b]0;owned\x07\nforged line \u202e"
)
ROOT = Path(__file__).parents[2]


def event(kind: EventKind, **carried: object) -> Event:
    given: dict[str, object] = {"host": "lab-01", "time": "2026-11-30T14:12:33.000Z"}
    return Event(kind=kind, **(given | carried))  # type: ignore[arg-type]


def board_of(count: int, events: Iterable[Event] = ()) -> Board:
    """A board of `count` trials, after events that happen ten seconds apart."""
    views = [TrialView(number=n, host="lab-01", config=f"tp={n} dp=1") for n in range(1, count + 1)]
    board = empty_board(views, 0.0)
    for number, found in enumerate(events, start=1):
        board = after(board, found, number * 10.0)
    return board


def shown(board: Board, now_s: float = 0.0, width: int = 100, height: int = 24) -> list[str]:
    stream = io.StringIO()
    terminal = Console(file=stream, width=width, height=height, force_terminal=True, color_system="standard")
    terminal.print(picture(board, now_s, width, height))
    text = stream.getvalue()
    assert "\x1b[2J" not in text
    assert "\x1b]" not in text
    plain = Console(file=(flat := io.StringIO()), width=width, height=height, no_color=True)
    plain.print(picture(board, now_s, width, height))
    return flat.getvalue().splitlines()


MIDDLE = (
    event(EventKind.TRIAL, trial=1, state=TrialState.RUNNING),
    event(EventKind.STEP, trial=1, config="tp=1 dp=1", step=Step.LOAD, elapsed_s=0.0),
    event(EventKind.TRIAL, trial=1, state=TrialState.FAILED, cause="CUDA out of memory"),
    event(EventKind.TRIAL, trial=2, state=TrialState.IMPLIED, cause="implied by trial 1: CUDA out of memory"),
    event(EventKind.TRIAL, trial=3, state=TrialState.RUNNING),
    event(
        EventKind.STEP,
        trial=3,
        config="tp=3 dp=1",
        step=Step.MEASURE,
        elapsed_s=2.0,
        expected_s=70.0,
        text="r",
    ),
    event(EventKind.COUNT, trial=3, done=412, wanted=1000, tokens_per_s=2310.4),
    event(EventKind.STEP, host="lab-02", step=Step.RESTORE, elapsed_s=0.0),
)


def test_the_table_shows_what_runs_with_its_speed_and_what_ended_with_its_cause() -> None:
    found = shown(board_of(6, MIDDLE), now_s=100)
    assert found[0].split() == [
        "trial",
        "host",
        "configuration",
        "phase",
        "elapsed/expected",
        "tok/s",
        "result",
    ]
    assert found[1].split() == [
        *("3", "lab-01", "tp=3", "dp=1", "measure", "0:42/1:10", "2,310", "412/1000", "requests"),
    ]
    assert found[2].split() == ["–", "lab-02", "–", "restore", "0:20/–", "–"]
    assert found[3].split()[:5] == ["2", "lab-01", "tp=2", "dp=1", "skipped"]
    assert "implied by trial 1: CUDA" in found[3]
    assert found[4].split() == [
        *("1", "lab-01", "tp=1", "dp=1", "failed", "0:20", "–", "CUDA", "out", "of", "memory"),
    ]
    assert found[5] == "0 of 6 measured, 1 failed, 1 skipped, 1 running · 1:40 so far"


@pytest.mark.parametrize("width", [20, 36, 48, 64, 80, 100, 200])
def test_it_fits_every_width_and_keeps_trial_phase_and_result(width: int) -> None:
    found = shown(board_of(6, MIDDLE), now_s=100, width=width)
    assert max(map(len, found)) <= width
    assert len(found) == 6
    assert found[1].split()[0] == "3"
    if width >= 36:
        assert "measure" in found[1]
        assert "failed" in found[4]


def test_twenty_hosts_fit_a_small_screen_and_those_left_out_are_counted() -> None:
    steps = [
        event(EventKind.STEP, host=f"lab-{n:02d}", trial=n, step=Step.MEASURE, elapsed_s=0.0)
        for n in range(1, 21)
    ]
    found = shown(board_of(40, [*MIDDLE, *steps]), now_s=300, height=14)
    assert len(found) <= 13
    assert "10 more hosts at work" in found[-1]
    assert len(shown(board_of(40, [*MIDDLE, *steps]), now_s=300, height=40)) == 1 + 20 + 2 + 1


def test_text_of_a_host_is_shown_as_it_is_and_on_one_line() -> None:
    ended = event(EventKind.TRIAL, trial=1, state=TrialState.FAILED, cause=HOSTILE)
    found = shown(board_of(1, [ended]), width=240)
    assert len(found) == 3
    assert "[red]memory[/red] [link=file:///etc]x[/link] [2J ]0;owned forged line" in found[1]


def test_the_rest_is_what_is_expected_or_else_the_average_of_what_was_seen() -> None:
    board = board_of(
        4,
        [
            event(EventKind.TRIAL, trial=1, state=TrialState.RUNNING),
            event(EventKind.STEP, trial=1, step=Step.MEASURE, elapsed_s=0.0),
        ],
    )
    assert left_s(board, 20.0) is None
    known = {1: {Step.LOAD: 20.0, Step.MEASURE: 40.0}}
    assert left_s(board, 20.0, lambda number: known.get(number, {})) is None
    assert left_s(board, 20.0, lambda number: known[1]) == 50 + 3 * 60
    board = after(board, event(EventKind.TRIAL, trial=1, state=TrialState.MEASURED), 50.0)
    assert left_s(board, 60.0) == 3 * 40
    two = after(board, event(EventKind.STEP, host="lab-02", step=Step.STOP, elapsed_s=0.0), 60.0)
    assert left_s(two, 60.0) == 60


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0:00"), (59.6, "1:00"), (727, "12:07"), (11_100, "3:05:00"), (-3, "0:00")],
)
def test_durations_are_read_as_on_a_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


def heard(watch: list[Event]) -> list[tuple[str, str]]:
    return [(found.kind.value, found.step.value if found.step else "") for found in watch]


def test_a_track_tells_each_step_with_how_long_the_trial_has_been_in_it() -> None:
    told: list[Event] = []
    track = Track(Timeline("run"), "lab-01", watch=told.append, expected=lambda _: {Step.MEASURE: 60.0})
    track.enter(Step.STOP)
    track.begin_trial(7, "tp=2 dp=1")
    track.enter(Step.MEASURE, "repeat 1")
    track.count(5, 10, 99.5)
    track.repeat(Step.MEASURE, "measure 1: 100 output tok/s", 100.0)
    track.end_trial(TrialState.FAILED, "it \x1b[31mdied\n")
    track.close()
    assert heard(told) == [
        ("step", "stop"),
        ("trial", "stop"),
        ("step", "measure"),
        ("count", "measure"),
        ("repeat", "measure"),
        ("trial", "measure"),
        ("left", ""),
    ]
    assert [found.trial for found in told] == [None, 7, 7, 7, 7, 7, None]
    assert told[2].expected_s == 60
    assert told[2].elapsed_s is not None
    assert (told[3].done, told[3].wanted, told[3].tokens_per_s) == (5, 10, 99.5)
    assert told[5].cause == "it [31mdied"


def test_an_event_carries_in_json_what_it_knows_and_no_secret() -> None:
    found = as_object(event(EventKind.COUNT, trial=3, step=Step.MEASURE, done=0, tokens_per_s=float("nan")))
    assert found == {
        "event": "count",
        "time": "2026-11-30T14:12:33.000Z",
        "host": "lab-01",
        "trial": 3,
        "done": 0,
        "step": "measure",
    }
    secret = as_object(event(EventKind.MESSAGE, text="HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz1234"))
    assert "abcdefgh" not in json.dumps(secret)


def test_with_json_every_line_of_stdout_is_an_event_and_prose_stays_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watch = watching("run-1", [report_rows.trial(1, Config(tp=2))], Options(form="json"), wall_ms)
    watch._open()
    track = Track(Timeline("run"), "lab-01", watch=watch.event)
    track.begin_trial(1, "tp=2 dp=1")
    track.enter(Step.LOAD)
    track.progress(f"loading {HOSTILE}")
    watch.said(f"trial 1 failed: {HOSTILE}", "lab-01")
    out, err = capsys.readouterr()
    assert out.isascii()
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in found] == ["run", "trial", "step", "progress", "message"]
    assert found[0]["run"] == "run-1"
    assert (found[0]["trials"], found[0]["hosts"]) == (1, ["lab-01"])
    assert "loading CUDA out of" in err
    assert "trial 1 failed" in err
    assert "\x1b" not in out + err


def test_a_reader_that_goes_away_does_not_end_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    watch = watching("run-1", [], Options(form="json"), wall_ms)
    monkeypatch.setattr(sys, "stdout", Gone())
    watch.said("one")
    watch.said("two")
    assert capsys.readouterr().err.count("nobody reads the events any more") == 1


def test_what_is_expected_is_not_asked_for_with_each_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def expected(number: int) -> dict[Step, float]:
        asked.append(number)
        return {Step.LOAD: float(len(asked))}

    remembered = Remembered(expected)
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    assert [remembered(1), remembered(1), remembered(2)] == [
        {Step.LOAD: 1.0},
        {Step.LOAD: 1.0},
        {Step.LOAD: 2.0},
    ]
    now_s += REMEMBERED_S + 1
    assert remembered(1) == {Step.LOAD: 3.0}
    assert asked == [1, 2, 1]


def test_where_no_picture_can_be_shown_lines_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def table(form: str = "table", *, lines_only: bool = False) -> bool:
        return watching("r", [], Options(form=form), wall_ms, lines_only=lines_only).table

    assert not table()
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert table()
    assert not table("json")
    assert not table(lines_only=True)
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1"), ("TERM", "")):
        with monkeypatch.context() as inner:
            inner.setenv(name, value)
            assert not table(), name


def a_report(**changes: object) -> Report:
    trials = [
        report_rows.trial(1, Config(tp=1)),
        report_rows.trial(2, Config(tp=2)),
        report_rows.trial(3, Config(tp=4), state=TrialState.FAILED, failure=report_rows.TOO_LITTLE_MEMORY),
        report_rows.trial(4, Config(tp=8), state=TrialState.NOT_RUN),
    ]
    measurements = [
        *report_rows.repeats(1, 1000.0, 1010.0, 1020.0),
        *report_rows.repeats(2, 2000.0, 2010.0, 2020.0),
    ]
    return summarise(report_rows.run(**changes), trials, measurements)


def test_the_end_says_best_failed_and_why_where_the_time_went_and_what_to_type() -> None:
    seconds = {Step.LOAD: 200.0, Step.MEASURE: 600.0, Step.IDLE: 0.5}
    found = lines(close(a_report(), seconds))
    text = "\n".join(found)
    assert "4: 2 measured, 1 failed, 1 not run" in text
    assert "best     tp=2 dp=1: 2,010 output tok/s (random" in text
    assert "failed   tp=4 dp=1: CUDA out of memory" in text
    assert "time     measure 10.0 min (75 %), load 3.3 min (25 %), idle 0.5 s (0 %)" in text
    assert found[-2:] == [
        f"  next     fleetbench report {report_rows.run().id}",
        f"  next     fleetbench recommend {report_rows.run().id}",  # two configurations are valid
    ]
    assert len(found) <= 12


def test_the_end_of_an_interrupted_run_says_first_how_to_resume_it() -> None:
    run = close(a_report(state=RunState.INTERRUPTED, note="Ctrl-C"), {})
    assert [step.split()[0] for step in run.next_steps] == ["invoke", "fleetbench"]
    assert "(interrupted: Ctrl-C)" in lines(run)[0]
    summary = json.loads(json.dumps(as_summary(run)))
    assert summary["state"] == "interrupted"
    assert summary["trials"] == {"measured": 2, "failed": 1, "not run": 1}
    assert summary["best"][0]["output_tokens_per_s"] == 2010
    assert summary["problems"] == [{"cause": "CUDA out of memory", "configurations": ["tp=4 dp=1"]}]


def test_a_hundred_failures_still_fit_a_screen() -> None:
    trials = [
        report_rows.trial(
            number,
            Config(tp=1, max_model_len=number),
            state=TrialState.FAILED,
            failure=Failure(kind="oom", cause=f"cause {number % 9} {HOSTILE}"),
        )
        for number in range(1, 101)
    ]
    found = lines(close(summarise(report_rows.run(), trials, []), dict.fromkeys(Step, 60.0)))
    assert len(found) <= 20
    assert "3 more causes" in "\n".join(found)
    assert all(line.isprintable() for line in found)


PROGRAM = """
import sys, time
from fleetbench import console
from fleetbench.errors import FleetbenchError
from rich.text import Text
shown = [0]
def picture(width, height):
    shown[0] += 1
    return Text(f"picture {width}x{height}")
try:
    with console.live(picture):
        console.progress("a line [bold]above[/bold]", host="lab-01")
        if "ask" in sys.argv:
            console.write("yes" if console.confirm("really?") else "no")
        console.progress("ready")
        time.sleep(60 if "wait" in sys.argv else 0.6)
except KeyboardInterrupt:
    console.error(FleetbenchError("interrupted"))
    sys.exit(130)
console.write(f"the end after {shown[0]} pictures")
"""


def program(*words: str) -> OnTerminal:
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    argv = [sys.executable, "-c", PROGRAM, *words]
    return on_terminal(argv, env | {"PYTHONPATH": str(ROOT)}, width=60, height=10)


def test_lines_stay_above_the_picture_which_is_gone_at_the_end() -> None:
    running = program()
    assert running.read_until(lambda: "picture 60x10" in running.screen.text)
    assert running.read_until(lambda: "ready" in running.screen.text)
    order = running.screen.text.split("\n")
    assert order[-1] == "picture 60x10"
    assert "lab-01: a line [bold]above[/bold]" in order[0]
    assert running.end() == 0
    assert "picture " not in running.screen.text
    assert "the end after" in running.screen.text
    count = int(running.screen.text.rpartition("after ")[2].split()[0])
    assert count <= 12, "a picture is drawn again a few times a second, not at each change"


def test_ctrl_c_leaves_a_terminal_that_works() -> None:
    running = program("wait")
    assert running.read_until(lambda: "ready" in running.screen.text)
    running.interrupt()
    assert running.end() == 130
    assert "error: interrupted" in running.screen.text
    assert "picture " not in running.screen.text
    assert running.screen.cursor_shown
    assert "\x1b[?25l" not in running.raw, "also a killed process must not leave the cursor hidden"
    assert "\x1b[?1049h" not in running.raw, "what was on the screen before stays readable"


def test_a_question_can_be_answered_while_a_picture_is_shown() -> None:
    running = program("ask")
    assert running.read_until(lambda: "really? [y/N]" in running.screen.text)
    assert "picture " not in running.screen.text
    running.type("y\n")
    assert running.read_until(lambda: "picture 60x10" in running.screen.text), "it is shown again"
    assert running.end() == 0
    assert "yes" in running.screen.text
    assert "picture " not in running.screen.text


def test_a_question_that_outlives_the_picture_does_not_bring_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with contextlib.ExitStack() as question:
        with console.live(lambda width, height: "picture"):
            question.enter_context(console.asking("really?"))
        drawn = screen.getvalue()
    console.progress("after")
    assert screen.getvalue().removeprefix(drawn).count("picture") == 0
    assert "after" in screen.getvalue()
