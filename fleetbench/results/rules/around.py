"""What stands around a measurement: its trial, the other trials of the run, what was measured before it.

The same later on, whatever was measured after it, so that it is judged once more as it was then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleetbench.results.rows import MeasurementKind, MeasurementRow, TrialRow

_ORDER = (MeasurementKind.WARMUP, MeasurementKind.CONTROL, MeasurementKind.MEASURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """See `verdict.judge` for what each is."""

    trial: TrialRow | None = None
    siblings: tuple[TrialRow, ...] = ()
    earlier: tuple[MeasurementRow, ...] = ()


def around(row: MeasurementRow, trials: Iterable[TrialRow], rows: Iterable[MeasurementRow]) -> Around:
    """Given a measurement and the rows of its run, return what is around it."""
    known = {trial.number: trial for trial in trials if trial.run_id == row.run_id}
    own = known.get(row.trial)
    earlier = (
        other for other in rows if other.finished and _same(other, row) and _place(other) < _place(row)
    )
    return Around(
        trial=own,
        siblings=tuple(trial for trial in known.values() if trial is not own),
        earlier=tuple(sorted(earlier, key=_place)),
    )


def _same(other: MeasurementRow, row: MeasurementRow) -> bool:
    mine, its = ((one.run_id, one.trial, one.workload_index) for one in (row, other))
    return mine == its


def _place(row: MeasurementRow) -> tuple[int, int]:
    return _ORDER.index(row.kind), row.repeat
