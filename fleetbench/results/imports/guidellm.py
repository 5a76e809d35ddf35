"""GuideLLM's `benchmarks.json`: one row for each benchmark in it (names as in GuideLLM 0.8.1).

Names differ from vLLM's, in two places by their meaning. GuideLLM's inter-token latency is one value for each
request, time after the first token over tokens after it: vLLM's TPOT. Its time per output token counts the
first one too, which vLLM has no name for, so it is left out. Latencies are those of requests that succeeded.
A request that was open when the time was up is `incomplete` there: it did not fail, and it is not counted.
Its rates leave the edges of a run out, so rate × duration is not the total: the duration is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fleetbench.errors import Unreadable
from fleetbench.results.imports.documents import at, count, first, number, text
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.values import BenchResult

MOST_BENCHMARKS = 10_000
MOST_WARNINGS = 20
# GuideLLM's key, vLLM's name, factor to milliseconds.
_LATENCIES = (
    ("time_to_first_token_ms", "ttft", 1.0),
    ("inter_token_latency_ms", "tpot", 1.0),
    ("request_latency", "e2el", 1000.0),
)
_STATISTICS = (
    (("mean",), "mean"),
    (("median",), "median"),
    (("std_dev",), "std"),
    (("percentiles", "p90"), "p90"),
    (("percentiles", "p95"), "p95"),
    (("percentiles", "p99"), "p99"),
)


def is_guidellm(document: Any) -> bool:
    """Whether a JSON value is a report of GuideLLM."""
    metrics = at(document, "benchmarks", 0, "metrics")
    return isinstance(metrics, dict) and "requests_per_second" in metrics


def guidellm_rows(document: Any, source: str) -> tuple[ForeignRow, ...]:
    """Given a report, return its benchmarks as rows."""
    benchmarks = at(document, "benchmarks") or []
    if len(benchmarks) > MOST_BENCHMARKS:
        raise Unreadable(f"{source}: more than {MOST_BENCHMARKS:,} benchmarks")
    version = text(at(document, "metadata", "guidellm_version"))
    return tuple(
        _row(entry, document, f"{source} benchmark {n}", version) for n, entry in enumerate(benchmarks, 1)
    )


def _row(entry: Any, document: Any, place: str, version: str) -> ForeignRow:
    metrics = at(entry, "metrics")
    strategy = at(entry, "config", "strategy") or at(entry, "args", "strategy") or first(entry, "strategy")
    totals = at(metrics, "request_totals") or at(entry, "request_totals")
    requests_per_s = _mean(metrics, "requests_per_second")
    completed, failed = count(at(totals, "successful")), count(at(totals, "errored"))
    problems = tuple(_problems(entry, metrics))
    settings = [at(entry, "config"), at(document, "config"), at(document, "args")]
    result = BenchResult(
        completed=completed,
        failed=failed,
        num_prompts=None if completed is None or failed is None else completed + failed,
        max_concurrency=_limit(strategy),
        request_rate=number(at(strategy, "rate")),
        total_input_tokens=count(at(metrics, "prompt_token_count", "successful", "total_sum")),
        total_output_tokens=count(at(metrics, "output_token_count", "successful", "total_sum")),
        request_throughput=requests_per_s,
        output_throughput=_mean(metrics, "output_tokens_per_second"),
        total_token_throughput=_mean(metrics, "tokens_per_second"),
        model_id=text(first(settings, "model", "target_model")) or None,
        latencies=_latencies(metrics),
        extra=_extra(entry, metrics, totals),
    )
    return ForeignRow(
        label=_label(strategy),
        place=place,
        form="guidellm-json",
        conditions=Conditions(
            model=result.model_id or "",
            client=f"guidellm {version}".strip(),
            dataset=text(first(settings, "data", "dataset")),
            input_len=count(first(settings, "prompt_tokens")),
            output_len=count(first(settings, "output_tokens")),
        ),
        result=result,
        problems=problems,
    )


def _problems(entry: Any, metrics: Any) -> Iterator[str]:
    """What GuideLLM itself says against its numbers, a client that was too slow for instance."""
    if not isinstance(metrics, dict):
        yield "it has no metrics"
    warnings = at(entry, "warnings")
    for warning in warnings[:MOST_WARNINGS] if isinstance(warnings, list) else ():
        if said := text(at(warning, "message")):
            yield f"guidellm warns: {said}"


def _mean(metrics: Any, name: str) -> float | None:
    return number(at(metrics, name, "successful", "mean"))


def _limit(strategy: Any) -> int | None:
    """A `concurrent` strategy keeps that many streams open, a `synchronous` one a single one."""
    if at(strategy, "type_") == "synchronous":
        return 1
    return count(at(strategy, "streams")) or count(at(strategy, "max_concurrency"))


def _label(strategy: Any) -> str:
    kind = text(at(strategy, "type_")) or "benchmark"
    size = at(strategy, "streams") or at(strategy, "rate") or at(strategy, "max_concurrency")
    return f"{kind} {size:g}" if number(size) is not None else kind


def _latencies(metrics: Any) -> Mapping[str, float]:
    found = {}
    for key, name, factor in _LATENCIES:
        for path, statistic in _STATISTICS:
            value = number(at(metrics, key, "successful", *path))
            if value is not None:
                found[f"{statistic}_{name}_ms"] = value * factor
    return MappingProxyType(found)


def _extra(entry: Any, metrics: Any, totals: Any) -> Mapping[str, float]:
    values = {
        "achieved_concurrency": _mean(metrics, "request_concurrency"),
        "mean_input_tokens": _mean(metrics, "prompt_token_count"),
        "mean_output_tokens": _mean(metrics, "output_token_count"),
        "incomplete": number(at(totals, "incomplete")),
        "guidellm_duration_s": number(at(entry, "duration")),
    }
    return MappingProxyType({name: value for name, value in values.items() if value is not None})
