"""How near a row came to what its hardware can do, from the ceilings of the repeats that count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetbench.errors import one_line
from fleetbench.results.rows import MeasurementRow
from fleetbench.results.statistics import spread

Cell = None | bool | int | float | str

_NUMBERS = (
    "of_ceiling_percent",
    "of_strict_percent",
    "decode_percent",
    "prefill_percent",
    "ceiling_output_tps",
    "strict_output_tps",
    "serial_output_tps",
    "tpot_floor_ms",
    "in_flight",
)
# Keys of `MeasurementRow.ceiling`, in the order of the columns of both CSV files.
KEYS = (*_NUMBERS, "binds", "why", "gpu", "basis")


def column(key: str) -> str:
    """Return the name of a column: what does not say by itself that it is about a ceiling says so."""
    return key if "ceiling" in key or "strict" in key else f"ceiling_{key}"


def cells(row: MeasurementRow) -> Iterator[Cell]:
    """Yield a cell of measurements.csv for each of `KEYS`."""
    yield from together((row,))


def together(repeats: Iterable[MeasurementRow]) -> Iterator[Cell]:
    """Yield a cell for each of `KEYS`: the median of what is a number, each different word once."""
    rows = tuple(repeats)
    yield from (median(rows, key) if key in _NUMBERS else word(rows, key) for key in KEYS)


def median(repeats: Iterable[MeasurementRow], key: str) -> float | None:
    """Return the median of one number over the repeats that have it; None where none has."""
    values = (_number(row.ceiling.get(key)) for row in repeats)
    found = spread(value for value in values if value is not None)
    return found.median if found else None


def word(repeats: Iterable[MeasurementRow], key: str) -> str | None:
    """Return what the repeats say, each different thing once; None where none says anything."""
    said = (row.ceiling.get(key) for row in repeats)
    lines = (one_line(text, 300) for text in said if isinstance(text, str) and text)
    return "; ".join(dict.fromkeys(lines)) or None


def reason(repeats: Iterable[MeasurementRow]) -> str | None:
    """Return one repeat's sentence for each different bound: the numbers in the others differ by noise."""
    by_bound: dict[object, MeasurementRow] = {}
    for row in repeats:
        by_bound.setdefault(row.ceiling.get("binds"), row)
    return word(by_bound.values(), "why")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
        return None
    return float(value)
