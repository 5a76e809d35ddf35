"""Rows of one configuration, however often it was started, and the comparison of two configurations. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleetbench.errors import one_line
from fleetbench.report.metrics import Metric
from fleetbench.report.per_request import Pooled
from fleetbench.report.summary import Report, ReportRow, Served, served
from fleetbench.results.comparison import Comparison, Observation, compare
from fleetbench.results.statistics import Spread, nested_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The valid rows of one GPU, configuration and workload, mostly one for each start of a server.

    `pooled` is over the requests of all of them.
    """

    name: str
    rows: tuple[ReportRow, ...]
    pooled: Pooled | None = None

    def values(self, metric: Metric) -> tuple[tuple[float, ...], ...]:
        """Return a metric's values, those of each start together."""
        found: dict[str, list[float]] = {}
        for observation in self.observations(metric):
            found.setdefault(observation.start, []).append(observation.value)
        return tuple(map(tuple, found.values()))

    @property
    def starts(self) -> int:
        """How many servers' lives its rows come from."""
        return len({start_of(row) for row in self.rows})

    def observations(self, metric: Metric) -> list[Observation]:
        """Return what each repeat says of a metric, where it says anything."""
        return [
            Observation(value=value, start=start_of(row), seed=repeat.seed)
            for row in self.rows
            for repeat in row.repeats
            if (value := metric.of(repeat.result)) is not None
        ]

    def spread(self, metric: Metric) -> Spread | None:
        """Return the spread of a metric over all repeats of all starts; None where no repeat has it."""
        return nested_spread(self.values(metric))

    def value(self, metric: Metric) -> float | None:
        """Return a metric's headline: a percentile over all requests, anything else the median repeat."""
        if len(self.rows) == 1:
            return self.rows[0].value(metric)
        if self.pooled is not None and metric.key in self.pooled.latencies:
            return self.pooled.latencies[metric.key]
        found = self.spread(metric)
        return found.median if found else None

    def against(self, other: Group, metric: Metric) -> Comparison:
        """Compare this group with another; one that says nothing where a value is not above 0."""
        one, two = self.observations(metric), other.observations(metric)
        if self._clients() != other._clients():  # another client draws other prompts from the same seed
            one = [replace(found, seed=None) for found in one]
            two = [replace(found, seed=None) for found in two]
        return compare(one, two) or Comparison(ratio=1.0)

    def _clients(self) -> set[str]:
        repeats = (repeat for row in self.rows for repeat in row.repeats)
        return {repeat.client_program.partition(",")[0] for repeat in repeats}


def grouped(report: Report, rows: Iterable[ReportRow]) -> tuple[Group, ...]:
    """Return the groups of the valid rows of one workload, in the order in which they first appear."""
    found: dict[Served, list[ReportRow]] = {}
    for row in rows:
        if row.valid:
            found.setdefault(served(row.trial), []).append(row)
    return tuple(
        Group(
            name=group[0].name if len(group) == 1 else one_line(_name(key, found)),
            rows=tuple(group),
            pooled=report.pooled.get((key, group[0].workload)),
        )
        for key, group in found.items()
    )


def _name(key: Served, among: Iterable[Served]) -> str:
    """Return the configuration, with the GPU where another one has it too."""
    gpu, config = key
    twice = sum(other == config for _, other in among) > 1
    return f"{gpu} {config.label}" if twice and gpu else config.label


def ranked_groups(report: Report, rows: Iterable[ReportRow], metric: Metric) -> tuple[Group, ...]:
    """Return the groups that have the metric, the best first."""
    sign = -1 if metric.higher_is_better else 1
    found = [
        (sign * value, group) for group in grouped(report, rows) if (value := group.value(metric)) is not None
    ]
    return tuple(group for _, group in sorted(found, key=lambda pair: pair[0]))


def start_of(row: ReportRow) -> str:
    """Return which start of a server a row is about: what systemd calls its invocation, else the trial."""
    return str(row.trial.effective.get("invocation") or f"{row.trial.run_id}/{row.trial.number}")
