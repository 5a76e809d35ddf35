"""The numbers that a report shows, in their order, with name, unit and direction."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.results.values import BenchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of a result.

    Attributes:
        key: vLLM's name in its result JSON, and the column's name in CSV.
        heading: for table columns. title: for charts and sentences, without the unit.
        chart: whether it gets a chart of its own. table: whether it is a column on the terminal.
    """

    key: str
    heading: str
    title: str
    unit: str
    higher_is_better: bool = False
    chart: bool = True
    table: bool = True

    def of(self, result: BenchResult | None) -> float | None:
        """Return the metric's value in a result; None when it is unknown."""
        if result is None:
            return None
        if self.key in BenchResult.__dataclass_fields__:
            value: float | None = getattr(result, self.key)
            return value
        value = result.latencies.get(self.key)
        if value is None and self.key.startswith("median_"):
            value = result.latencies.get(self.key.replace("median_", "p50_"))
        return value

    def shown(self, value: float | None) -> str:
        """Return a value as it is printed, without its unit: three digits that mean something."""
        if value is None:
            return "–"
        decimals = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
        return f"{value:,.{decimals}f}"


def _throughput(key: str, heading: str, title: str, unit: str) -> Metric:
    return Metric(key=key, heading=heading, title=title, unit=unit, higher_is_better=True)


def _latency(short: str, title: str, *, chart: bool = True, table: bool = True) -> tuple[Metric, Metric]:
    name = short.upper()
    return (
        Metric(
            key=f"median_{short}_ms",
            heading=f"{name} p50 ms",
            title=f"median {title}",
            unit="ms",
            chart=chart,
            table=table,
        ),
        Metric(
            key=f"p99_{short}_ms",
            heading=f"{name} p99 ms",
            title=f"p99 {title}",
            unit="ms",
            chart=chart,
            table=table,
        ),
    )


OUTPUT = _throughput("output_throughput", "out tok/s", "output throughput", "tok/s")

METRICS: tuple[Metric, ...] = (
    OUTPUT,
    _throughput("total_token_throughput", "total tok/s", "total throughput (input and output)", "tok/s"),
    _throughput("request_throughput", "req/s", "request throughput", "req/s"),
    *_latency("ttft", "time to first token"),
    *_latency("tpot", "time per output token"),
    *_latency("itl", "inter-token latency", table=False),
    *_latency("e2el", "end-to-end latency", table=False),
)
