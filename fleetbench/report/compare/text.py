"""A comparison as headings, tables and sentences: the same on the terminal and in a pull request. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.columns import Table
from fleetbench.report.compare.compared import Compared, Row
from fleetbench.report.compare.differences import NOT_KNOWN, Difference
from fleetbench.report.compare.failing import FALSE_CLAIMS, Outcome
from fleetbench.report.compare.figures import Figure, brief
from fleetbench.report.compare.pairs import Unpaired, brief_names
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.results.comparison import Comparison

MOST_LISTED = 12
MANY_PAIRS = 3  # from there on only headlines are shown of each


@dataclass(frozen=True, slots=True)
class Heading:
    """A title of what follows."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Sentences below each other."""

    texts: tuple[str, ...]


Block = Heading | Table | Items


def blocks(compared: Sequence[Compared], outcome: Outcome | None = None, *, anyway: bool) -> Iterator[Block]:
    """Yield what is shown: the sides, what differs, then, where that may be, the ratios and what they say."""
    for one in compared:
        yield Heading(f"{one.other.label} against {one.baseline.label}")
        yield Items(
            (
                f"A: {one.baseline.label}, {one.baseline.about} (the baseline)",
                f"B: {one.other.label}, {one.other.about}",
            )
        )
        if _backwards(one):
            yield Items(("the baseline is the newer one: name it second if it is what you judge",))
        yield from _around(one)
        if not one.in_the_way or anyway:
            yield from _ratios(one)
        yield from _unpaired(one)
    if outcome is not None:
        yield from _judged(outcome)


def says(figure: Figure) -> str:
    """Return the sentence of a figure as a table's cell: how to find out more stands below."""
    found = figure.comparison
    if found is not None and found.low is None:
        return "measured once: noise unknown"
    return figure.sentence.partition(":")[0].replace(" at this noise", "")


def counted_comparisons(number: int) -> str:
    """Return `1 comparison`, `12 comparisons`."""
    return f"{number:,} comparison{'s' if number != 1 else ''}"


def counted(compared: Compared) -> tuple[str, ...]:
    """Return a sentence for each headline over all pairs: in how many it is better, worse, the same."""
    return tuple(filter(None, (_counted(compared, metric) for metric in METRICS if metric.headline)))


def _backwards(one: Compared) -> bool:
    """Whether an own run is held against a younger one, which is mostly a slip."""
    sides = [side.subjects for side in (one.baseline, one.other)]
    if any(subject.entry.imported for side in sides for subject in side) or not all(sides):
        return False
    baseline, other = ([subject.made_at for subject in side] for side in sides)
    return min(baseline) > max(other)


def _around(one: Compared) -> Iterator[Block]:
    if one.same_rows:
        yield Items(("A and B are the same rows: nothing can differ",))
    if not one.rows:
        return
    both = [each for each in one.differences if NOT_KNOWN not in (each.one, each.other)]
    if both:
        yield Heading("What differs")
        several = any(each.pairs for each in both)
        columns = ("", "A", "B", "", *(("where",) if several else ()))
        yield Table(columns, tuple(_difference(each, several=several) for each in both))
    elif not one.same_rows:
        yield Items(("nothing that is known of both differs around them",))
    yield Items(tuple(_unknown(one)))


def _difference(each: Difference, *, several: bool) -> tuple[str, ...]:
    word = "matters" if each.matters else "asked for" if each.asked else ""
    where = f"{', '.join(each.pairs[:3])}{', …' if len(each.pairs) > 3 else ''}" or "everywhere"
    return (each.title, each.one, each.other, word, *((one_line(where, 120),) if several else ()))


def _unknown(one: Compared) -> Iterator[str]:
    """Yield what only one side says, and what matters and neither does."""
    measured = any(row.figures for row in one.rows)  # of what never ran nothing is known
    half = [each for each in one.differences if measured and NOT_KNOWN in (each.one, each.other)]
    for side, others in (("A", False), ("B", True)):
        said = [
            f"{each.title} {one_line(each.other if others else each.one, 40)}"
            for each in half
            if (each.one == NOT_KNOWN) is others
        ]
        if said:
            yield f"known of {side} only: {', '.join(dict.fromkeys(said))}"
    if one.unknown:
        yield f"known of neither: {', '.join(one.unknown)}"


def _ratios(one: Compared) -> Iterator[Block]:
    if one.caveat:
        yield Items((f"N{one.caveat[1:]}. No ratio below says anything about one of these alone",))
    for row in one.rows:
        shown = brief(row.figures, row.pair, headlines=len(one.rows) >= MANY_PAIRS)
        yield Heading(f"{row.pair.name}, {row.pair.load}")
        if shown:
            yield Table(
                (
                    "",
                    "A",
                    "B",
                    "B/A",
                    "95 %",
                    "B against A (not one population)" if one.caveat else "B against A",
                ),
                tuple(_cells(figure) for figure in shown),
            )
        yield Items(tuple(_below(row, shown)))
    if len(one.rows) > 1:
        yield Heading("In all")
        yield Items(counted(one))
    made = sum(figure.comparison is not None for row in one.rows for figure in row.figures)
    if made >= 20 and not one.same_rows:
        yield Items(
            (f"{made} ratios: about {made * 2 * FALSE_CLAIMS:.0f} may look different by chance alone",)
        )


def _cells(figure: Figure) -> tuple[str, ...]:
    metric, found = figure.metric, figure.comparison
    return (
        metric.heading,
        metric.shown(figure.baseline),
        metric.shown(figure.other),
        "–" if found is None else f"{found.ratio:.3g}" if found.ratio >= 10 else f"{found.ratio:.3f}",
        _interval(found),
        says(figure),
    )


def _interval(found: Comparison | None) -> str:
    if found is None or found.low is None or found.high is None:
        return "–"
    decimals = 3 if found.high < 10 else 1 if found.high < 1000 else 0
    return f"{found.low:.{decimals}f}–{found.high:,.{decimals}f}"


def _below(row: Row, shown: Sequence[Figure]) -> Iterator[str]:
    """Yield what a reader of the table has to know: what its rows are worth, how the noise was met."""
    for name, subject in (("A", row.pair.baseline), ("B", row.pair.other)):
        if not subject.entry.valid:
            yield f"{name} is {_standing(subject.entry)}"
        for other in subject.beside:
            older = "an older row of it" if other.entry.source != subject.entry.source else "another start"
            yield f"{name}: {older} ({other.entry.place}) is {_standing(other.entry)}"
    found = [figure.comparison for figure in shown if figure.comparison is not None]
    if not found or row.pair.same_row:
        return
    how = {f"{c.method}, {_counts(c)}" for c in found if c.method}
    if how:
        yield f"intervals: {'; '.join(sorted(how))}"
    more: dict[str, list[str]] = {}
    for figure in shown:
        comparison = figure.comparison
        if comparison is None or comparison.same or comparison.differs or comparison.more is None:
            continue
        several = "s" if comparison.more > 1 else ""
        text = f"{comparison.more} more {comparison.unit}{several} would show {comparison.shown_percent:g} %"
        more.setdefault(text, []).append(figure.metric.heading)
    for text, headings in more.items():
        yield f"{text}: {', '.join(headings)}"
    start = [f.metric.heading for f in shown if f.comparison is not None and f.comparison.may_be_the_start]
    if start:
        yield f"one start each, which may be all that differs: {', '.join(start)}"


def _counts(found: Comparison) -> str:
    one, two = reversed(found.counts)
    if found.method.startswith("paired"):
        return f"{one} pairs"
    return f"{one} and {two} {found.unit}s"


def _standing(entry: Entry) -> str:
    return f"{entry.status.value}: {one_line(entry.cause, 160)}" if entry.cause else entry.status.value


def _unpaired(one: Compared) -> Iterator[Block]:
    for title, rows in (("Only in A", one.missing), ("Only in B", one.added)):
        if rows:
            yield Heading(title)
            lines = tuple(dict.fromkeys(map(_alone, rows)))
            listed = lines[:MOST_LISTED]
            more = len(lines) - MOST_LISTED
            yield Items((*listed, f"and {more} more") if more > 0 else listed)


def _alone(row: Unpaired) -> str:
    entry = row.subject.entry
    return f"{row.name}: {row.why or _standing(entry)}"


def _counted(compared: Compared, metric: Metric) -> str:
    names = brief_names([row.pair for row in compared.rows])
    found = [
        (row, figure) for row in compared.rows for figure in row.figures if figure.metric.key == metric.key
    ]
    if not found:
        return ""
    better = [(names[row.pair], figure) for row, figure in found if figure.better]
    worse = [(names[row.pair], figure) for row, figure in found if figure.better is False]
    same = sum(figure.comparison is not None and figure.comparison.same for _, figure in found)
    parts = [f"better in {len(better)}{_which(better)}"] if better else []
    parts += [f"worse in {len(worse)}{_which(worse)}"] if worse else []
    parts += [f"within 1 % in {same}"] if same else []
    left = len(found) - len(better) - len(worse) - same
    parts += [f"not known to differ in {left}"] if left else []
    return f"{metric.heading}, {len(found)} pairs: {', '.join(parts)}"


def _which(found: Sequence[tuple[str, Figure]]) -> str:
    """Name the pair that moved most."""
    name, figure = max(
        found, key=lambda each: abs(math.log((each[1].comparison or Comparison(ratio=1)).ratio))
    )
    most = "most " if len(found) > 1 else ""
    return f" ({most}{name}: {figure.sentence})"


def _judged(outcome: Outcome) -> Iterator[Block]:
    if outcome.regressions:
        yield Heading("Regressions")
        yield Items(tuple(finding.sentence for finding in outcome.regressions))
    if outcome.unclear:
        yield Heading("Not ruled out")
        listed = tuple(finding.sentence for finding in outcome.unclear[:MOST_LISTED])
        more = len(outcome.unclear) - MOST_LISTED
        yield Items((*listed, f"and {more} more") if more > 0 else listed)
    if outcome.judged and not outcome.regressions and not outcome.unclear:
        yield Items((f"no regression: {counted_comparisons(outcome.judged)}, within the limits",))
