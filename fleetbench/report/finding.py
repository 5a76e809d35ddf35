"""What the numbers say, in one sentence for each metric; and nothing that they do not say.

A configuration is the best only when its comparison with each other one says so. Each of these comparisons is
wrong at most five times in a hundred, and all of them have to be, so picking the best of many does not make
more false winners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fleetbench.model import Workload
from fleetbench.report.groups import Group, ranked_groups
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.comparison import SAME_PERCENT, Comparison

MOST_LOADS = 8


class Ranked(Protocol):
    """What has a value that others can be compared with: a group of rows, or an entry."""

    @property
    def name(self) -> str:
        """What it is called."""

    def value(self, metric: Metric) -> float | None:
        """Return its headline of a metric."""

    def against(self, other: Any, metric: Metric) -> Comparison | None:
        """Compare it with another one of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The valid ones under one load, the best first; `name` is the load, `among` all that are shown there."""

    name: str
    order: Sequence[Ranked]
    among: int


def clear_winner(report: Report, rows: Sequence[ReportRow], metric: Metric) -> Group | None:
    """Return the best configuration of a workload's rows when it is better than each other one, else None."""
    order = ranked_groups(report, rows, metric)
    return order[0] if clear(order, metric) else None


def clear(order: Sequence[Ranked], metric: Metric) -> bool:
    """Whether the first of an order, the best first, is better than each of the others."""
    return len(order) > 1 and not near(order, metric)


def near(order: Sequence[Ranked], metric: Metric) -> tuple[Ranked, ...]:
    """Return those that the first of an order is not known to differ from, the nearest first."""
    return tuple(other for other in order[1:] if not _better(_compared(order[0], other, metric), metric))


def not_distinguishable(report: Report, rows: Sequence[ReportRow], metric: Metric) -> tuple[Ranked, ...]:
    """Return the groups that the best one is not known to differ from, the nearest first."""
    return near(ranked_groups(report, rows, metric), metric)


def headlines(report: Report) -> tuple[Metric, ...]:
    """Return the metrics that a report has sentences about: those that a valid row has."""
    valid = [row for row in report.rows if row.valid]
    return tuple(
        metric for metric in METRICS if metric.headline and any(metric.key in row.spreads for row in valid)
    )


def finding(report: Report, metric: Metric) -> str:
    """Return one sentence about a metric over all workloads of a report."""
    workloads = report.workloads
    return about(
        [
            _ranking(report, report.of_workload(workload), metric, brief(workload, workloads))
            for workload in workloads
        ],
        metric,
    )


def about_workload(report: Report, rows: Sequence[ReportRow], metric: Metric) -> str:
    """Return one sentence about a metric within one workload."""
    return about([_ranking(report, rows, metric)], metric)


def about(rankings: Sequence[Ranking], metric: Metric) -> str:
    """Return one sentence about a metric over all loads."""
    measured = [ranking for ranking in rankings if ranking.order]
    if not measured:
        return f"No valid measurement of {metric.title}"
    if len(measured) == 1:
        sentence = _about_one(measured[0], metric)
        return sentence if len(rankings) == 1 else f"{sentence}, for {measured[0].name}"
    winners = [ranking.order[0] if clear(ranking.order, metric) else None for ranking in measured]
    names = {winner.name for winner in winners if winner is not None}
    if None not in winners and len(names) == 1:
        return f"{names.pop()} has the {_word(metric)} {metric.title} in all {len(measured)} workloads"
    if {len(ranking.order) for ranking in measured} == {1} and len({r.order[0].name for r in measured}) == 1:
        return f"{measured[0].order[0].name}: {metric.title} {_over_loads(measured, metric)}"
    if not names and all(len(ranking.order) > 1 for ranking in measured):
        return (
            f"No clear best {metric.title} in any of {len(measured)} workloads: "
            "the leaders are not distinguishable at this noise, or were measured once"
        )
    parts = []
    for ranking, winner in zip(measured, winners, strict=True):
        best = ranking.order[0]
        name = winner.name if winner else f"{best.name} alone" if len(ranking.order) == 1 else "no clear best"
        parts.append(f"{name} at {ranking.name} ({_value(best, metric)})")
    return f"Best {metric.title}: {'; '.join(parts)}"


def _over_loads(rankings: Sequence[Ranking], metric: Metric) -> str:
    """Return the values of a single configuration: `197 tok/s at c=1, 8,281 at c=64 …`."""
    shown = [f"{metric.shown(each.order[0].value(metric))} at {each.name}" for each in rankings[:MOST_LOADS]]
    more = f" and {len(rankings) - MOST_LOADS} more" if len(rankings) > MOST_LOADS else ""
    return f"{', '.join(shown)}{more} ({metric.unit})"


def brief(workload: Workload, among: tuple[Workload, ...]) -> str:
    """Return what tells a workload from the others: its concurrency, its rate, or both if that is enough."""
    if workload.request_rate is not None:
        short = f"{workload.request_rate:g} req/s"
        limits = {other.max_concurrency for other in among if other.request_rate == workload.request_rate}
        if len(limits) > 1:
            limit = workload.max_concurrency
            short += " open" if limit is None else f" c={limit}"
    elif workload.max_concurrency is not None:
        short = f"c={workload.max_concurrency}"
    else:
        short = "no limit"
    same = [
        other
        for other in among
        if (other.request_rate, other.max_concurrency) == (workload.request_rate, workload.max_concurrency)
    ]
    return short if len(same) == 1 else workload.label


def _ranking(report: Report, rows: Sequence[ReportRow], metric: Metric, name: str = "") -> Ranking:
    order = ranked_groups(report, rows, metric)
    others = len(rows) - len(order[0].rows) if order else 0
    return Ranking(name=name, order=order, among=len(rows) if others else 1)


def _about_one(ranking: Ranking, metric: Metric) -> str:
    order = ranking.order
    best, value = order[0], _value(order[0], metric)
    if len(order) == 1:
        others = f", the only valid one of {ranking.among}" if ranking.among > 1 else ""
        return f"{best.name}: {metric.title} {value}{others}"
    second = _compared(best, order[1], metric)
    says = second.sentence(higher_is_better=metric.higher_is_better, against=order[1].name)
    if second.low is None:
        return f"{best.name} measured {_word(metric)} {metric.title}: {value}, {says}"
    undecided = near(order, metric)
    if not undecided:
        start = " (one start each, which may be all that differs)" if second.may_be_the_start else ""
        return f"{best.name} has the {_word(metric)} {metric.title}: {value}, {says}{start}"
    several = f"{len(undecided)} others" if len(undecided) > 1 else undecided[0].name
    names = f"{best.name} and {several}"
    compared = [_compared(best, other, metric) for other in undecided]
    if all(comparison.same for comparison in compared):
        return f"No clear best {metric.title}: {names} are within {SAME_PERCENT:g} %, at {value}"
    unclear = next(comparison for comparison in compared if not comparison.same)
    return f"No clear best {metric.title}: {names}, at {value}, are {unclear.sentence()}"


def _compared(one: Ranked, other: Ranked, metric: Metric) -> Comparison:
    """Return the comparison; one that says nothing where a value is not above 0."""
    return one.against(other, metric) or Comparison(ratio=1.0)


def _better(comparison: Comparison, metric: Metric) -> bool:
    return comparison.differs and (comparison.ratio > 1) is metric.higher_is_better


def _value(ranked: Ranked, metric: Metric) -> str:
    return f"{metric.shown(ranked.value(metric))} {metric.unit}"


def _word(metric: Metric) -> str:
    return "highest" if metric.higher_is_better else "lowest"
