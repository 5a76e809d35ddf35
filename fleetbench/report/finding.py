"""What the numbers say, in one sentence for each metric; and nothing that they do not say.

A configuration is the best only when its comparison with each other one says so. Each of these comparisons is
wrong at most five times in a hundred, and all of them have to be, so picking the best of many does not make
more false winners.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.model import Workload
from fleetbench.report.groups import Group, ranked_groups
from fleetbench.report.metrics import Metric
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.comparison import SAME_PERCENT, Comparison


def clear_winner(report: Report, rows: Sequence[ReportRow], metric: Metric) -> Group | None:
    """Return the best configuration of a workload's rows when it is better than each other one, else None."""
    order = ranked_groups(report, rows, metric)
    if len(order) < 2 or not all(_better(order[0].against(other, metric), metric) for other in order[1:]):
        return None
    return order[0]


def not_distinguishable(report: Report, rows: Sequence[ReportRow], metric: Metric) -> tuple[Group, ...]:
    """Return the groups that the best one is not known to differ from, the nearest first."""
    order = ranked_groups(report, rows, metric)
    return tuple(other for other in order[1:] if not _better(order[0].against(other, metric), metric))


def finding(report: Report, metric: Metric) -> str:
    """Return one sentence about a metric over all workloads of a report."""
    workloads = report.workloads
    rows = {workload: report.of_workload(workload) for workload in workloads}
    if len(workloads) == 1:
        return about_workload(report, rows[workloads[0]], metric)
    order = {workload: ranked_groups(report, rows[workload], metric) for workload in workloads}
    measured = [workload for workload in workloads if order[workload]]
    if not measured:
        return f"No valid measurement of {metric.title}"
    if len(measured) == 1:
        sentence = about_workload(report, rows[measured[0]], metric)
        return f"{sentence}, for {brief(measured[0], workloads)}"
    winners = {workload: clear_winner(report, rows[workload], metric) for workload in measured}
    names = {group.name for group in winners.values() if group is not None}
    if None not in winners.values() and len(names) == 1:
        return f"{names.pop()} has the {_word(metric)} {metric.title} in all {len(measured)} workloads"
    if not names:
        return (
            f"No clear best {metric.title} in any of {len(measured)} workloads: "
            "the leaders are not distinguishable at this noise, or were measured once"
        )
    parts = []
    for workload in measured:
        winner = winners[workload]
        lone = len(order[workload]) == 1
        name = winner.name if winner else f"{order[workload][0].name} alone" if lone else "no clear best"
        parts.append(f"{name} at {brief(workload, workloads)} ({_value(order[workload][0], metric)})")
    return f"Best {metric.title}: {'; '.join(parts)}"


def about_workload(report: Report, rows: Sequence[ReportRow], metric: Metric) -> str:
    """Return one sentence about a metric within one workload."""
    order = ranked_groups(report, rows, metric)
    if not order:
        return f"No valid measurement of {metric.title}"
    best, value = order[0], _value(order[0], metric)
    if len(order) == 1:
        others = f", the only valid one of {len(rows)}" if len(rows) > len(best.rows) else ""
        return f"{best.name}: {metric.title} {value}{others}"
    second = best.against(order[1], metric)
    says = second.sentence(higher_is_better=metric.higher_is_better, against=order[1].name)
    if second.low is None:
        return f"{best.name} measured {_word(metric)} {metric.title}: {value}, {says}"
    near = not_distinguishable(report, rows, metric)
    if not near:
        start = " (one start each, which may be all that differs)" if second.may_be_the_start else ""
        return f"{best.name} has the {_word(metric)} {metric.title}: {value}, {says}{start}"
    names = f"{best.name} and {near[0].name}" if len(near) == 1 else f"{best.name} and {len(near)} others"
    compared = [best.against(group, metric) for group in near]
    if all(comparison.same for comparison in compared):
        return f"No clear best {metric.title}: {names} are within {SAME_PERCENT:g} %, at {value}"
    unclear = next(comparison for comparison in compared if not comparison.same)
    return f"No clear best {metric.title}: {names}, at {value}, are {unclear.sentence()}"


def brief(workload: Workload, among: tuple[Workload, ...]) -> str:
    """Return what tells a workload from the others: its concurrency or rate if that is enough."""
    if workload.request_rate is not None:
        short = f"{workload.request_rate:g} req/s"
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


def _better(comparison: Comparison, metric: Metric) -> bool:
    return comparison.differs and (comparison.ratio > 1) is metric.higher_is_better


def _value(group: Group, metric: Metric) -> str:
    return f"{metric.shown(group.value(metric))} {metric.unit}"


def _word(metric: Metric) -> str:
    return "highest" if metric.higher_is_better else "lowest"
