"""What a row says over the single requests of its repeats: pooled percentiles, steady state. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fleetbench.model import Workload
from fleetbench.results.rows import MeasurementRow
from fleetbench.results.samples import Samples, latencies
from fleetbench.results.statistics import Spread, spread
from fleetbench.results.steady import steady_state

Reader = Callable[[MeasurementRow], Samples | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Latencies over the requests of all repeats together, under vLLM's names."""

    requests: int
    latencies: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The steady state of all repeats: medians, `output_throughput`, `p99_ttft_ms` … by their names.

    `share` is that of the window in the whole run.
    """

    spreads: Mapping[str, Spread]
    share: Spread


def nothing(row: MeasurementRow) -> Samples | None:
    """Return no requests, for a report without raw files."""
    return None


def pooled(several: Sequence[Samples | None]) -> Pooled | None:
    """Given the requests of each repeat, return their latencies together; None where one's are missing."""
    found = [samples for samples in several if samples is not None and samples.requests]
    if not found or len(found) < len(several):
        return None
    return Pooled(requests=sum(len(samples.requests) for samples in found), latencies=latencies(found))


def steady(several: Sequence[Samples | None], workload: Workload) -> Steady | None:
    """Given the requests of each repeat, return their steady state; None where one has none."""
    found = [steady_state(samples, workload) for samples in several if samples is not None]
    states = [state for state in found if state is not None]
    share = spread(state.share for state in states)
    if share is None or len(states) < len(several):
        return None
    columns: dict[str, list[float]] = {}
    for state in states:
        rates = {
            "output_throughput": state.output_throughput,
            "request_throughput": state.request_throughput,
        }
        for name, value in (*rates.items(), *state.latencies.items()):
            columns.setdefault(name, []).append(value)
    spreads = {name: made for name, values in columns.items() if (made := spread(values)) is not None}
    return Steady(spreads=spreads, share=share)
