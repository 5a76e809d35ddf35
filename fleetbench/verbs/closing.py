"""The end of a sweep on one screen: the best, what failed and why, where the time went, what to type next."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.model import Step, TrialState
from fleetbench.report.files import read_report
from fleetbench.report.finding import not_distinguishable
from fleetbench.report.groups import ranked_groups
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.summary import Report, served
from fleetbench.report.timeline import shares
from fleetbench.results.rows import UNFINISHED
from fleetbench.results.store import Store
from fleetbench.results.timeline import seconds_by_step, worked

MOST_CAUSES = 6
MOST_BEST = 6
WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest valid configuration of a workload; `near` others are not known to be slower."""

    workload: str
    name: str
    tokens_per_s: float
    near: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What there is to say when a run ends, or is interrupted.

    `best` holds the fastest of each workload that has a valid row.
    `failed` maps a cause to the names of the trials that it ended; `skipped` counts trials not tried.
    """

    run: str
    kind: str
    state: str
    note: str
    states: Mapping[str, int]
    best: tuple[Best, ...]
    failed: Mapping[str, tuple[str, ...]]
    skipped: int
    seconds: Mapping[Step, float]
    next_steps: tuple[str, ...]


def closing(store: Store, run_id: str) -> Closing:
    """Return what there is to say about a run as the store and its timeline have it."""
    report = read_report(store, run_id, requests=False)
    periods = report.timeline.periods if report.timeline is not None else ()
    return close(report, seconds_by_step(worked(periods)))


def close(report: Report, seconds: Mapping[Step, float]) -> Closing:
    """Given a run's report and the seconds of its steps, return what there is to say."""
    run = report.run
    failed: dict[str, tuple[str, ...]] = {}
    names = {row.trial.number: row.name for row in report.rows}
    for trial in report.trials:
        if trial.state is TrialState.FAILED:
            cause = one_line(trial.failure.cause, 160) if trial.failure is not None else "unknown"
            failed[cause] = (*failed.get(cause, ()), names.get(trial.number, f"#{trial.number}"))
    states = Counter(trial.state for trial in report.trials)
    unfinished = run.state in UNFINISHED
    return Closing(
        run=run.id,
        kind=run.kind.value,
        state=run.state.value,
        note=one_line(run.note, 200),
        states={state.value: states[state] for state in TrialState if states[state]},
        best=tuple(_best(report)),
        failed=failed,
        skipped=states[TrialState.IMPLIED] + states[TrialState.NOT_RUN],
        seconds=dict(seconds),
        next_steps=(
            *((f"invoke {run.kind.value} --resume {run.id}",) if unfinished else ()),
            f"fleetbench report {run.id}",
            *((f"fleetbench recommend {run.id}",) if _is_choice(report) and not unfinished else ()),
        ),
    )


def lines(found: Closing) -> list[str]:
    """Return it for people, short enough for a screen."""
    total = sum(found.states.values())
    counts = ", ".join(f"{count} {state}" for state, count in found.states.items())
    text = [f"run {found.run} ({found.state}{': ' + found.note if found.note else ''})"]
    text.append(f"  trials   {total}: {counts}")
    for best in found.best[:MOST_BEST]:
        near = f", {best.near} more not distinguishable" if best.near else ""
        text.append(f"  best     {best.name}: {best.tokens_per_s:,.0f} output tok/s{near} ({best.workload})")
    if len(found.best) > MOST_BEST:
        text.append(f"  best     of {len(found.best) - MOST_BEST} more workloads: see the report")
    for cause, names in list(found.failed.items())[:MOST_CAUSES]:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        text.append(f"  failed   {', '.join(names[:3])}{more}: {cause}")
    if len(found.failed) > MOST_CAUSES:
        text.append(
            f"  failed   {len(found.failed) - MOST_CAUSES} more causes: fleetbench runs show {found.run}"
        )
    if found.seconds:
        parts = textwrap.wrap(shares(found.seconds), WIDTH - 11)
        text += [f"  {'time' if part == parts[0] else '':<9}{part}" for part in parts]
    return [*text, *(f"  next     {step}" for step in found.next_steps)]


def as_summary(found: Closing) -> dict[str, object]:
    """Return it as the last event of `--format json`."""
    return {
        "run": found.run,
        "state": found.state,
        "note": found.note,
        "trials": dict(found.states),
        "best": [
            {
                "workload": best.workload,
                "configuration": best.name,
                "output_tokens_per_s": round(best.tokens_per_s, 3),
                "not_distinguishable": best.near,
            }
            for best in found.best
        ],
        "problems": [
            {"cause": cause, "configurations": list(names)} for cause, names in found.failed.items()
        ],
        "seconds": {step.value: round(value, 3) for step, value in found.seconds.items()},
        "next": list(found.next_steps),
    }


def _is_choice(report: Report) -> bool:
    return len({served(row.trial) for row in report.rows if row.valid}) > 1


def _best(report: Report) -> Iterator[Best]:
    for workload in report.workloads:
        rows = report.of_workload(workload)
        order = ranked_groups(report, rows, OUTPUT)
        if order:
            yield Best(
                workload=workload.label,
                name=one_line(order[0].name),
                tokens_per_s=order[0].value(OUTPUT) or 0.0,
                near=len(not_distinguishable(report, rows, OUTPUT)),
            )
