"""CSV that spreadsheets, csvkit and grep all read the same.

Two habits of csvkit (agate) shape it, each seen with csvkit 2.2: it finds the delimiter by looking at the
first 1024 bytes, and a wide row that is cut off there misleads it unless the header is quoted; text that
could be a number is one, so `0,1` becomes 1. A third is left to it: it calls a column of nothing but 0 and 1
Boolean. `01` would be a number to csvkit and a riddle to every script.
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
    writer.writerows(map(csv_cell, row) for row in table.rows)
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
