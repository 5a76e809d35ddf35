"""Goodput: requests per second that meet the SLO each by itself, from the single requests. Pure.

The definition is that of DistServe (Zhong et al., OSDI 2024, section 3) with the counting of `vllm bench
serve --goodput`: a request is good when its TTFT, its mean time per output token and its latency all keep
their bounds; the rate is over the duration that the client reports; a request with a single token has no time
per output token, and keeps that bound. Failed requests were sent and are not good.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from fleetbench.choice.objective import GOODPUT
from fleetbench.choice.slo import Slo
from fleetbench.report.entry import Entry
from fleetbench.report.groups import grouped, start_of
from fleetbench.report.per_request import Reader
from fleetbench.report.summary import Report
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import MeasurementRow
from fleetbench.results.samples import Request, Samples

ATTAINMENT = "slo_attainment_share"
"""Key of `Entry.values`: requests that met the SLO over those that were sent, 0 to 1."""

Measured = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the requests of one measurement came to: how many were sent and kept the SLO, in how long."""

    good: int
    sent: int
    duration_s: float

    @property
    def per_second(self) -> float:
        """Goodput in requests per second."""
        return self.good / self.duration_s


@dataclass(frozen=True, slots=True)
class Counting:
    """A `Reader` that counts good requests while a report reads them, so that raw files are read once."""

    read: Reader
    slo: Slo
    kept: dict[Measured, Kept] = field(default_factory=dict)

    def __call__(self, row: MeasurementRow) -> Samples | None:
        """Return the requests of a measurement, and note what they came to."""
        samples = self.read(row)
        found = kept(samples, row.result.duration if row.result is not None else None, self.slo)
        if found is not None:
            self.kept[row.trial, row.workload_index, row.repeat] = found
        return samples


def kept(samples: Samples | None, duration_s: float | None, slo: Slo) -> Kept | None:
    """Given the requests of a measurement, return how many kept the SLO; None where that cannot be told.

    It cannot without requests, without duration, or when no bound is about a single request.
    """
    checks = [
        (_LATENCY[latency], bound) for latency, bound in slo.of_each_request.items() if latency in _LATENCY
    ]
    if samples is None or not duration_s or duration_s <= 0 or not checks:
        return None
    good = sum(
        all(bound.met_by(latency(request) * 1000) for latency, bound in checks)
        for request in samples.requests
    )
    sent = len(samples.requests) + samples.failed + samples.unreadable
    return Kept(good=good, sent=sent, duration_s=duration_s) if sent else None


def with_goodput(
    entries: Iterable[Entry], report: Report, counted: Mapping[Measured, Kept]
) -> tuple[Entry, ...]:
    """Return the entries of a run with goodput and attainment where all their repeats kept their requests."""
    rows: dict[tuple[int | None, int | None], list[tuple[str, MeasurementRow]]] = {}
    for workload in report.workloads:
        for group in grouped(report, report.of_workload(workload)):
            first = group.rows[0]
            rows[first.trial.number, first.workload_index] = [
                (start_of(row), repeat) for row in group.rows for repeat in row.repeats
            ]
    return tuple(
        _with(entry, rows.get((entry.trial, entry.workload_index), []), counted) for entry in entries
    )


def _with(entry: Entry, repeats: list[tuple[str, MeasurementRow]], counted: Mapping[Measured, Kept]) -> Entry:
    found = [
        (counted.get((repeat.trial, repeat.workload_index, repeat.repeat)), start, repeat.seed)
        for start, repeat in repeats
    ]
    known = [(one, start, seed) for one, start, seed in found if one is not None]
    if not entry.valid or not known or len(known) < len(found):
        return entry
    seen = tuple(Observation(value=one.per_second, start=start, seed=seed) for one, start, seed in known)
    share = sum(one.good for one, *_ in known) / sum(one.sent for one, *_ in known)
    typical = statistics.median(one.value for one in seen)
    return replace(
        entry,
        values={**entry.values, GOODPUT.key: typical, ATTAINMENT: share},
        observations={**entry.observations, GOODPUT.key: seen},
    )


def _tpot_s(request: Request) -> float:
    return request.tpot_s or 0.0


_LATENCY: Mapping[str, Callable[[Request], float]] = {
    "ttft": lambda request: request.ttft_s,
    "tpot": _tpot_s,
    "e2el": lambda request: request.e2el_s,
}
