"""Tables made of entries, and what is said of them, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetbench.report.markdown_text import escaped, table
from fleetbench.report.observations import Said, table_observations
from fleetbench.report.tables import EntryTable

_SENTENCE = 1000  # letters: what names many rows is long, and still one sentence


def table_parts(found: EntryTable, heading: str) -> Iterator[str]:
    """Yield a table under its heading, with its notes and sentences."""
    yield heading
    yield table(found.table.columns, found.table.rows)
    if found.notes:
        yield "  \n".join(escaped(note, _SENTENCE) for note in found.notes)
    lines = said_lines(table_observations(found))
    if lines:
        yield "\n".join(lines)


def said_lines(said: Iterable[Said]) -> list[str]:
    """Return each sentence as a line of a list."""
    return [f"- {escaped(each.text, _SENTENCE)}" for each in said]
