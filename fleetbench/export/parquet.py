"""A table as Parquet. It needs pyarrow, which is an extra: 45 MB for one format, and jump hosts are small."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from fleetbench import __version__
from fleetbench.errors import FleetbenchError
from fleetbench.report.columns import Cell, Table
from fleetbench.results.dictionary import SCHEMA, Kind, meaning, version
from fleetbench.telemetry.figures import figures

# Each as wide as any value that the store keeps.
_ARROW = {Kind.TEXT: "string", Kind.WHOLE: "int64", Kind.REAL: "float64", Kind.FLAG: "bool_"}


def parquet_bytes(table: Table, name: str) -> bytes:
    """Return a table as Parquet, columns of the kinds that docs/schema.md says, unit and meaning with each.

    `name` is that of the table, in the file's metadata beside the version of its columns. FleetbenchError
    where pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as exc:
        raise FleetbenchError(
            "Parquet needs pyarrow, which is not installed",
            next_step="pip install 'fleetbench[parquet]', or --format csv, which has the same columns",
        ) from exc
    fields, columns = [], []
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        known = meaning(column, figures())
        kind = known.kind if known is not None and all(_is(known.kind, cell) for cell in cells) else Kind.TEXT
        about = {"unit": known.unit, "meaning": known.text} if known else {}
        fields.append(pyarrow.field(column, getattr(pyarrow, _ARROW[kind])(), metadata=about))
        columns.append(pyarrow.array(_cells(kind, cells), getattr(pyarrow, _ARROW[kind])()))
    told = {"schema": SCHEMA, "schema_version": str(version()), "table": name, "fleetbench": __version__}
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns, schema=pyarrow.schema(fields, metadata=told)), file)
    return file.getvalue()


def _is(kind: Kind, cell: Cell) -> bool:
    """Whether a cell is of a kind; what is not (a word among numbers) makes its column one of text."""
    if cell is None or kind is Kind.TEXT:
        return True
    if kind is Kind.FLAG:
        return isinstance(cell, bool) or cell in ("yes", "no")
    whole = isinstance(cell, int) or (isinstance(cell, float) and cell.is_integer())
    return not isinstance(cell, bool) and (whole if kind is Kind.WHOLE else isinstance(cell, int | float))


def _cells(kind: Kind, cells: Sequence[Cell]) -> list[Any]:
    make: dict[Kind, Callable[[Any], Any]] = {
        Kind.TEXT: str,
        Kind.WHOLE: int,
        Kind.REAL: float,
        Kind.FLAG: lambda cell: cell in (True, "yes"),
    }
    return [None if cell is None else make[kind](cell) for cell in cells]
