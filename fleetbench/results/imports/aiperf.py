"""AIPerf's `profile_export_aiperf.json`, and GenAI-Perf's, whose form it keeps: one row for each file.

AIPerf's inter-token latency is one value for each request, time after the first token over tokens after it:
vLLM's TPOT. Its inter-chunk latency, the gaps themselves, has values for each request and no mean over all,
so it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fleetbench.results.imports.documents import at, count, first, number, text
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.values import BenchResult

_LATENCIES = (
    ("time_to_first_token", "ttft"),
    ("inter_token_latency", "tpot"),
    ("request_latency", "e2el"),
)
_STATISTICS = (
    ("avg", "mean"),
    ("p50", "median"),
    ("std", "std"),
    ("min", "min"),
    ("max", "max"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
)
_TO_MS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "us": 0.001, "ns": 1e-6}
_TO_S = {unit: factor / 1000 for unit, factor in _TO_MS.items()}
_MEASURED = ("request_throughput", "output_token_throughput", "request_latency")
_OPTION = re.compile(r"--(concurrency|request-rate|request-count|model|isl|osl)[ =]'?([^\s']{1,200})")
_OPTION_LENGTH = 20_000


def is_aiperf(document: Any) -> bool:
    """Whether a JSON value is an export of AIPerf or GenAI-Perf."""
    return any(isinstance(at(document, name, "unit"), str) for name in _MEASURED)


def aiperf_rows(document: Any, source: str) -> tuple[ForeignRow, ...]:
    """Given an export, return its one row."""
    settings = at(document, "input_config")
    command = at(document, "run_info", "cli_command") or first(settings, "cli_command") or ""
    options = dict(_OPTION.findall(str(command)[:_OPTION_LENGTH]))
    completed, failed = _count(document, "request_count"), _count(document, "error_request_count")
    version = text(at(document, "aiperf_version"))
    # AIPerf leaves the count of errors out where there are none; a run that was cut off has no say.
    whole = at(document, "is_complete") is not False and at(document, "was_cancelled") is not True
    if failed is None and version and whole and not at(document, "error_summary"):
        failed = 0
    result = BenchResult(
        completed=completed,
        failed=failed,
        num_prompts=_setting(settings, options, "request-count", "request_count", "requests"),
        max_concurrency=_setting(settings, options, "concurrency", "concurrency"),
        request_rate=number(first(settings, "request_rate")),
        duration=_scaled(document, "benchmark_duration", "avg", _TO_S),
        total_input_tokens=_count(document, "total_isl"),
        total_output_tokens=_count(document, "total_osl"),
        request_throughput=_value(document, "request_throughput"),
        request_goodput=_value(document, "goodput"),
        output_throughput=_value(document, "output_token_throughput"),
        total_token_throughput=_value(document, "total_token_throughput"),
        model_id=_model(settings) or options.get("model"),
        latencies=_latencies(document),
        extra=_extra(document),
    )
    conditions = Conditions(
        model=result.model_id or "",
        client=f"aiperf {version}" if version else "genai-perf",
        input_len=_setting(first(settings, "isl"), options, "isl", "mean"),
        output_len=_setting(first(settings, "osl"), options, "osl", "mean"),
    )
    problems = () if whole else (text(at(document, "incomplete_reason")) or "the run was cut off",)
    return (
        ForeignRow(
            label=text(at(document, "run_info", "run_label")) or text(at(document, "benchmark_id")),
            place=source,
            form="aiperf-json",
            conditions=conditions,
            result=result,
            complete=whole,
            problems=problems,
        ),
    )


def _model(settings: Any) -> str:
    listed = text(at(settings, "models", "items", 0, "name"))
    return listed or text(first(settings, "model_names", "models", "model"))


def _value(document: Any, name: str) -> float | None:
    return number(at(document, name, "avg"))


def _count(document: Any, name: str) -> int | None:
    return count(at(document, name, "avg"))


def _scaled(document: Any, name: str, statistic: str, factors: Mapping[str, float]) -> float | None:
    value, factor = number(at(document, name, statistic)), factors.get(text(at(document, name, "unit")))
    return value * factor if value is not None and factor is not None else None


def _setting(settings: Any, options: Mapping[str, str], option: str, *names: str) -> int | None:
    """A setting stands in the configuration that was resolved, or in the command as it was typed."""
    found = count(first(settings, *names))
    typed = options.get(option, "")
    return found if found is not None else int(typed) if re.fullmatch(r"\d{1,12}", typed) else None


def _latencies(document: Any) -> Mapping[str, float]:
    found = {}
    for key, name in _LATENCIES:
        for statistic, prefix in _STATISTICS:
            value = _scaled(document, key, statistic, _TO_MS)
            if value is not None:
                found[f"{prefix}_{name}_ms"] = value
    return MappingProxyType(found)


def _extra(document: Any) -> Mapping[str, float]:
    values = {
        "mean_input_tokens": _value(document, "input_sequence_length"),
        "mean_output_tokens": _value(document, "output_sequence_length"),
        "input_throughput": _value(document, "input_token_throughput"),
    }
    return MappingProxyType({name: value for name, value in values.items() if value is not None})
