"""What a table made of entries is, and how its cells say what became of an entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell, Table
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import rounded
from fleetbench.report.terminal import INVALID, SUSPECT, Marked
from fleetbench.results.rows import Verdict

_ORDER = tuple(Status)  # as far as an entry came, the farthest first
_MARKS = {Status.SUSPECT: SUSPECT, Status.INVALID: INVALID}
Columns = list[tuple[str, list[Cell]]]
_SECTION = re.compile(r"(\d+(?:\.\d+)*)[.:)]?\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTable:
    """A table for people.

    Attributes:
        kind: which table it is, one word: `single-gpu`, `matrix`, `strategies`, `context`, `lengths`,
            `concurrency`, `scaling`.
        source_table: title of the source's table that it is made of; empty for own runs, and where it is made
            of several.
        title: what it shows, without what all tables of a run have in common.
        entries: what it is made of, failed ones too.
        notes: what has to be read with it, one sentence or legend line each.
    """

    kind: str
    source_table: str = ""
    title: str
    table: Table
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


class Quoted(float):
    """A number with all digits that a source printed, two after the point at least."""

    def __format__(self, form: str) -> str:
        if float(self).is_integer() and abs(self) >= 10_000:  # nobody prints hundredths of these
            return f"{float(self):,.0f}"
        two, four = f"{float(self):,.2f}", f"{float(self):,.4f}"
        return two if float(two.replace(",", "")) == float(four.replace(",", "")) else four.rstrip("0")


class OneDigit(float):
    """A percentage, with one digit after the point and no negative zero."""

    def __format__(self, form: str) -> str:
        return f"{round(float(self), 1) + 0.0:,.1f}"


class Times(float):
    """A ratio, with two digits after the point."""

    def __format__(self, form: str) -> str:
        return f"{float(self):,.2f}"


def number(entry: Entry, value: float | None) -> Cell:
    """Return a value of an entry as a cell: as it was printed, or with the digits that an own one has.

    One of an own row that is not valid has a mark.
    """
    plain = plain_number(entry, value)
    if plain is None or entry.imported or entry.status not in _MARKS:
        return plain
    return Marked(plain, _MARKS[entry.status])


def plain_number(entry: Entry, value: float | None) -> int | float | None:
    """Return the same without a mark, for where the status stands beside it."""
    if value is None:
        return None
    return Quoted(value) if entry.imported else rounded(value)


def standing(entry: Entry, most: int = 90) -> str:
    """Say what became of an entry: `valid`, `failed: CUDA out of memory`, `suspect: eager-mode, stalled`.

    Of an imported row the rules are named that object to it, since most rows of a source have several.
    """
    rules = rules_against(entry)
    why = ", ".join(rules) if entry.imported and rules else entry.cause
    if entry.status is Status.VALID or not why:
        return entry.status.value
    return one_line(f"{entry.status.value}: {why}", most)


def rules_against(entry: Entry) -> tuple[str, ...]:
    """Return the rules that object to an entry, the worst first; remarks are not among them."""
    against = (found.rule for found in entry.findings if found.verdict is not Verdict.VALID)
    return tuple(dict.fromkeys(against))


def configuration(entry: Entry) -> object:
    """Return what is equal for the entries of one configuration, whatever the load.

    Not the name of an own one: that has the number of its trial where not all starts are valid under a load.
    """
    return entry.name if entry.imported else (entry.series, entry.gpu, entry.config)


def foremost(entries: Iterable[Entry]) -> Entry:
    """Return the entry that came farthest, a valid one where there is one; of equals the first."""
    return min(entries, key=lambda entry: _ORDER.index(entry.status))


def hindmost(entries: Iterable[Entry]) -> Entry:
    """Return the entry with the most against it, of equals the first."""
    return max(entries, key=lambda entry: _ORDER.index(entry.status))


def is_a_rate(entry: Entry) -> bool:
    """Whether an entry's throughput may stand in a ratio: own ones have to be valid, imported ones a rate.

    With failed requests or a stall it is none. What can only be total tokens is one among its like: the whole
    column is.
    """
    if not entry.imported:
        return entry.valid
    fatal = [found for found in entry.findings if found.verdict is Verdict.INVALID]
    misread = all("in_flight_as_total" in found.numbers for found in fatal)
    return misread and "stalled" not in rules_against(entry)


def gpus_text(entry: Entry) -> str:
    """Return `2× AMD MI210`, as far as it is known."""
    name = one_line(entry.gpu, 60)
    if not entry.gpus:
        return name
    return f"{entry.gpus}× {name or device_word(entry)}"


def device_word(entry: Entry) -> str:
    """Return what its devices are called: own ones without a name are no GPUs, but CPUs, or not known."""
    return "GPU" if entry.on_gpus else "device"


def section(entry: Entry) -> str:
    """Return the number of the section that an imported table stands in (`4.1.1`), else its title."""
    found = _SECTION.match(entry.table)
    return found[1] if found else entry.table


def several(values: Iterable[object]) -> bool:
    """Whether there are two different ones at least."""
    return len(set(values)) > 1


def without_empty(columns: Columns, rows: int) -> Table:
    """Given headings with their columns, return a table without those that say nothing."""
    kept = [(heading, cells) for heading, cells in columns if cells.count(None) < rows]
    return Table(
        tuple(heading for heading, _ in kept),
        tuple(tuple(cells[place] for _, cells in kept) for place in range(rows)),
    )


def titled(*parts: str) -> str:
    """Join what a title says, leaving out what is unknown."""
    return ", ".join(_said(parts))


def _said(parts: Iterable[str]) -> Iterator[str]:
    yield from (one_line(part, 120) for part in parts if part)
