"""Numbers that follow from what a source prints. Each is named with how it follows; nothing is guessed.

For a request that completed: latency = TTFT + (tokens − 1) × TPOT, which is how vLLM defines TPOT. In place
of TPOT, ITL is the same where each piece of the stream holds one token; in place of generated tokens, the
length asked for is where answers do not end earlier.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from fleetbench.results.imports.values import ForeignRow
from fleetbench.results.values import BenchResult


def derived(row: ForeignRow) -> ForeignRow:
    """Given a row as it was read, return it with what follows from it."""
    found: dict[str, str] = dict(row.derived)
    result = _counts(row.result, found)
    latency, how = _latency_ms(replace(row, result=result))
    if latency is not None and how:
        found["mean_e2el_ms"] = how
        result = replace(
            result, latencies=MappingProxyType({**result.latencies, "mean_e2el_ms": round(latency, 6)})
        )
    extra = dict(result.extra)
    for name, (value, how) in _means(result).items():
        if value is not None and name not in extra:
            extra[name] = round(value, 6)
            found[name] = how
    result = replace(result, extra=MappingProxyType(extra))
    return replace(row, result=result, derived=MappingProxyType(found))


def _counts(result: BenchResult, found: dict[str, str]) -> BenchResult:
    asked, completed, failed = result.num_prompts, result.completed, result.failed
    if completed is None and asked is not None and failed is not None and failed <= asked:
        found["completed"] = "num_prompts − failed"
        return replace(result, completed=asked - failed)
    if asked is None and completed is not None and failed is not None:
        found["num_prompts"] = "completed + failed"
        return replace(result, num_prompts=completed + failed)
    return result


def _latency_ms(row: ForeignRow) -> tuple[float | None, str]:
    """Return the mean latency of a request and how it follows; no words where the source has it itself."""
    latencies = row.result.latencies
    if (known := latencies.get("mean_e2el_ms")) is not None:
        return known, ""
    tokens, which = output_tokens(row)
    first = latencies.get("mean_ttft_ms")
    for name in ("mean_tpot_ms", "mean_itl_ms"):
        step = latencies.get(name)
        if tokens is not None and first is not None and step is not None:
            return first + max(tokens - 1, 0) * step, f"mean_ttft_ms + ({which} − 1) × {name}"
    return None, ""


def output_tokens(row: ForeignRow) -> tuple[float | None, str]:
    """Return the mean number of generated tokens of a request and what says so; None: unknown."""
    result = row.result
    if result.total_output_tokens is not None and result.completed:
        return result.total_output_tokens / result.completed, "total_output_tokens / completed"
    if (mean := result.extra.get("mean_output_tokens")) is not None:
        return mean, "mean_output_tokens"
    if row.conditions.output_len is not None:
        return float(row.conditions.output_len), "output_len"
    return None, ""


def _means(result: BenchResult) -> dict[str, tuple[float | None, str]]:
    """Mean lengths of prompts and answers.

    Where only rates of single requests are printed, rate × mean latency is a little more than the mean
    length (the mean of a ratio is at least the ratio of the means where short answers are not faster), and
    exact where all requests take the same time.
    """
    seconds = (result.latencies.get("mean_e2el_ms") or 0) / 1000
    found: dict[str, tuple[float | None, str]] = {}
    for side, total, rate in (
        ("input", result.total_input_tokens, result.extra.get("request_input_tps")),
        ("output", result.total_output_tokens, result.extra.get("request_output_tps")),
    ):
        if total is not None and result.completed:
            found[f"mean_{side}_tokens"] = total / result.completed, f"total_{side}_tokens / completed"
        elif rate is not None and seconds:
            found[f"mean_{side}_tokens"] = rate * seconds, f"request_{side}_tps × mean_e2el_ms, about"
    return found
