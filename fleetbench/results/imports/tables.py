"""Tables of numbers: CSV through a mapping, CSV with vLLM's own names, and figures that a mapping holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetbench.errors import Unreadable, UsageError, one_line
from fleetbench.results.imports.fields import field_named, read_cell, row_of
from fleetbench.results.imports.mapping import MOST_ROWS, Column, Columns
from fleetbench.results.imports.values import ForeignRow

# summary.csv of `vllm bench sweep` has the latencies of all requests in one cell.
LARGEST_CELL = 16 * 1024 * 1024
_MOST_COLUMNS = 2000
# Without one of these a row of a CSV says nothing about speed.
_SPEEDS = ("output_throughput", "total_token_throughput", "request_throughput", "mean_e2el_ms")
_MOST_PROBLEMS = 20


def figure_rows(mapping: Columns, source: str) -> Iterator[ForeignRow]:
    """Given a mapping with tables of its own, yield their rows in order."""
    for number, table in enumerate(mapping.tables, start=1):
        for position, cells in enumerate(table.rows, start=1):
            values, problems = _values(table.headings, cells, mapping, mapping.columns)
            place = f"{source} table {number} row {position}"
            merged = {**mapping.constants, **table.constants, **values}
            yield row_of(merged, form="figures", place=place, problems=problems, table=table.title)


def csv_rows(text: str, source: str, mapping: Columns | None = None) -> tuple[ForeignRow, ...]:
    """Given the text of a CSV file, return its rows; without a mapping its headings must be vLLM's names.

    Raises `Unreadable` where it is no table, `UsageError` where the mapping is for another one.
    """
    known = mapping or Columns()
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(
        io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=known.delimiter, strict=True
    )
    try:
        headings = next(reader, [])
        if len(headings) > _MOST_COLUMNS:
            raise Unreadable(f"{source}: more than {_MOST_COLUMNS:,} columns")
        columns = _columns(headings, source, mapping)
        rows: list[ForeignRow] = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(rows) >= MOST_ROWS:
                raise Unreadable(f"{source}: more than {MOST_ROWS:,} rows")
            place = f"{source} line {reader.line_num}"
            rows.append(_csv_row(headings, cells, known, columns, place))
    except csv.Error as exc:
        raise Unreadable(f"{source}: line {reader.line_num} is no CSV", cause=str(exc)) from exc
    if not rows:
        raise Unreadable(f"{source}: no row below the headings")
    return tuple(rows)


def _csv_row(
    headings: Sequence[str], cells: Sequence[str], mapping: Columns, columns: Mapping[str, Column], place: str
) -> ForeignRow:
    values, problems = _values(headings, cells, mapping, columns)
    if len(cells) != len(headings):
        problems = (f"{len(cells)} cells, {len(headings)} headings: nothing is taken from it",)
        values = {}
    merged = {**mapping.constants, **values}
    return row_of(merged, form="csv", place=place, problems=problems)


def _columns(headings: Sequence[str], source: str, mapping: Columns | None) -> Mapping[str, Column]:
    if mapping is None:
        found = {name: Column(field=name) for name in headings if field_named(name)}
        if not any(name in found for name in _SPEEDS):
            raise Unreadable(
                f"{source}: none of its columns is a throughput or latency by vLLM's name",
                cause=f"headings: {one_line(', '.join(headings), 200)}",
                next_step="say what the columns mean: --mapping FILE, see docs/import.md",
            )
        return found
    missing = [heading for heading in mapping.columns if heading not in headings]
    if missing:
        raise UsageError(
            f"{source}: no column is called {one_line(missing[0], 60)!r}, as the mapping says",
            cause=f"headings: {one_line(', '.join(headings), 200)}",
        )
    return mapping.columns


def _values(
    headings: Sequence[str], cells: Sequence[object], mapping: Columns, columns: Mapping[str, Column]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values of a row by field, and what could not be read.

    What a cell stands for wins over the cell itself, and gives way to the cells of other columns.
    """
    values: dict[str, Any] = {}
    looked_up: dict[str, Any] = {}
    problems: list[str] = []
    for heading, cell in zip(headings, cells, strict=False):
        column = columns.get(heading)
        field = None if column is None else field_named(column.field)
        if column is None or field is None:
            continue
        read = read_cell(field, cell, factor=column.factor, decimal=mapping.decimal)
        if read.reason and len(problems) < _MOST_PROBLEMS:
            problems.append(f"{one_line(heading, 60)}: {read.reason}")
        if read.value is not None or read.reason:  # what was refused is unknown, also where a default exists
            values[column.field] = read.value
        meaning = mapping.lookup.get(heading, {}).get(str(cell).strip(), {})
        looked_up |= meaning
        if column.field in meaning:
            values[column.field] = meaning[column.field]
    return {**looked_up, **values}, tuple(problems)
