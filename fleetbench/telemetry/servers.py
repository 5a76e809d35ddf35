"""What the servers' samples come to over a window: rates, gauges, phases, the longest stand-still."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from fleetbench.telemetry.exposition import Snapshot
from fleetbench.telemetry.samples import Sample
from fleetbench.telemetry.window import Window

_GAUGES = {"running": ("mean", "max"), "waiting": ("mean", "max"), "swapped": ("max",)}
_SHARES = {"kv_usage": ("mean", "max"), "cpu_kv_usage": ("max",)}
_PHASES = ("queue_s", "prefill_s", "decode_s", "ttft_s", "e2e_s")
_FINISHED = ("stop", "length", "abort", "error")


def edges(samples: Sequence[Sample], window: Window) -> tuple[Snapshot | None, Snapshot | None]:
    """Return the last sample before the window and the first after it; None where there is none."""
    before = [sample.seen for sample in samples if sample.at_s <= window.start_s]
    after = [sample.seen for sample in samples if sample.at_s >= window.end_s]
    return before[-1] if before else None, after[0] if after else None


def within(samples: Sequence[Sample], window: Window) -> tuple[Sample, ...]:
    """Return the samples of the window."""
    return tuple(sample for sample in samples if window.start_s <= sample.at_s <= window.end_s)


def counted(before: Snapshot, after: Snapshot) -> Mapping[str, float]:
    """Return what each counter grew by; one that went backwards, or that one side lacks, is not there."""
    grown = {key: after.values[key] - before.values[key] for key in after.values if key in before.values}
    return {key: by for key, by in grown.items() if by >= 0}


def rates(grown: Mapping[str, float], seconds: float) -> Iterator[tuple[str, float]]:
    """Yield tokens per second, and the tokens per second that a request saw from its arrival on."""
    for key, name in (("prompt_tokens", "prompt"), ("generation_tokens", "generation")):
        if key in grown:
            yield f"{name}_tps", grown[key] / seconds
            if grown.get("e2e_s_sum"):
                yield f"request_{name}_tps", grown[key] / grown["e2e_s_sum"]


def totals(grown: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield what was counted over the measurement, and the mean seconds of a request in each phase."""
    for key in ("prompt_tokens", "generation_tokens", "requests"):
        if key in grown:
            yield f"server_{key}", int(grown[key])
    if "preemptions" in grown:
        yield "preemptions", int(grown["preemptions"])
    for reason in _FINISHED:
        if f"finished_{reason}" in grown:
            yield f"finished_{reason}", int(grown[f"finished_{reason}"])
    if grown.get("prefix_queries"):
        yield "prefix_hit_share", min(1.0, grown.get("prefix_hits", 0.0) / grown["prefix_queries"])
    for phase in _PHASES:
        if grown.get(f"{phase}_count"):
            yield f"{phase}_mean", grown[f"{phase}_sum"] / grown[f"{phase}_count"]


def gauges(samples: Sequence[Sample]) -> Iterator[tuple[str, float]]:
    """Yield means and maxima over the samples of a window."""
    for key, kinds in (_GAUGES | _SHARES).items():
        values = [sample.seen.values[key] for sample in samples if key in sample.seen.values]
        if not values:
            continue
        if "mean" in kinds:
            yield f"{key}_mean", sum(values) / len(values)
        yield (
            f"{key}_max",
            max(sample.seen.highest.get(key, sample.seen.values.get(key, 0)) for sample in samples),
        )
    rate = [value for sample in samples if (value := sample.seen.values.get("prefix_hit_rate")) is not None]
    if rate:
        yield "prefix_hit_share", sum(rate) / len(rate)


def longest_stall_s(samples: Sequence[Sample]) -> float | None:
    """Return the longest time in which requests ran and no token came; None without two samples.

    It is told by samples: up to one interval more may have passed on either side.
    """
    began: float | None = None
    longest = 0.0
    for one, next_one in pairwise(samples):
        tokens = [
            sum(each.seen.values.get(key, 0) for key in ("prompt_tokens", "generation_tokens"))
            for each in (one, next_one)
        ]
        if one.seen.values.get("running", 0) > 0 and tokens[0] == tokens[1]:
            began = one.at_s if began is None else began
            longest = max(longest, next_one.at_s - began)
        else:
            began = None
    return longest if len(samples) > 1 and "generation_tokens" in samples[0].seen.values else None
