"""The columns of a report that come from samples: figures by their own names, and by the second source's."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.results.rows import MeasurementRow
from fleetbench.results.values import BenchResult
from fleetbench.telemetry.figures import figures, measures


def columns() -> tuple[str, ...]:
    """Return the names: every figure, then those of the second source's that are called otherwise."""
    return (*figures(), *(each.column for each in measures() if each.column not in figures()))


def cells(row: MeasurementRow) -> Iterator[bool | int | float | str | None]:
    """Yield a measurement's values of these columns; None is not known."""
    for name in figures():
        value = row.telemetry.get(name)
        yield value if isinstance(value, bool | int | float | str) else None
    result = row.result or BenchResult()
    reported = dict(result.latencies) | {"failed": result.failed}
    for each in measures():
        if each.column not in figures():
            found = each.of(row.telemetry, reported)
            yield round(found, 6) if isinstance(found, float) else found
