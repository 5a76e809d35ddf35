"""Tables of the report as the page shows them. Pure."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell, Table
from fleetbench.report.html.values import Grid
from fleetbench.report.observations import table_observations
from fleetbench.report.tables import EntryTable

_LONGEST_CELL, _LONGEST_SENTENCE = 300, 1000


def grid(title: str, table: Table, *notes: str) -> Grid:
    """Return a table under its title."""
    columns = range(len(table.columns))
    return Grid(
        title=one_line(title),
        columns=tuple(one_line(column) for column in table.columns),
        rows=tuple(tuple(_text(cell) for cell in row) for row in table.rows),
        numeric=tuple(_is_numeric([row[place] for row in table.rows]) for place in columns),
        notes=tuple(one_line(note, _LONGEST_SENTENCE) for note in notes),
    )


def grid_of_entries(found: EntryTable, title: str) -> Grid:
    """Return a table made of entries, with the sentences that belong under it."""
    says = tuple(one_line(each.text, _LONGEST_SENTENCE) for each in table_observations(found))
    return replace(grid(title, found.table, *found.notes), says=says)


def _is_numeric(cells: list[Cell]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) for cell in known)


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:,}" if isinstance(cell, int | float) else one_line(cell, _LONGEST_CELL)
