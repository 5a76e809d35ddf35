"""Rules over latencies: their order, their sum, and values that nothing can have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.load import output_tokens
from fleetbench.results.rules.table import Thresholds

NAMES = ("ttft", "tpot", "itl", "e2el")
_PERCENTILE = re.compile(r"p(\d{1,3}(?:\.\d{1,3})?)")
# Latencies are printed with two decimals.
ROUNDING_MS = 0.01
# A gap that is none: two pieces of one read.
NO_GAP_MS = 0.05


def order(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Percentiles rise, means lie between smallest and largest, TTFT is never above E2EL."""
    factor = 1 + limits.percentile_order
    for name in NAMES:
        ranked = _ranked(case, name)
        for (_, low, smaller), (_, high, larger) in itertools.pairwise(ranked):
            if smaller > larger * factor + ROUNDING_MS:
                yield _contradiction(f"{low} {smaller:g} ms is above {high} {larger:g} ms", smaller, larger)
        mean = case.latency(f"mean_{name}_ms")
        largest, smallest = case.latency(f"max_{name}_ms"), case.latency(f"min_{name}_ms")
        if mean is not None and largest is not None and mean > largest * factor + ROUNDING_MS:
            yield _contradiction(
                f"mean {name} {mean:g} ms is above its largest, {largest:g} ms", mean, largest
            )
        if mean is not None and smallest is not None and smallest > mean * factor + ROUNDING_MS:
            yield _contradiction(
                f"mean {name} {mean:g} ms is below its smallest, {smallest:g} ms", smallest, mean
            )
    for kind in ("mean", "median", "p90", "p95", "p99"):
        first, last = case.latency(f"{kind}_ttft_ms"), case.latency(f"{kind}_e2el_ms")
        if first is not None and last is not None and first > last * factor + ROUNDING_MS:
            yield _contradiction(f"{kind} TTFT {first:g} ms is above {kind} E2EL {last:g} ms", first, last)


def total(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Mean E2EL = mean TTFT + (tokens − 1) × mean TPOT where all answers have one length: exact in vLLM."""
    first, each = case.latency("mean_ttft_ms"), case.latency("mean_tpot_ms")
    whole, tokens = case.latency("mean_e2el_ms"), output_tokens(case)
    if None in (first, each, whole, tokens) or not case.one_length:
        return
    if first is None or each is None or not whole or tokens is None or tokens < 2:
        return
    expected = first + (tokens - 1) * each
    if abs(whole - expected) > limits.latency_sum * max(whole, expected) + (tokens + 2) * ROUNDING_MS:
        yield Finding(
            rule="latency-sum",
            verdict=Verdict.SUSPECT,
            text=f"mean E2EL is {whole:g} ms, but TTFT and {tokens:.0f} tokens make {expected:.4g} ms",
            numbers={"mean_e2el_ms": whole, "expected_ms": expected, "output_tokens": tokens},
        )


def peak(case: Case) -> Iterator[Finding]:
    """A peak of one second cannot hold more tokens than the whole run.

    The Python client counts pieces of streams there; of a chat each begins with a piece without a token.
    """
    most, all_tokens = finite(case.result.max_output_tokens_per_s), case.result.total_output_tokens
    rate, duration = finite(case.result.output_throughput), finite(case.result.duration)
    if all_tokens is None and rate and duration:
        all_tokens = round(rate * duration * 1.05) + 1
    if most is not None and all_tokens and most > all_tokens * 1.01 + (case.result.completed or 1):
        yield Finding(
            rule="impossible-value",
            verdict=Verdict.INVALID,
            text=f"a peak of {most:,.0f} tokens in one second, but {all_tokens:,} tokens in the whole run",
            numbers={"max_output_tokens_per_s": most, "total_output_tokens": all_tokens},
        )


def bundles(case: Case) -> Iterator[Finding]:
    """A median gap of nothing while tokens take their time."""
    gap, each = case.latency("median_itl_ms"), case.latency("mean_tpot_ms")
    if gap is not None and each is not None and gap < NO_GAP_MS and each > 4 * NO_GAP_MS:
        yield Finding(
            rule="bundled-tokens",
            verdict=Verdict.VALID,
            text=f"tokens were read in bundles (median ITL {gap:g} ms, mean TPOT {each:.4g} ms):"
            " ITL and TPOT say little",
            numbers={"median_itl_ms": gap, "mean_tpot_ms": each},
        )


def faster_than_any(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Tokens of one stream faster than any accelerator makes them.

    Of our own rows a client that is behind may show that on a CPU host; it is `bundled-tokens` there.
    """
    each = case.latency("mean_tpot_ms")
    if each is not None and each < limits.tpot_floor_ms:
        text = (
            f"mean TPOT is {each:g} ms: no accelerator makes a token in less than {limits.tpot_floor_ms:g} ms"
        )
        numbers = {"mean_tpot_ms": each}
        yield Finding(rule="impossible-value", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def _ranked(case: Case, name: str) -> list[tuple[float, str, float]]:
    """Return rank, name and value of the percentiles of a latency, the lowest first."""
    found = []
    for key in case.result.latencies:
        statistic, _, rest = key.partition("_")
        value = case.latency(key)
        if rest != f"{name}_ms" or value is None:
            continue
        match = _PERCENTILE.fullmatch(statistic)
        rank = {"min": 0.0, "median": 50.0, "max": 100.0}.get(statistic)
        rank = float(match[1]) if match else rank
        if rank is not None:
            found.append((rank, f"{statistic} {name}", value))
    return sorted(found)


def _contradiction(text: str, larger: float, smaller: float) -> Finding:
    numbers = {"larger_ms": larger, "smaller_ms": smaller}
    return Finding(rule="percentile-order", verdict=Verdict.INVALID, text=text, numbers=numbers)
