"""Who watches a sweep: a live table on a terminal, plain lines elsewhere, JSON lines for scripts."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleetbench import console
from fleetbench.errors import FleetbenchError
from fleetbench.model import Step
from fleetbench.results.rows import TrialRow
from fleetbench.results.store import Store
from fleetbench.results.timeline import as_iso
from fleetbench.sweep.board import OVER, Board, TrialView, after, empty_board
from fleetbench.sweep.events import Event, EventKind, Expected, as_object, nothing_expected
from fleetbench.verbs.closing import as_summary, closing, lines
from fleetbench.verbs.common import Options
from fleetbench.verbs.live_table import picture

REMEMBERED_S = 10.0


def plain(event: Event) -> None:
    """Write what passes as a line; what is lasting is written by the engine itself."""
    if event.kind is EventKind.PROGRESS:
        console.progress(event.text, host=event.host)


@dataclass(slots=True)
class _Lines:
    """Events as lines of JSON on stdout, until nobody reads them any more."""

    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, value: object) -> None:
        with self.lock:
            if self.closed:
                return
            try:
                console.print_json_line(value)
            except OSError as exc:  # `| head`: no reason to leave a trial half measured
                self.closed = True
                console.progress(
                    f"nobody reads the events any more ({exc.strerror or exc}); the work goes on"
                )


@dataclass(slots=True)
class Remembered:
    """What is expected of each trial, asked again only after a while: a picture asks four times a second."""

    ask: Expected
    known: dict[int, tuple[float, Mapping[Step, float]]] = field(default_factory=dict)

    def __call__(self, trial: int) -> Mapping[Step, float]:
        """Return the expected seconds of a trial's steps, as they were at most `REMEMBERED_S` ago."""
        at_s, expected = self.known.get(trial, (-math.inf, {}))
        if time.monotonic() - at_s > REMEMBERED_S:
            expected = self.ask(trial)
            self.known[trial] = (time.monotonic(), expected)
        return expected


@dataclass(slots=True, kw_only=True)
class Watching:
    """Where the events and lasting lines of a run go, in one of the three forms.

    `now_ms` is the clock of the run's timeline, which all events have their time from.
    """

    run_id: str
    board: Board
    expected: Expected
    now_ms: Callable[[], int]
    lines: _Lines | None = None
    table: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def event(self, event: Event) -> None:
        """Take an event; called from the threads of the hosts."""
        with self.lock:
            self.board = after(self.board, event, time.monotonic())
        if self.lines is not None:
            self.lines.write(as_object(event))
        if not self.table:
            plain(event)

    def said(self, text: str, host: str = "") -> None:
        """Take a line that stays: it is written at once, and is an event for scripts."""
        console.progress(text, host=host)
        if self.lines is not None:
            self.lines.write(
                as_object(Event(kind=EventKind.MESSAGE, time=as_iso(self.now_ms()), host=host, text=text))
            )

    @contextlib.contextmanager
    def until_closed(self, store: Store) -> Iterator[None]:
        """Watch while the body works on the run, and sum up at its end, however it ends."""
        self._open()
        try:
            with self._shown():
                yield
        except BaseException:
            with contextlib.suppress(FleetbenchError):  # what ended the work is what has to be said
                self._close(store)
            raise
        self._close(store)

    def _shown(self) -> contextlib.AbstractContextManager[None]:
        if not self.table:
            return contextlib.nullcontext()
        return console.live(
            lambda width, height: picture(self.board, time.monotonic(), width, height, self.expected)
        )

    def _open(self) -> None:
        if self.lines is None:
            return
        views = self.board.trials.values()
        hosts = sorted({view.host for view in views})
        left = sum(view.state not in OVER for view in views)
        text = f"{left} of {len(views)} trials to do on {', '.join(hosts)}"
        begun = as_object(Event(kind=EventKind.RUN, time=as_iso(self.now_ms()), text=text))
        self.lines.write(begun | {"run": self.run_id, "trials": len(views), "hosts": hosts})

    def _close(self, store: Store) -> None:
        found = closing(store, self.run_id)
        if self.lines is not None:
            self.lines.write(
                {"event": EventKind.SUMMARY.value, "time": as_iso(self.now_ms()), **as_summary(found)}
            )
        else:
            console.write("\n".join(lines(found)))


def watching(
    run_id: str,
    rows: Sequence[TrialRow],
    options: Options,
    now_ms: Callable[[], int],
    *,
    lines_only: bool = False,
    expected: Expected = nothing_expected,
) -> Watching:
    """Return who watches a run: with `--format json` events go to stdout, `lines_only` is `--plain`."""
    views = [TrialView(number=r.number, host=r.host, config=r.config.label, state=r.state) for r in rows]
    return Watching(
        run_id=run_id,
        board=empty_board(views, time.monotonic()),
        expected=Remembered(expected),
        now_ms=now_ms,
        lines=_Lines() if options.form == "json" else None,
        table=options.form == "table" and not lines_only and console.is_live(),
    )
