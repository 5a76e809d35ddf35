"""Cells, tables and code as Markdown, with whatever text a host wrote shown as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def escaped(cell: Cell, most: int = 300) -> str:
    """Return a cell as text that Markdown shows as it is, on one line of `most` letters."""
    text = "–" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else str(cell)
    return SPECIAL.sub(r"\\\1", one_line(text, most)).replace("&", "&amp;")


def code(text: str) -> str:
    """Return text as inline code, whatever backticks it holds."""
    line = one_line(text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    right = [
        bool(rows) and all(row[place] is None or isinstance(row[place], int | float) for row in rows)
        for place in range(len(columns))
    ]
    lines = ["| " + " | ".join(escaped(column) for column in columns) + " |"]
    lines.append("|" + "|".join(" ---: " if numbers else " --- " for numbers in right) + "|")
    lines += ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
