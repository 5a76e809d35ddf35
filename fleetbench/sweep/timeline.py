"""The timeline of a run while it is written: every host's periods, and the file that is always whole.

The length of a period comes from a clock that nobody can set, its beginning from the wall clock at the start
of the controller plus that length: a wall clock that is set in between tears nothing. The file is written at
each change and every few seconds, so that a killed controller loses at most that much to "controller away".
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetbench.errors import Unreadable
from fleetbench.model import Step
from fleetbench.results.timeline import (
    AWAY,
    FILE_NAME,
    NOTHING_TO_DO,
    Period,
    RunTimeline,
    document_text,
    period_text,
    read_timeline,
)
from fleetbench.whole_file import write_whole

WRITE_EVERY_S = 5.0


def wall_ms() -> int:
    """Return the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return a clock that only goes forward, since the machine's boot; a suspended machine's goes on."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def boot_id() -> str:
    """Return the id of this machine's boot; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The controller's clocks."""

    wall_ms: Callable[[], int] = wall_ms
    steady_ms: Callable[[], int] = steady_ms
    boot: str = field(default_factory=boot_id)


class Timeline:
    """The timeline of one run; hosts write to it from their own threads.

    `directory` is the run's; None: nothing is written. A file of an earlier controller is continued. `said`
    is told once when the file cannot be written: that must not keep a host from getting its production back.
    """

    def __init__(
        self,
        run_id: str = "",
        directory: Path | None = None,
        *,
        clock: Clock | None = None,
        said: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.run_id = run_id
        self._path = directory / FILE_NAME if directory is not None else None
        self._clock = clock or Clock()
        self._said = said
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._told = False
        self._pulse: threading.Thread | None = None
        before = self._earlier(directory)
        self._closed = list(before.periods)
        self._lines = [period_text(period) for period in self._closed]
        self._open: dict[tuple[str, str], Period] = {}
        self._earlier_end_ms = max((p.ended_ms for p in self._closed), default=0)
        self._earlier_end_ms = max(self._earlier_end_ms, before.written_ms)
        self._steady_0 = self._clock.steady_ms()
        self._wall_0 = self._beginning(before)

    def __enter__(self) -> Timeline:
        """Write the file every few seconds from now on."""
        if self._path is not None:
            self._pulse = threading.Thread(target=self._keep_writing, name="timeline", daemon=True)
            self._pulse.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End whatever is still open, and write for the last time."""
        self._stop.set()
        if self._pulse is not None:
            self._pulse.join()
        for host, lane in list(self._open):
            self.close(host, lane)

    def now_ms(self) -> int:
        """Return the present in the time of this timeline."""
        return self._at(self._clock.steady_ms())

    def enter(
        self,
        host: str,
        step: Step,
        *,
        lane: str = "",
        trial: int | None = None,
        config: str = "",
        note: str = "",
        ago_s: float = 0.0,
    ) -> None:
        """End what a host (or a lane of it) does and begin a step, `ago_s` in the past but after the last."""
        with self._lock:
            now = self.now_ms()
            began = now - max(0, round(ago_s * 1000))
            present = self._open.get((host, lane))
            if present is None:
                began = self._after_absence(host, lane, now)
            else:
                began = max(present.began_ms, began)
                self._end(present, began)
            self._open[host, lane] = Period(
                host=host,
                lane=lane,
                step=step,
                trial=trial,
                config=config,
                note=note,
                began_ms=began,
                ended_ms=now,
            )
        self.write()

    def close(self, host: str, lane: str = "") -> None:
        """End a host's part."""
        with self._lock:
            present = self._open.pop((host, lane), None)
            if present is not None:
                self._end(present, self.now_ms())
        self.write()

    def present(self, host: str, lane: str = "") -> Period | None:
        """Return what a host does now, with now as its end; None before its part and after it."""
        with self._lock:
            found = self._open.get((host, lane))
            return replace(found, ended_ms=self.now_ms()) if found is not None else None

    def spent_s(self, trial: int, step: Step) -> float:
        """Return how long a trial has been in a step so far."""
        now = self.now_ms()
        with self._lock:
            ended = sum(p.ended_ms - p.began_ms for p in self._closed if (p.trial, p.step) == (trial, step))
            going = sum(now - p.began_ms for p in self._open.values() if (p.trial, p.step) == (trial, step))
        return (ended + going) / 1000

    def so_far(self) -> RunTimeline:
        """Return the timeline up to now."""
        with self._lock:
            steady = self._clock.steady_ms()
            return self._document((*self._closed, *self._up_to(steady)), steady)

    def write(self) -> None:
        """Write the file, whole or not at all; a problem is told once, and the next call tries again."""
        if self._path is None:
            return
        with self._writing:
            with self._lock:
                steady = self._clock.steady_ms()
                going = [period_text(period) for period in self._up_to(steady)]
                text = document_text(self._document((), steady), [*self._lines, *going])
            try:
                write_whole(self._path, text.encode())
            except OSError as exc:
                if not self._told:
                    self._said(f"cannot write {self._path}: {exc.strerror or exc}")
                self._told = True
            else:
                self._told = False

    def _keep_writing(self) -> None:
        while not self._stop.wait(WRITE_EVERY_S):
            self.write()

    def _end(self, present: Period, at_ms: int) -> None:
        if at_ms > present.began_ms:
            ended = replace(present, ended_ms=at_ms)
            self._closed.append(ended)
            self._lines.append(period_text(ended))

    def _after_absence(self, host: str, lane: str, now_ms: int) -> int:
        """Fill the time since a host's last period as idle, and return when the next one begins."""
        mine = [p.ended_ms for p in self._closed if (p.host, p.lane) == (host, lane)]
        if not mine:
            return now_ms
        began = max(mine)
        # The earlier controller was last heard of, then nobody was there until this one came.
        for note, until in (
            (NOTHING_TO_DO, self._earlier_end_ms),
            (AWAY, self._wall_0),
            (NOTHING_TO_DO, now_ms),
        ):
            idle = Period(host=host, lane=lane, step=Step.IDLE, note=note, began_ms=began, ended_ms=until)
            self._end(idle, until)
            began = max(began, until)
        return began

    def _at(self, steady_ms: int) -> int:
        return self._wall_0 + steady_ms - self._steady_0

    def _up_to(self, steady_ms: int) -> list[Period]:
        now = self._at(steady_ms)
        return [replace(p, ended_ms=max(now, p.began_ms)) for p in self._open.values()]

    def _document(self, periods: tuple[Period, ...], steady_ms: int) -> RunTimeline:
        # One reading of the clock for all of a document: a controller that continues it counts from the end
        # of the periods, from `written_ms` and from `steady_ms`, which have to be the same moment.
        return RunTimeline(
            run_id=self.run_id,
            periods=periods,
            written_ms=self._at(steady_ms),
            boot=self._clock.boot,
            steady_ms=steady_ms,
        )

    def _earlier(self, directory: Path | None) -> RunTimeline:
        """Return what an earlier controller wrote; a file that cannot be read is put aside, not lost."""
        nothing = RunTimeline(run_id=self.run_id)
        if directory is None:
            return nothing
        try:
            return read_timeline(directory) or nothing
        except Unreadable as exc:
            aside = directory / f"broken-{os.urandom(2).hex()}-{FILE_NAME}"
            self._said(f"{exc.what}; it is kept as {aside.name}, a new one begins")
            with contextlib.suppress(OSError):
                (directory / FILE_NAME).replace(aside)
            return nothing

    def _beginning(self, before: RunTimeline) -> int:
        """Return the present in the time of this timeline, which never goes back behind what is written."""
        steady = self._steady_0 - before.steady_ms
        if before.written_ms and before.boot and before.boot == self._clock.boot and steady >= 0:
            return max(before.written_ms + steady, self._earlier_end_ms)
        return max(self._clock.wall_ms(), self._earlier_end_ms)
