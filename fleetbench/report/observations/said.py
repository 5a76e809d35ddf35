"""One sentence about entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry

MOST_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence without its full stop, and what it is about.

    `topic` is one word: `highest`, `errors`, `objections`, `speed-up`, `concurrency`, `scaling`, `crossover`,
    `bound`, `caution`, `not-ranked`.
    """

    topic: str
    text: str


def listed(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Return names as `a, b and 3 more`."""
    found = list(dict.fromkeys(names))
    shown = ", ".join(found[:most])
    return f"{shown} and {len(found) - most} more" if len(found) > most else shown


def name(entry: Entry) -> str:
    """Return an entry's name on one line, as long as a sentence has room for it."""
    return one_line(entry.name, 80)


def counted(some: Sequence[object], of: Sequence[object], noun: str) -> str:
    """Return `3 of 8 rows`, `all 8 rows`, `the only row`."""
    if len(of) == 1:
        return f"the only {noun}"
    return f"all {len(of)} {noun}s" if len(some) == len(of) else f"{len(some)} of {len(of)} {noun}s"
