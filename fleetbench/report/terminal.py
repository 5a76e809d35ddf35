"""A report as tables for people, on a terminal or in Markdown: what one compares, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from fleetbench.errors import one_line
from fleetbench.report import nearness
from fleetbench.report.columns import Cell, Table
from fleetbench.report.groups import Group, ranked_groups
from fleetbench.report.metrics import METRICS, OUTPUT, Metric, rounded
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.rules.table import thresholds
from fleetbench.results.statistics import Spread

SUSPECT, INVALID = "?", "✗"  # behind a number


class Uncertain(float):
    """A number that is shown in brackets, because too little is behind it."""

    def __format__(self, form: str) -> str:
        return f"({super().__format__(form) if abs(self) < 1000 else format(round(self), ',')})"


class Marked(float):
    """A number of a row that is not valid, with the mark that says so; `weak`: in brackets, too."""

    mark: str
    weak: bool

    def __new__(cls, value: float, mark: str = SUSPECT, *, weak: bool = False) -> Self:
        """Take the number as it is rounded."""
        made = super().__new__(cls, value)
        made.mark, made.weak = mark, weak
        return made

    def __format__(self, form: str) -> str:
        plain = super().__format__(form) if abs(self) < 1000 else format(round(self), ",")
        return f"({plain}) {self.mark}" if self.weak else f"{plain} {self.mark}"


# What stands beside the output throughput: heading -> value of a row. A column without any value is left out.
BESIDE_OUTPUT: dict[str, Callable[[ReportRow], Cell]] = {
    "95 % interval": lambda row: interval_text(row.spreads.get(OUTPUT.key)),
    "±%": lambda row: _one_digit(_part(row.spreads.get(OUTPUT.key), "cv_percent")),
    "steady": lambda row: rounded(
        _part(row.steady.spreads.get(OUTPUT.key), "median") if row.steady else None
    ),
    "warm-up": lambda row: rounded(row.warmup_output_throughput),
    "of ceiling %": lambda row: _one_digit(nearness.median(row.repeats, "of_ceiling_percent")),
    "binds": lambda row: nearness.word(row.repeats, "binds"),
}


def terminal_table(report: Report) -> Table:
    """Return the report for people: headlines, interval and spread, status."""
    metrics = [
        metric for metric in METRICS if metric.table and any(metric.key in row.spreads for row in report.rows)
    ]
    several = len(report.workloads) > 1
    columns = ["configuration", *(["workload"] if several else []), "status"]
    beside = {heading: [of(row) for row in report.rows] for heading, of in BESIDE_OUTPUT.items()}
    beside = {heading: column for heading, column in beside.items() if column.count(None) < len(column)}
    for metric in metrics:
        columns += [metric.heading, *(beside if metric is OUTPUT else ())]
    rows = []
    for place, row in enumerate(report.rows):
        cells: list[Cell] = [row.name, *([one_line(row.workload.label)] if several else []), row.status]
        for metric in metrics:
            cells.append(headline(row, metric))
            if metric is OUTPUT:
                cells += [column[place] for column in beside.values()]
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def headline(row: ReportRow, metric: Metric) -> Cell:
    """Return a metric as a table shows it.

    A p99 that rests on too few requests is in brackets, and a number of a suspect row has a question mark.
    """
    value = rounded(row.value(metric))
    if value is None:
        return None
    weak = rests_on_few(row, metric)
    if not row.valid:
        return Marked(value, weak=weak)
    return Uncertain(value) if weak else value


def rests_on_few(row: ReportRow, metric: Metric) -> bool:
    """Whether a row's metric is a p99 over fewer requests than it takes."""
    behind = row.pooled.requests if row.pooled is not None else _fewest_completed(row)
    return metric.key.startswith("p99_") and behind < thresholds().p99_samples


def interval_text(found: Spread | None) -> str | None:
    """Return the interval of a spread as `98.5–103.5`; None where there is none."""
    if found is None or found.interval is None:
        return None
    low, high = found.interval.low, found.interval.high
    decimals = 0 if high >= 1000 else 1 if high >= 100 else 2
    return f"{low:,.{decimals}f}–{high:,.{decimals}f}"


def certainty_table(report: Report) -> Table:
    """Return how sure each valid configuration's output throughput is, and how it compares with the best."""
    several = len(report.workloads) > 1
    columns = (
        *("configuration", *(("workload",) if several else ())),
        *("starts", "repeats", OUTPUT.heading, "95 % interval", "±% repeats", "±% starts"),
        "against the best",
    )
    rows = []
    for workload in report.workloads:
        order = ranked_groups(report, report.of_workload(workload), OUTPUT)
        for group in order:
            label = (one_line(workload.label),) if several else ()
            rows.append((group.name, *label, *_certainty(group), _against_best(group, order[0])))
    return Table(columns, tuple(rows))


def nearness_table(report: Report) -> Table:
    """Return how near each row came to what its hardware can do, and what held it back; no row where no
    ceiling is known."""
    several = len(report.workloads) > 1
    names = ("of ceiling %", "of strict %", "decode %", "prefill %", "binds", "why")
    columns = ("configuration", *(("workload",) if several else ()), *names)
    keys = ("of_ceiling_percent", "of_strict_percent", "decode_percent", "prefill_percent")
    rows = [
        (
            row.name,
            *((one_line(row.workload.label),) if several else ()),
            *(_one_digit(nearness.median(row.repeats, key)) for key in keys),
            nearness.word(row.repeats, "binds"),
            nearness.reason(row.repeats),
        )
        for row in report.rows
        if any(repeat.ceiling for repeat in row.repeats)
    ]
    return Table(columns, tuple(rows))


def _certainty(group: Group) -> Iterator[Cell]:
    found = group.spread(OUTPUT)
    yield from (group.starts, _part(found, "count"), rounded(group.value(OUTPUT)))
    yield interval_text(found)
    yield from (_one_digit(_part(found, f"{level}_percent")) for level in ("within", "between"))


def _against_best(group: Group, best: Group) -> str | None:
    return None if group is best else group.against(best, OUTPUT).sentence()


def _part(found: Spread | None, name: str) -> int | float | None:
    part: int | float | None = getattr(found, name) if found is not None else None
    return part


def _one_digit(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _fewest_completed(row: ReportRow) -> int:
    found = (repeat.result.completed or 0 for repeat in row.repeats if repeat.result is not None)
    return min(found, default=0)
