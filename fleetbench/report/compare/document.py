"""A comparison for programs: JSON, and one row for each metric of each pair. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.report.columns import Cell, Table
from fleetbench.report.compare.compared import Compared, Row
from fleetbench.report.compare.failing import Finding, Outcome
from fleetbench.report.compare.figures import Figure
from fleetbench.report.compare.pairs import Subject, Unpaired
from fleetbench.report.compare.reading import Side
from fleetbench.report.entry import Entry

FORMAT, VERSION = "fleetbench-comparison", 1
_FIGURE = (
    *("metric", "unit", "higher_is_better", "baseline", "other", "ratio", "ratio_low", "ratio_high"),
    *("method", "baseline_count", "other_count", "counted", "better", "says", "caveat"),
)
COLUMNS = (
    *("comparison", "configuration", "load", "baseline_source", "baseline_place", "baseline_status"),
    *("other_source", "other_place", "other_status", *_FIGURE),
)


def document(
    compared: Sequence[Compared], outcome: Outcome | None, *, anyway: bool, strict: bool
) -> dict[str, object]:
    """Return everything as a JSON-able object; ratios are left out where populations may not be compared."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "comparisons": [_comparison(one, anyway=anyway) for one in compared],
        "fail_on": None
        if outcome is None
        else {
            "failed": outcome.failed(strict=strict),
            "judged": outcome.judged,
            "regressions": [_finding(finding) for finding in outcome.regressions],
            "not_ruled_out": [_finding(finding) for finding in outcome.unclear],
        },
    }


def figure_table(compared: Sequence[Compared], *, anyway: bool) -> Table:
    """Return one row for each metric of each pair, and one without a metric for what has no counterpart."""
    return Table(COLUMNS, tuple(row for one in compared for row in _rows(one, anyway=anyway)))


def _comparison(one: Compared, *, anyway: bool) -> dict[str, object]:
    refused = bool(one.in_the_way) and not anyway
    return {
        "baseline": _side(one.baseline),
        "other": _side(one.other),
        "same_rows": one.same_rows,
        "per_gpu": one.per_gpu,
        "refused": refused,
        "caveat": one.caveat or None,
        "differences": [
            {
                "key": each.key,
                "title": each.title,
                "baseline": each.one,
                "other": each.other,
                "matters": each.matters,
                "asked_for": each.asked,
                "pairs": list(each.pairs) or None,
            }
            for each in one.differences
        ],
        "known_of_neither": list(one.unknown),
        "pairs": [_pair(one, row, refused=refused) for row in one.rows],
        "only_in_baseline": [_alone(each) for each in one.missing],
        "only_in_other": [_alone(each) for each in one.added],
    }


def _side(side: Side) -> dict[str, object]:
    return {"label": side.label, "about": side.about, "sources": list(side.sources)}


def _pair(one: Compared, row: Row, *, refused: bool) -> dict[str, object]:
    return {
        "configuration": row.pair.name,
        "load": row.pair.load,
        "baseline": _entry(row.pair.baseline),
        "other": _entry(row.pair.other),
        "metrics": []
        if refused
        else [dict(zip(_FIGURE, _figure(one, figure), strict=True)) for figure in row.figures],
    }


def _entry(subject: Subject) -> dict[str, object]:
    entry = subject.entry
    return {
        **_where(entry),
        "cause": entry.cause or None,
        "repeats": entry.repeats,
        "beside": [_where(other.entry) for other in subject.beside],
        "conditions": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in subject.conditions.items()
        },
    }


def _where(entry: Entry) -> dict[str, object]:
    return {
        "source": entry.source,
        "imported": entry.imported,
        "place": entry.place,
        "name": entry.name,
        "status": entry.status.value,
    }


def _alone(each: Unpaired) -> dict[str, object]:
    return {**_where(each.subject.entry), "load": each.subject.entry.load, "why": each.why or None}


def _finding(finding: Finding) -> dict[str, object]:
    return {"row": finding.row, "metric": finding.metric or None, "says": finding.text}


def _figure(one: Compared, figure: Figure) -> Iterator[Cell]:
    metric, found = figure.metric, figure.comparison
    yield from (metric.key, metric.unit, metric.higher_is_better, figure.baseline, figure.other)
    yield from (found.ratio, found.low, found.high, found.method or None) if found else (None,) * 4
    yield from (found.counts[1], found.counts[0], found.unit) if found else (None,) * 3
    yield from (figure.better, figure.sentence, one.caveat or None)


def _rows(one: Compared, *, anyway: bool) -> Iterator[tuple[Cell, ...]]:
    title = f"{one.other.label} against {one.baseline.label}"
    for row in one.rows:
        place = (title, row.pair.name, row.pair.load)
        sides = (*_cells(row.pair.baseline.entry), *_cells(row.pair.other.entry))
        shown = row.figures if anyway or not one.in_the_way else ()
        for figure in shown:
            yield (*place, *sides, *_figure(one, figure))
        if not shown:
            yield (*place, *sides, *(None,) * len(_FIGURE))
    for each in one.missing:
        entry = each.subject.entry
        yield (title, entry.name, entry.load, *_cells(entry), *(None,) * (3 + len(_FIGURE)))
    for each in one.added:
        entry = each.subject.entry
        yield (title, entry.name, entry.load, *(None,) * 3, *_cells(entry), *(None,) * len(_FIGURE))


def _cells(entry: Entry) -> tuple[Cell, ...]:
    return entry.source, entry.place, entry.status.value
