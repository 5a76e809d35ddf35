"""Where the time of a sweep went: periods of each host, one step at a time, and their form as a file.

Times are whole milliseconds since 1970 (UTC): the periods of a host follow each other without a gap, so their
lengths add up to its wall time exactly. `runs/ID/timeline.json` is described in docs/measurement.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleetbench.errors import Unreadable, one_line
from fleetbench.model import Step

FILE_NAME = "timeline.json"
VERSION = 1
AWAY = "controller away"
NOTHING_TO_DO = "nothing to do"
SIDE_BY_SIDE = "trials side by side"
# A text of a file that somebody may have edited or cut; a sweep of a week has some ten thousand periods.
MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One step of one host, from `began_ms` until `ended_ms`.

    `trial` is None for what belongs to no trial. `lane` tells apart what runs side by side on one host (the
    GPU set, with `--pack`); empty where one thing is done at a time.
    """

    host: str
    step: Step
    began_ms: int
    ended_ms: int
    lane: str = ""
    trial: int | None = None
    config: str = ""
    note: str = ""

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.ended_ms - self.began_ms) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    """The periods of a run, those of a host in their order, and the clocks of the controller that wrote them.

    `boot` and `steady_ms` (a clock that no one can set, of that boot) tell a later controller on the same
    machine how long nobody was there, also when the wall clock was set in between.
    """

    run_id: str
    periods: tuple[Period, ...] = ()
    written_ms: int = 0
    boot: str = ""
    steady_ms: int = 0

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in the order of their first period."""
        return tuple(dict.fromkeys(period.host for period in self.periods))


def seconds_by_step(periods: Iterable[Period]) -> dict[Step, float]:
    """Return the time spent in each step that occurs, in the order of `Step`."""
    total = dict.fromkeys(Step, 0)
    for period in periods:
        total[period.step] += period.ended_ms - period.began_ms
    return {step: found / 1000 for step, found in total.items() if found}


def worked(periods: Iterable[Period]) -> list[Period]:
    """Return the periods without those in which a host waits for its own lanes, whose periods they are."""
    return [period for period in periods if period.note != SIDE_BY_SIDE or period.step is not Step.IDLE]


def wall_s(periods: Sequence[Period]) -> float:
    """Return the time from the first beginning to the last end of a host's periods."""
    if not periods:
        return 0.0
    return (max(p.ended_ms for p in periods) - min(p.began_ms for p in periods)) / 1000


def file_text(timeline: RunTimeline) -> str:
    """Return a timeline as the text of its file: JSON with one period a line."""
    return document_text(timeline, [period_text(period) for period in timeline.periods])


def document_text(timeline: RunTimeline, lines: Sequence[str]) -> str:
    """Given a timeline and the texts of its periods, return the text of its file."""
    head = {
        "version": VERSION,
        "run": timeline.run_id,
        "written": as_iso(timeline.written_ms),
        "clock": {"boot": timeline.boot, "steady_ms": timeline.steady_ms},
    }
    inner = json.dumps(head, indent=1)[:-2]
    return f'{inner},\n "periods": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def period_text(period: Period) -> str:
    """Return a period as one line of JSON."""
    return json.dumps(
        {
            "host": period.host,
            "lane": period.lane,
            "trial": period.trial,
            "config": period.config,
            "step": period.step.value,
            "began": as_iso(period.began_ms),
            "seconds": period.seconds,
            "note": period.note,
        }
    )


def from_text(text: str, source: str = FILE_NAME) -> RunTimeline:
    """Given the text of a timeline's file, return it; Unreadable when it is none."""
    try:
        document = json.loads(text)
        version = document["version"]
        if version != VERSION:
            raise Unreadable(
                f"{source} has version {one_line(str(version), 20)}, known is {VERSION}",
                next_step="use the fleetbench that wrote it, or a newer one",
            )
        clock = document.get("clock") or {}
        return RunTimeline(
            run_id=str(document["run"]),
            periods=tuple(_period(found) for found in document["periods"]),
            written_ms=_from_iso(document["written"]),
            boot=str(clock.get("boot") or ""),
            steady_ms=int(clock.get("steady_ms") or 0),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as exc:
        raise Unreadable(
            f"{source} is no timeline",
            cause=f"{type(exc).__name__}: {exc}",
            next_step="move it away: everything else of the run can be read without it",
        ) from exc


def read_timeline(directory: Path) -> RunTimeline | None:
    """Return the timeline in a run's directory; None when it has none. Unreadable when it is broken."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unreadable(f"cannot read {path}", cause=exc.strerror or str(exc)) from exc
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{path} is larger than {MAX_BYTES:,} bytes")
    return from_text(content.decode("utf-8", "replace"), str(path))


def as_iso(milliseconds: int) -> str:
    """Return a time as `2026-11-30T19:31:35.123Z`."""
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{milliseconds % 1000:03d}Z"


def _from_iso(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {one_line(text, 40)!r}")
    return round(moment.timestamp() * 1000)


def _period(found: Mapping[str, Any]) -> Period:
    began = _from_iso(found["began"])
    length = round(float(found["seconds"]) * 1000)
    if length < 0:
        raise ValueError("a period of negative length")
    trial = found["trial"]
    return Period(
        host=one_line(str(found["host"]), 200),
        lane=one_line(str(found.get("lane") or ""), 80),
        trial=None if trial is None else int(trial),
        config=one_line(str(found.get("config") or ""), 200),
        step=Step(found["step"]),
        began_ms=began,
        ended_ms=began + length,
        note=one_line(str(found.get("note") or ""), 200),
    )
