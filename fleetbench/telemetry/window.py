"""When the measurement was: its window by the server's clock, which samples are aligned to."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from fleetbench.telemetry.samples import ClockPair, Sample, finite

# What a client's first request may be sent before its host's clocks were read: nothing but rounding.
_EARLY_S = 1.0
_LATEST_S = 7 * 86_400.0
# What grows while a server gets anything done.
WORK = ("prompt_tokens", "generation_tokens", "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From the client's first request to its last answer, in epoch seconds of the server's host.

    `source` is `client` (its own times, to the millisecond), `server` (when its counters stood still again,
    to a sample) or `samples` (nothing but the time that was sampled is known).
    """

    start_s: float
    end_s: float
    source: str

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def window(
    result: bytes,
    duration_s: float | None,
    clock: ClockPair | None,
    offset_s: float,
    samples: Sequence[Sample],
) -> Window | None:
    """Return the window of a measurement; None when nothing tells it.

    Args:
        result: the client's result JSON. vLLM's Python client from 0.15 on writes `start_times`, which are
            CLOCK_MONOTONIC of its host; the Rust client counts them from its own start.
        duration_s: what the client reports.
        clock: both clocks of the client's host at one moment.
        offset_s: server's clock minus client's.
        samples: of the server, for clients that do not say when they began.
    """
    began = _first_start(result)
    if clock is not None and began is not None and duration_s:
        since = began - clock.mono_s
        if -_EARLY_S <= since <= _LATEST_S:
            start = clock.epoch_s + since + offset_s
            return Window(start_s=start, end_s=start + duration_s, source="client")
    if not samples:
        return None
    grown = [_grown(before, after) for before, after in pairwise(samples)]
    if not any(grown):
        return Window(start_s=samples[0].at_s, end_s=samples[-1].at_s, source="samples")
    if duration_s:
        end = _end_of_most(samples, grown, duration_s)
        return Window(start_s=end - duration_s, end_s=end, source="server")
    worked = [index for index, number in enumerate(grown) if number]
    return Window(start_s=samples[worked[0]].at_s, end_s=samples[worked[-1] + 1].at_s, source="server")


def _grown(before: Sample, after: Sample) -> float:
    """Return how much work was done between two samples."""
    values, earlier = after.seen.values, before.seen.values
    return sum(max(0.0, values.get(key, 0) - earlier.get(key, 0)) for key in WORK)


def _end_of_most(samples: Sequence[Sample], grown: Sequence[float], duration_s: float) -> float:
    """Return when those seconds ended in which most was done; the earliest of several.

    What is done after them is not the client's: a controller that comes back asks for a completion, to see
    whether the server still answers.
    """
    ends = [sample.at_s for sample in samples[1:]]
    totals = list(accumulate(grown, initial=0.0))
    best, most = ends[-1], -1.0
    for index, number in enumerate(grown):
        if number:
            done = totals[index + 1] - totals[bisect_right(ends, ends[index] - duration_s)]
            if done > most:
                best, most = ends[index], done
    return best


def _first_start(result: bytes) -> float | None:
    """Return the earliest of `start_times`; of several documents (JSON lines), those of the last."""
    for text in (result, result.rstrip().rpartition(b"\n")[2]):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        times = document.get("start_times") if isinstance(document, dict) else None
        known = [at for at in map(finite, times if isinstance(times, list) else ()) if at]
        return min(known, default=None)
    return None
