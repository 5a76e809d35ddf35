"""What was sampled while a measurement ran as lines by time: the panels of its chart. Pure.

A bin that was not sampled has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetbench.telemetry import hardware, samples
from fleetbench.telemetry.samples import Sample
from fleetbench.telemetry.window import WORK, Window

GENERATED = "generated"
Values = dict[int, float]  # by bin


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a panel, by bin."""

    name: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines of one unit over the same seconds; `top` is the end of its scale where that is fixed."""

    title: str
    lines: Sequence[Line]
    top: float | None = None


def panels_of(
    content: Mapping[str, bytes], taken: Sequence[Sample], seen: Window, width_s: float, every_s: float
) -> Iterator[Panel]:
    """Yield what was sampled, as panels; places are bins of `width_s` since the window's start."""

    def bin_of(at_s: float) -> int:
        return math.floor((at_s - seen.start_s) / width_s)

    def gauge(key: str, of: float = 1.0, *, highest: bool = False) -> Values:
        found: dict[int, list[float]] = {}
        for sample in taken:
            value = (sample.seen.highest if highest else sample.seen.values).get(key)
            if value is not None:
                found.setdefault(bin_of(sample.at_s), []).append(value * of)
        return {place: sum(values) / len(values) for place, values in found.items()}

    def rate(key: str) -> Values:
        done: dict[int, tuple[float, float]] = {}  # tokens, and the seconds of the bin that were sampled
        for one, two in pairwise(taken):
            seconds = two.at_s - one.at_s
            grown = two.seen.values.get(key, math.nan) - one.seen.values.get(key, math.nan)
            # Across a gap nobody knows when the tokens came; a counter that shrank is another server's.
            if two.tick - one.tick == 1 and seconds > 0 and grown >= 0:
                worked = _within(one.at_s, two.at_s, seen)
                for place in range(bin_of(one.at_s), bin_of(two.at_s) + 1):
                    began = seen.start_s + place * width_s
                    here = (began, began + width_s)
                    tokens, sampled = done.get(place, (0.0, 0.0))
                    tokens += grown * _together(worked, here) / (worked[1] - worked[0])
                    done[place] = tokens, sampled + _together((one.at_s, two.at_s), here)
        return {place: tokens / took for place, (tokens, took) in done.items() if took >= width_s / 2}

    watts = _power(hardware.gpu_rows(content.get(samples.GPUS, b"")), seen, width_s, every_s)
    several = any(
        sample.seen.highest.get("kv_usage") != sample.seen.values.get("kv_usage") for sample in taken
    )
    full = [Line(name="highest engine", values=gauge("kv_usage", 100, highest=True))] if several else []
    for title, lines, top in (
        (
            "tokens per second",
            ((GENERATED, rate("generation_tokens")), ("prompt", rate("prompt_tokens"))),
            None,
        ),
        ("requests in the server", (("running", gauge("running")), ("waiting", gauge("waiting"))), None),
        ("KV cache in use, %", (("mean" if several else "in use", gauge("kv_usage", 100)),), 100.0),
        ("power of all GPUs, W", (("GPUs", watts),), None),
    ):
        known = [Line(name=name, values=values) for name, values in lines if values]
        if known:
            yield Panel(title=title, lines=[*known, *(full if top else [])], top=top)


def in_the_middle(seen: Window, taken: Sequence[Sample]) -> Window:
    """Return a window that counters told, which is to a sample, in the middle of where it may lie.

    What was done between two samples was done within the window, so it begins before the first that saw
    work, and ends after the last but one. As it came it ends with a sample, as early as it can.
    """
    worked = [
        (one.at_s, two.at_s)
        for one, two in pairwise(taken)
        if two.at_s > seen.start_s
        and one.at_s < seen.end_s + (two.at_s - one.at_s) / 2
        and any(two.seen.values.get(key, 0) > one.seen.values.get(key, 0) for key in WORK)
    ]
    if not worked:
        return seen
    low = max(worked[0][0], worked[-1][0] - seen.seconds)
    high = min(worked[0][1], worked[-1][1] - seen.seconds)
    start = (low + high) / 2 if low < high else seen.start_s
    return Window(start_s=start, end_s=start + seen.seconds, source=seen.source)


def _within(began_s: float, ended_s: float, seen: Window) -> tuple[float, float]:
    """Return the part of a time between two samples that is in the measurement, where the work was done.

    Where nothing of it is in the measurement, the whole.
    """
    first, last = max(began_s, seen.start_s), min(ended_s, seen.end_s)
    return (first, last) if first < last else (began_s, ended_s)


def _together(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how many seconds two spans of time have in common."""
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _power(rows: Sequence[hardware.Row], seen: Window, width_s: float, every_s: float) -> Values:
    """Return watts of all GPUs together; a bin in which one of them is missing is a gap."""
    by_bin: dict[int, dict[float, list[float]]] = {}
    low, high = seen.start_s - 10 * every_s, seen.end_s + 10 * every_s
    for row in rows:
        if "power.draw" in row and low <= row["at"] <= high:
            place = math.floor((row["at"] - seen.start_s) / width_s)
            by_bin.setdefault(place, {}).setdefault(row.get("index", 0.0), []).append(row["power.draw"])
    gpus = {index for found in by_bin.values() for index in found}
    return {
        place: sum(sum(values) / len(values) for values in found.values())
        for place, found in by_bin.items()
        if set(found) == gpus
    }
