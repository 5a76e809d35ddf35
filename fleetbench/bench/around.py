"""What stands around a measurement in the store: its trial, the others of the run, earlier executions."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.results.rows import MeasurementKind, MeasurementRow, TrialRow
from fleetbench.results.store import Store

_ORDER = (MeasurementKind.WARMUP, MeasurementKind.CONTROL, MeasurementKind.MEASURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """See `verdict.judge` for what each is."""

    trial: TrialRow | None = None
    siblings: tuple[TrialRow, ...] = ()
    earlier: tuple[MeasurementRow, ...] = ()


def around(store: Store, row: MeasurementRow) -> Around:
    """Return what is around a measurement; the same later on, whatever was measured after it."""
    trials = store.trials(row.run_id)
    own = next((trial for trial in trials if trial.number == row.trial), None)
    rows = store.measurements(row.run_id, row.trial)
    earlier = (
        other
        for other in rows
        if other.workload_index == row.workload_index and other.finished and _place(other) < _place(row)
    )
    return Around(
        trial=own,
        siblings=tuple(trial for trial in trials if trial.number != row.trial),
        earlier=tuple(sorted(earlier, key=_place)),
    )


def _place(row: MeasurementRow) -> tuple[int, int]:
    return _ORDER.index(row.kind), row.repeat
