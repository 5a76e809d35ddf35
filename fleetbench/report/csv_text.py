"""CSV that spreadsheets, csvkit and grep all read the same.

Three habits of csvkit (agate) shape it, each seen with csvkit 2.2: it finds the delimiter by looking at the
first 1024 bytes, and a wide row that is cut off there misleads it unless the header is quoted; a column of
nothing but 0 and 1 is read as False and True, unless it is written 00 and 01; text that could be a number is
one, so `0,1` becomes 1.
"""

from __future__ import annotations

import csv
import io

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell, Table

# A spreadsheet takes text that begins like this for a formula, and the text may come from a host's journal.
FORMULA_STARTS = ("=", "+", "-", "@")
LONGEST_CELL = 2000


def csv_text(table: Table) -> str:
    """Given a table, return CSV with one header line and exactly one line for each row."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(table.columns)
    writer = csv.writer(buffer, lineterminator="\n")
    ambiguous = [_only_zeros_and_ones(table, place) for place in range(len(table.columns))]
    for row in table.rows:
        writer.writerow(
            f"{cell:02d}" if two_digits and isinstance(cell, int) else csv_cell(cell)
            for cell, two_digits in zip(row, ambiguous, strict=True)
        )
    return buffer.getvalue()


def csv_cell(cell: Cell) -> Cell:
    """Return a cell as it is written: unknown is empty, text is one line and never a formula."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if not isinstance(cell, str):
        return cell
    text = one_line(cell, LONGEST_CELL)
    return f" {text}" if text.startswith(FORMULA_STARTS) else text


def _only_zeros_and_ones(table: Table, place: int) -> bool:
    cells = [row[place] for row in table.rows if row[place] is not None]
    return bool(cells) and all(type(cell) is int and cell in (0, 1) for cell in cells)
