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
        table: whether it is a column on the terminal.
        headline: whether a sentence is said about it in the text.
    """

    key: str
    heading: str
    title: str
    unit: str
    higher_is_better: bool = False
    table: bool = True
    headline: bool = True

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


def rounded(value: float | None) -> int | float | None:
    """Return a value with the digits that a table needs: whole above 1000, else two after the point."""
    if value is None:
        return None
    return round(value) if abs(value) >= 1000 else round(value, 2)


def _throughput(key: str, heading: str, title: str, unit: str, *, headline: bool = False) -> Metric:
    return Metric(key=key, heading=heading, title=title, unit=unit, higher_is_better=True, headline=headline)


def _latency(short: str, title: str, *, table: bool = True) -> tuple[Metric, Metric]:
    name = short.upper()
    return (
        Metric(
            key=f"median_{short}_ms",
            heading=f"{name} p50 ms",
            title=f"median {title}",
            unit="ms",
            table=table,
            headline=table,
        ),
        Metric(
            key=f"p99_{short}_ms",
            heading=f"{name} p99 ms",
            title=f"p99 {title}",
            unit="ms",
            table=table,
            headline=short == "ttft",
        ),
    )


OUTPUT = _throughput("output_throughput", "out tok/s", "output throughput", "tok/s", headline=True)

# What is compared beside what vLLM reports; `Entry.values` has them under these keys where they are known.
PER_GPU = _throughput("output_throughput_per_gpu", "out tok/s/GPU", "output throughput per GPU", "tok/s/GPU")
PER_USER = _throughput("user_output_tps", "tok/s/user", "output speed that one user sees", "tok/s/user")
PROMPT = _throughput("prompt_tps", "prompt tok/s", "prompt throughput", "tok/s")
PER_REQUEST = _throughput(
    "request_generation_level_tps", "tok/s/request", "output rate of one request, waiting included", "tok/s"
)
PROMPT_PER_REQUEST = _throughput(
    "request_prompt_level_tps",
    "prompt tok/s/request",
    "prompt rate of one request, waiting included",
    "tok/s",
)
PER_JOULE = _throughput("output_tokens_per_joule", "tok/J", "output tokens per joule of the GPUs", "tok/J")
MEAN_LATENCY = Metric(key="mean_e2el_ms", heading="E2EL mean ms", title="mean end-to-end latency", unit="ms")
DERIVED = (PER_GPU, PER_USER, PROMPT, PER_REQUEST, PROMPT_PER_REQUEST, PER_JOULE, MEAN_LATENCY)

METRICS: tuple[Metric, ...] = (
    OUTPUT,
    _throughput("total_token_throughput", "total tok/s", "total throughput (input and output)", "tok/s"),
    _throughput("request_throughput", "req/s", "request throughput", "req/s"),
    *_latency("ttft", "time to first token"),
    *_latency("tpot", "time per output token"),
    *_latency("itl", "inter-token latency", table=False),
    *_latency("e2el", "end-to-end latency", table=False),
)
