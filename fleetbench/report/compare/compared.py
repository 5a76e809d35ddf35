"""Two sides, put beside each other: what differs, then the ratios. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.compare.differences import Difference, caveats, differences, not_known
from fleetbench.report.compare.figures import Figure, figures
from fleetbench.report.compare.pairs import Pair, Paired, Unpaired, paired
from fleetbench.report.compare.reading import Side
from fleetbench.report.entry import Entry

_SEEN_BY_CLIENT = ("ttft", "e2el")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pair with its ratios, in the order of the metrics."""

    pair: Pair
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of comparing a side with the baseline.

    Attributes:
        differences: what matters first. unknown: what matters and neither side says.
        missing: entries of the baseline without counterpart; added: those of the other side.
        per_gpu: whether throughputs are compared for each GPU only.
    """

    baseline: Side
    other: Side
    differences: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    missing: tuple[Unpaired, ...] = ()
    added: tuple[Unpaired, ...] = ()
    per_gpu: bool = False

    @property
    def in_the_way(self) -> tuple[Difference, ...]:
        """Differences that make them other populations, which nobody asked for."""
        return tuple(each for each in self.differences if each.matters)

    @property
    def caveat(self) -> str:
        """What each ratio is said with: `not one population: model, concurrency`; empty where it is one."""
        found = caveats(self.differences)
        return f"not one population: {', '.join(found)}" if found else ""

    @property
    def why_no_pair(self) -> str:
        """What keeps the rows of both sides from being pairs, in words."""
        ways: tuple[Callable[[Entry], str], ...] = (
            lambda entry: entry.load,
            lambda entry: entry.config.label,
        )
        for of in ways:
            one, two = (
                {of(subject.entry): 0 for subject in side.subjects} for side in (self.baseline, self.other)
            )
            if not one.keys() & two.keys():
                return f"A has {_some(one)}; B has {_some(two)}"
        return "configuration and load are equal nowhere at once"

    @property
    def same_rows(self) -> bool:
        """Whether both sides are one and the same rows."""
        return bool(self.rows) and all(row.pair.same_row for row in self.rows)


def _some(words: Iterable[str]) -> str:
    found = [one_line(word, 60) for word in words]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def compare_sides(
    baseline: Side, other: Side, *, per_gpu: bool = False, only: Collection[str] = ()
) -> Compared:
    """Compare a side with the baseline; `only` are keys of metrics, empty: all that both have."""
    found: Paired = paired(baseline.subjects, other.subjects)
    accepted = {"gpus"} if per_gpu else set()
    if only and not any(word in key for key in only for word in _SEEN_BY_CLIENT):
        accepted.add("client")
    return Compared(
        baseline=baseline,
        other=other,
        differences=differences(found.pairs, (baseline.told, other.told), accepted),
        unknown=not_known(found.pairs),
        rows=tuple(Row(pair=pair, figures=figures(pair, per_gpu=per_gpu, only=only)) for pair in found.pairs),
        missing=found.missing,
        added=found.added,
        per_gpu=per_gpu,
    )
