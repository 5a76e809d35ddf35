"""What earlier trials took, from the store: what durations are learned from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from fleetbench.errors import Unreadable
from fleetbench.model import Step, TrialState
from fleetbench.plan.durations import Seen, SeenLoad
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunKind, RunRow, TrialRow, Verdict
from fleetbench.results.store import Store
from fleetbench.results.timeline import read_timeline

# Of a store of years only the newest runs are read.
_MOST_RUNS = 40
# A client that took so much longer than its own duration was waited for by a controller that was away.
_MOST_BESIDE_S = 180
_PROOF = re.compile(r"completion after (\d{1,7}) s\b")


def seen_before(store: Store, model: str, kinds: Collection[str], *, but: str = "") -> tuple[Seen, ...]:
    """Return the measured trials of earlier sweeps of a model, or of others on the same kinds of host.

    `but` is the run that asks: what it has measured itself is read by `seen_in`.
    """
    runs = [run for run in store.runs() if run.kind is RunKind.SWEEP and run.id != but]
    fitting = [run for run in runs if set(kinds_of(run).values()) & set(kinds)]
    fitting.sort(key=lambda run: run.model != model)  # the same model first, the newest first in each part
    return tuple(found for run in fitting[:_MOST_RUNS] for found in seen_in(store, run))


def seen_in(store: Store, run: RunRow) -> Iterator[Seen]:
    """Yield the measured trials of one run."""
    kinds, weights = kinds_of(run), run.arguments.get("weights_gib")
    rows = store.measurements(run.id)
    steps = _steps(store, run)
    for trial in store.trials(run.id):
        if trial.state is TrialState.MEASURED:
            yield Seen(
                run=run.id,
                model=run.model,
                kind=kinds.get(trial.host, ""),
                config=trial.config,
                weights_gib=float(weights) if isinstance(weights, int | float) else None,
                ready_s=trial.ready_s,
                loads=tuple(_loads(trial, [row for row in rows if row.trial == trial.number])),
                steps_s=steps.get(trial.number, {}),
            )


def kinds_of(run: RunRow) -> Mapping[str, str]:
    """Return of each host of a run what made it like another; empty for runs of older versions."""
    found = run.arguments.get("kinds")
    return {name: str(kind) for name, kind in found.items()} if isinstance(found, dict) else {}


def restore_s(store: Store, host: str, unit: str) -> float | None:
    """Return how long a unit last took to serve again after a loan; None when it never was lent."""
    proofs = [
        match
        for run in store.runs()[:_MOST_RUNS]
        for loan in store.loans(run.id)
        if loan.host == host and loan.unit == unit and (match := _PROOF.search(loan.proof))
    ]
    return float(proofs[0][1]) if proofs else None


def _steps(store: Store, run: RunRow) -> Mapping[int, Mapping[Step, float]]:
    """Return what the timeline of a run says of the steps that are not bench clients, by trial."""
    try:
        timeline = read_timeline(store.directory(run.id))
    except Unreadable:
        return {}  # durations are a comfort: a broken file costs their precision, no more
    found: dict[int, dict[Step, float]] = {}
    wanted = (Step.STOP, Step.DRAIN, Step.LOAD, Step.COMPILE, Step.FETCH)
    for period in timeline.periods if timeline else ():
        if period.trial is not None and period.step in wanted:
            steps = found.setdefault(period.trial, {})
            steps[period.step] = steps.get(period.step, 0.0) + period.seconds
    return found


def _loads(trial: TrialRow, rows: Sequence[MeasurementRow]) -> Iterator[SeenLoad]:
    for index, workload in enumerate(trial.workloads):
        mine = [row for row in rows if row.workload_index == index]
        warm = [s for row in mine if row.kind is MeasurementKind.WARMUP for s in _seconds(row)]
        repeats = [s for row in mine if row.kind is MeasurementKind.MEASURE for s in _seconds(row)]
        yield SeenLoad(workload=workload, warm_up_s=warm[0] if warm else None, repeat_s=tuple(repeats))


def _seconds(row: MeasurementRow) -> Iterator[float]:
    """Yield what an execution took from its start until its result was kept, when that is known."""
    duration = row.result.duration if row.result else None
    if not row.finished or row.attempt > 1 or row.verdict is Verdict.INVALID or duration is None:
        return
    took = (datetime.fromisoformat(row.ended_at) - datetime.fromisoformat(row.started_at)).total_seconds()
    if duration - 1 <= took <= duration + _MOST_BESIDE_S:  # times are kept in whole seconds
        yield max(took, duration)
