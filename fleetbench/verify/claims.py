"""What was stored beside what the raw files say: one claim for each number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.results.rows import Json

LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One stored value, and the same from the raw files.

    Attributes:
        place: what it belongs to: a path below the run's directory, or the name of a row of the report.
        name: of the value, as the store or the report calls it.
        stored, found: the two values; None: there is none.
        source: the file that says so.
        rounded: whether that file has two decimals of it only.
    """

    place: str
    name: str
    stored: Json
    found: Json
    source: str
    rounded: bool = False

    @property
    def holds(self) -> bool:
        """Whether both are the same, to the last digit that the source has.

        A database may give back 3 for 3.0.
        """
        truths = [value for value in (self.stored, self.found) if isinstance(value, bool)]
        return len(truths) != 1 and (self.stored == self.found or self._holds_rounded)

    @property
    def _holds_rounded(self) -> bool:
        stored, found = self.stored, self.found
        numbers = isinstance(stored, int | float) and isinstance(found, int | float)
        return self.rounded and numbers and float(f"{stored:.2f}") == found

    @property
    def sentence(self) -> str:
        """Both values in one line; of texts of several lines the first ones that differ."""
        stored, found = self.stored, self.found
        if isinstance(stored, str) and isinstance(found, str) and "\n" in stored + found:
            pairs = itertools.zip_longest(stored.splitlines(), found.splitlines())
            stored, found = next((pair for pair in pairs if pair[0] != pair[1]), (stored, found))
        return (
            f"{one_line(self.place, 160)}: {one_line(self.name, 80)} is {_shown(stored)} in the store,"
            f" {one_line(self.source, 80)} says {_shown(found)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """Values that cannot be derived once more, and why."""

    place: str
    name: str
    why: str


Checked = Claim | Unchecked


def claims(
    place: str,
    stored: Mapping[str, Json],
    found: Mapping[str, Json],
    source: str,
    prefix: str = "",
    *,
    lacks: str = "",
) -> Iterator[Checked]:
    """Yield a claim for each name that either mapping has; one that is None in both is none.

    `lacks` says which file is not there any more that `found` was to come from: what comes out otherwise
    without it is not checked.
    """
    for name in dict.fromkeys((*stored, *found)):
        values = stored.get(name), found.get(name)
        if values == (None, None):
            continue
        claim = Claim(place=place, name=f"{prefix}{name}", stored=values[0], found=values[1], source=source)
        if claim.holds or not lacks:
            yield claim
        elif values[0] is not None:
            yield Unchecked(place=place, name=claim.name, why=lacks)


def _shown(value: Json) -> str:
    if value is None:
        return "nothing"
    return one_line(value if isinstance(value, str) else repr(value), LONGEST_TEXT)
