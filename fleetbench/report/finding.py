"""What the numbers say, in one sentence for each metric; and nothing that they do not say."""

from __future__ import annotations

from fleetbench.model import Workload
from fleetbench.report.metrics import Metric
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.statistics import Spread


def ranked(rows: tuple[ReportRow, ...], metric: Metric) -> tuple[ReportRow, ...]:
    """Return the valid rows that have the metric, the best median first."""
    found = [row for row in rows if row.valid and metric.key in row.spreads]
    sign = -1 if metric.higher_is_better else 1
    return tuple(sorted(found, key=lambda row: sign * row.spreads[metric.key].median))


def clear_winner(rows: tuple[ReportRow, ...], metric: Metric) -> ReportRow | None:
    """Return the best row when its repeats stay clear of every other row's, else None."""
    order = ranked(rows, metric)
    if len(order) < 2 or any(row.spreads[metric.key].count < 2 for row in order[:2]):
        return None
    best = order[0].spreads[metric.key]
    return None if any(best.overlaps(row.spreads[metric.key]) for row in order[1:]) else order[0]


def finding(report: Report, metric: Metric) -> str:
    """Return one sentence about a metric over all workloads of a report."""
    workloads = report.workloads
    if len(workloads) == 1:
        return about_workload(report.of_workload(workloads[0]), metric)
    order = {workload: ranked(report.of_workload(workload), metric) for workload in workloads}
    measured = [workload for workload in workloads if order[workload]]
    if not measured:
        return f"No valid measurement of {metric.title}"
    if len(measured) == 1:
        sentence = about_workload(report.of_workload(measured[0]), metric)
        return f"{sentence}, for {brief(measured[0], workloads)}"
    winners = {workload: clear_winner(report.of_workload(workload), metric) for workload in measured}
    names = {row.name for row in winners.values() if row is not None}
    if None not in winners.values() and len(names) == 1:
        word = "highest" if metric.higher_is_better else "lowest"
        return f"{names.pop()} has the {word} {metric.title} in all {len(measured)} workloads"
    if not names:
        return (
            f"No clear best {metric.title} in any of {len(measured)} workloads: "
            "the leaders lie within each other's spread, or were measured once"
        )
    parts = []
    for workload in measured:
        row = winners[workload]
        value = f"{metric.shown(order[workload][0].spreads[metric.key].median)} {metric.unit}"
        lone = len(order[workload]) == 1
        name = row.name if row else f"{order[workload][0].name} alone" if lone else "no clear best"
        parts.append(f"{name} at {brief(workload, workloads)} ({value})")
    return f"Best {metric.title}: {'; '.join(parts)}"


def about_workload(rows: tuple[ReportRow, ...], metric: Metric) -> str:
    """Return one sentence about a metric within one workload."""
    order = ranked(rows, metric)
    if not order:
        return f"No valid measurement of {metric.title}"
    best = order[0]
    first = best.spreads[metric.key]
    value = f"{metric.shown(first.median)} {metric.unit}"
    if len(order) == 1:
        others = f", the only valid one of {len(rows)}" if len(rows) > 1 else ""
        return f"{best.name}: {metric.title} {value}{others}"
    second = order[1].spreads[metric.key]
    word = "highest" if metric.higher_is_better else "lowest"
    against = f"{_percent(first, second)} {order[1].name}"
    if min(first.count, second.count) < 2:
        return f"{best.name} measured {word} {metric.title}: {value}, {against} (one run, spread unknown)"
    if clear_winner(rows, metric) is None:
        near = [row for row in order[1:] if first.overlaps(row.spreads[metric.key])]
        names = f"{best.name} and {near[0].name}" if len(near) == 1 else f"{best.name} and {len(near)} others"
        return f"No clear best {metric.title}: {names} lie within each other's spread, at {value}"
    return f"{best.name} has the {word} {metric.title}: {value}, {against}"


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


def _percent(first: Spread, second: Spread) -> str:
    if not second.median:
        return "not comparable with"
    change = (first.median / second.median - 1) * 100
    return f"{abs(change):.{1 if abs(change) < 10 else 0}f} % {'above' if change > 0 else 'below'}"
