"""Where the time of a run went, for people: a sentence, a table, and what a chart of it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.model import Step
from fleetbench.report.columns import Table
from fleetbench.results.timeline import Period, RunTimeline, seconds_by_step, wall_s, worked

# What a host is said to be doing in each step.
DOING: Mapping[Step, str] = {
    Step.STOP: "stopping",
    Step.DRAIN: "draining",
    Step.LOAD: "loading",
    Step.COMPILE: "compiling",
    Step.WARM_UP: "warming up",
    Step.MEASURE: "measuring",
    Step.FETCH: "fetching",
    Step.RESTORE: "giving back",
    Step.IDLE: "idle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpan:
    """From the first to the last period of a trial on one row of the chart, in milliseconds since 1970."""

    row: str
    trial: int
    config: str
    began_ms: int
    ended_ms: int


def row_name(period: Period) -> str:
    """Return the row of a chart that a period belongs to: its host, with the lane where there is one."""
    return f"{period.host} [{period.lane}]" if period.lane else period.host


def rows(timeline: RunTimeline) -> dict[str, list[Period]]:
    """Return the periods of each row, rows by name."""
    found: dict[str, list[Period]] = {}
    for period in timeline.periods:
        found.setdefault(row_name(period), []).append(period)
    return dict(sorted(found.items()))


def time_finding(timeline: RunTimeline) -> str:
    """Return the finding: `72 % of 14.2 min spent measuring; loading 20 %`."""
    periods = worked(timeline.periods)
    seconds = seconds_by_step(periods)
    whole = sum(seconds.values())
    if not whole:
        return "no time was noted"
    measuring = seconds.pop(Step.MEASURE, 0.0)
    hosts, lanes = len(timeline.hosts), len({row_name(period) for period in periods})
    over = f" on {hosts} hosts together" if hosts > 1 else f" on {lanes} lanes together" if lanes > 1 else ""
    wall = f"{spoken(whole)}{over}"
    text = f"{_percent(measuring / whole)} of {wall} spent measuring"
    if seconds:
        step, most = max(seconds.items(), key=lambda item: item[1])
        text += f"; {DOING[step]} {_percent(most / whole)}"
    return text


def time_table(timeline: RunTimeline) -> Table:
    """Return seconds and share of each step, over all hosts; the last row is the whole."""
    seconds = seconds_by_step(worked(timeline.periods))
    whole = sum(seconds.values())
    cells = [
        (step.value, round(value, 1), round(100 * value / whole, 1) if whole else None)
        for step, value in seconds.items()
    ]
    return Table(("step", "seconds", "share %"), (*cells, ("all", round(whole, 1), 100.0 if whole else None)))


def seconds_of_hosts(timeline: RunTimeline) -> dict[str, dict[str, float]]:
    """Return, for programs, wall time and seconds of each step by row (host, or host and lane)."""
    return {
        name: {"wall": round(wall_s(periods), 3)}
        | {step.value: round(value, 3) for step, value in seconds_by_step(periods).items()}
        for name, periods in rows(timeline).items()
    }


def trial_spans(timeline: RunTimeline) -> list[TrialSpan]:
    """Return where each trial is on its row; one that was continued after a break has several spans."""
    found: list[TrialSpan] = []
    for name, periods in rows(timeline).items():
        present: TrialSpan | None = None
        for period in periods:
            if period.trial is None:
                present = None
                continue
            if present is not None and present.trial == period.trial:
                found.pop()
                began = present.began_ms
            else:
                began = period.began_ms
            present = TrialSpan(
                row=name,
                trial=period.trial,
                config=one_line(period.config, 100),
                began_ms=began,
                ended_ms=period.ended_ms,
            )
            found.append(present)
    return found


def merged(periods: Sequence[Period]) -> list[Period]:
    """Return the periods of a row with neighbours of the same step and trial as one."""
    found: list[Period] = []
    for period in periods:
        last = found[-1] if found else None
        if last is not None and (last.step, last.trial) == (period.step, period.trial):
            found[-1] = Period(
                host=last.host,
                lane=last.lane,
                step=last.step,
                trial=last.trial,
                config=last.config,
                began_ms=last.began_ms,
                ended_ms=period.ended_ms,
            )
        else:
            found.append(period)
    return found


def shares(seconds: Mapping[Step, float]) -> str:
    """Return the time of each step with its share, the longest first: `measure 10.2 min (72 %), …`."""
    whole = sum(seconds.values()) or 1.0
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    return ", ".join(f"{step.value} {spoken(value)} ({_percent(value / whole)})" for step, value in longest)


def spoken(seconds: float) -> str:
    """Return a duration in the unit that suits it: `42 s`, `14.2 min`, `3.1 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
