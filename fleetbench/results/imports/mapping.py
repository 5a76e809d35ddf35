"""A mapping: what the columns of somebody else's table mean. TOML, read once and checked whole.

The same keys describe a CSV file (`--mapping FILE`) and a file of published figures, which has its tables
with it:

    [source]      title, author, url, published, retrieved, quoted_by, note
    [constants]   values that all rows have, by field
    [columns]     heading = "field", or { field = "mean_e2el_ms", factor = 1000 }
    [lookup.H]    what a cell in column H stands for: [lookup.GPU.A] gpu = "NVIDIA H100 PCIe"
    [[table]]     title, columns (headings in order), constants, rows (lists of cells)
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fleetbench.errors import UsageError, one_line
from fleetbench.results.imports.fields import field_named, near, read_cell
from fleetbench.results.imports.values import Provenance

MOST_ROWS = 100_000
_TOP = ("source", "constants", "columns", "lookup", "table", "delimiter", "decimal")
_TABLE = ("title", "columns", "constants", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The field that a column fills, and what its numbers are multiplied by to be in the field's unit."""

    field: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """A table that stands in the mapping itself."""

    title: str
    headings: tuple[str, ...]
    constants: Mapping[str, Any]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A mapping; `lookup` by heading, then by cell."""

    provenance: Provenance = field(default_factory=Provenance)
    constants: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    lookup: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    delimiter: str = ","
    decimal: str = "."
    tables: tuple[FigureTable, ...] = ()


class _Reader:
    """Reads one document; every complaint names the file and the key."""

    def __init__(self, source: str) -> None:
        self.source = source

    def wrong(self, key: str, text: str) -> UsageError:
        return UsageError(f"{self.source}: {one_line(key, 120)}: {text}", next_step="see docs/import.md")

    def table(self, document: Mapping[str, Any], key: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
        value = document.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is expected")
        self.only(value, known, key)
        return value

    def only(self, value: Mapping[str, Any], known: tuple[str, ...], key: str) -> None:
        if known and (unknown := [name for name in value if name not in known]):
            raise self.wrong(f"{key}.{unknown[0]}".strip("."), f"unknown; known: {', '.join(known)}")

    def text(self, value: object, key: str) -> str:
        if not isinstance(value, str) or len(value) > 2000:
            raise self.wrong(key, "a text is expected")
        return one_line(value, 2000)

    def constants(self, value: object, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is expected")
        found = {}
        for name, cell in value.items():
            where = f"{key}.{name}"
            known = field_named(name)
            if known is None:
                raise self.wrong(where, f"no such field; {near(name)}")
            read = read_cell(known, cell)
            if read.reason:
                raise self.wrong(where, read.reason)
            found[name] = read.value
        return found

    def column(self, value: object, key: str) -> Column:
        entry = {"field": value} if isinstance(value, str) else value
        if not isinstance(entry, dict):
            raise self.wrong(key, "the name of a field is expected, or { field = …, factor = … }")
        self.only(entry, ("field", "factor"), key)
        name, factor = entry.get("field"), entry.get("factor", 1.0)
        if not isinstance(name, str) or field_named(name) is None:
            raise self.wrong(key, f"no such field: {one_line(str(name), 60)}; {near(str(name))}")
        number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not number or not 0 < factor < 1e12:
            raise self.wrong(f"{key}.factor", "a number above 0 is expected")
        return Column(field=name, factor=float(factor))

    def figures(self, value: object, position: int, mapped: Mapping[str, Column]) -> FigureTable:
        key = f"table {position}"
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is expected")
        self.only(value, _TABLE, key)
        headings = value.get("columns", [])
        if not isinstance(headings, list) or not all(isinstance(heading, str) for heading in headings):
            raise self.wrong(f"{key}.columns", "a list of headings is expected")
        if unmapped := [heading for heading in headings if heading not in mapped]:
            raise self.wrong(f"{key}.columns", f"{one_line(unmapped[0], 60)} is not in [columns]")
        rows = value.get("rows", [])
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise self.wrong(f"{key}.rows", "a list of lists is expected")
        for number, row in enumerate(rows, start=1):
            if len(row) != len(headings):
                raise self.wrong(f"{key}.rows", f"row {number} has {len(row)} cells, not {len(headings)}")
        return FigureTable(
            title=self.text(value.get("title", ""), f"{key}.title"),
            headings=tuple(headings),
            constants=self.constants(value.get("constants", {}), f"{key}.constants"),
            rows=tuple(tuple(row) for row in rows),
        )


def read_mapping(text: str, source: str) -> Columns:
    """Given the text of a mapping and its name for messages, return it; UsageError names what is wrong."""
    read = _Reader(one_line(source, 120))
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as exc:
        raise UsageError(f"{read.source}: not TOML", cause=one_line(str(exc))) from exc
    read.only(document, _TOP, "")
    names = tuple(entry.name for entry in fields(Provenance))
    about = read.table(document, "source", names)
    columns = {
        heading: read.column(value, f"columns.{heading}")
        for heading, value in read.table(document, "columns").items()
    }
    tables = document.get("table", [])
    if not isinstance(tables, list):
        raise read.wrong("table", "[[table]] is expected, with two brackets")
    figures = tuple(read.figures(value, n, columns) for n, value in enumerate(tables, start=1))
    if sum(len(table.rows) for table in figures) > MOST_ROWS:
        raise read.wrong("table", f"more than {MOST_ROWS:,} rows")
    return Columns(
        provenance=Provenance(**{name: read.text(value, f"source.{name}") for name, value in about.items()}),
        constants=read.constants(document.get("constants", {}), "constants"),
        columns=columns,
        lookup=_lookup(read, read.table(document, "lookup"), columns),
        delimiter=_one_of(read, document, "delimiter", lambda text: len(text) == 1 and text not in '"\n\r'),
        decimal=_one_of(read, document, "decimal", lambda text: text in (".", ",")),
        tables=figures,
    )


def _lookup(
    read: _Reader, document: Mapping[str, Any], columns: Mapping[str, Column]
) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for heading in document:
        if heading not in columns:
            raise read.wrong(f"lookup.{heading}", "there is no such heading in [columns]")
        cells = read.table(document, heading)
        found[heading] = {
            cell: read.constants(value, f"lookup.{heading}.{cell}") for cell, value in cells.items()
        }
    return found


def _one_of(read: _Reader, document: Mapping[str, Any], key: str, fits: Callable[[str], bool]) -> str:
    default = "," if key == "delimiter" else "."
    value = document.get(key, default)
    if not isinstance(value, str) or not fits(value):
        raise read.wrong(key, "one character is expected" if key == "delimiter" else '"." or "," is expected')
    return value
