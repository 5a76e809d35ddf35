"""What the HTML report shows: text, numbers and links, ready for the template. Values only.

Every text in here is shown as it is: the template escapes it. Only `Drawing.svg` is markup already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from fleetbench.report.entry import Status


@dataclass(frozen=True, slots=True)
class Pair:
    """A name and what it is."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Link:
    """A file of the run: its path below the run's directory, and the page's link to it (empty: none)."""

    path: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A plain table, what has to be read with it, and what it says.

    `numeric`: which columns are aligned to the right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A finding about a row: its rule, what it makes of the row, its sentence and numbers, what to do."""

    rule: str
    verdict: str
    text: str
    numbers: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is behind one row, apart from what its trials have in common.

    Attributes:
        decisive: the line that a failure was found by.
        reported: numbers of an invalid row, which are no result.
        figures: telemetry and ceiling, under the names that they have in CSV.
    """

    cause: str = ""
    decisive: str = ""
    advice: str = ""
    said: tuple[Said, ...] = ()
    notes: tuple[str, ...] = ()
    repeats: Grid | None = None
    reported: tuple[Pair, ...] = ()
    figures: tuple[Pair, ...] = ()
    command: str = ""
    facts: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvidence:
    """What the rows of one trial have in common: what ran, on what, and what it said."""

    number: int
    title: str
    facts: tuple[Pair, ...] = ()
    versions: Grid | None = None
    unit_name: str = ""
    unit: str = ""
    journal_name: str = ""
    journal: str = ""
    files: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of numbers or words; `main` ones are shown and printed, the others on demand."""

    key: str
    heading: str
    title: str
    numeric: bool = True
    metric: bool = False
    main: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A cell: its text, what it is sorted by, and its share of the best (of its workload, or of all).

    `doubtful` numbers are of a row that does not count.
    """

    text: str = ""
    sort: float | str | None = None
    share: float | None = None
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry. `gap` stands in the place of its numbers where it has none that may be read as a result.

    `axes`: what the filters know it by.
    """

    id: str
    name: str
    status: Status
    best: bool = False
    gap: str = ""
    cells: Mapping[str, Value] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    trials: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One choice of what is shown: key of an axis, and its values in order."""

    key: str
    label: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The table of all entries: `words` come before the numbers, and are known of every row."""

    words: tuple[Column, ...]
    numbers: tuple[Column, ...]
    rows: tuple[Row, ...]
    filters: tuple[Filter, ...]
    counts: Mapping[Status, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart as markup; `id` is unique in the page."""

    id: str
    svg: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Charts that belong together; `more` of them are shown on demand, `left_out` are files only."""

    title: str
    drawings: tuple[Drawing, ...] = ()
    more: tuple[Drawing, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the summary, with what it is."""

    label: str
    value: str
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the page leads with: what to deploy and why, or else what the numbers say.

    Attributes:
        question: what was asked; empty where the page is about nothing else.
        headline: the answer. reasons, changes: sentences, on what it rests and what would change it.
        figures: numbers of the row that it is about, whose name is `figures_title`; `row` is its id.
    """

    question: str = ""
    headline: str
    reasons: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    figures_title: str = ""
    figures: tuple[Figure, ...] = ()
    row: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report. `advised`: its answers are recommendations."""

    title: str
    kind: str
    subtitle: str
    about: tuple[Pair, ...]
    answers: tuple[Answer, ...]
    advised: bool
    findings: tuple[str, ...] = ()
    warning: str = ""
    results: Results
    galleries: tuple[Gallery, ...] = ()
    grids: tuple[Grid, ...] = ()
    trials: tuple[TrialEvidence, ...] = ()
    version: str = ""
