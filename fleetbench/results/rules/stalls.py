"""Rules over the course of a run: time in which nothing happened, and a beginning slower than the rest."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.load import limit
from fleetbench.results.rules.table import Thresholds
from fleetbench.results.samples import Request, Samples

# Above this many pieces of streams the samples are not gone through; and how finely time is divided.
MOST_PIECES = 5_000_000
SLOT_S, MOST_SLOTS = 0.05, 400_000
# A server is sampled each second, so a stall of that source may be as much longer than it was.
SAMPLED_S = 2.0


def timed(samples: Samples | None) -> tuple[Request, ...]:
    """Return the requests that were answered; empty where starts are not recorded, or there are too many."""
    if samples is None or not samples.timed:
        return ()
    pieces = sum(len(request.itl_s) + 1 for request in samples.requests)
    return samples.requests if pieces <= MOST_PIECES else ()


def stalled(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """A time without any token while requests were open, or a whole far slower than its parts."""
    answered = timed(case.samples)
    duration = finite(case.result.duration)
    if not answered:
        yield from _slow_whole(case, limits)
    longest, ordinary = _longest_gap(answered)
    sampled = case.measured("longest_stall_s")
    if not answered and sampled is not None:
        longest, ordinary = sampled - SAMPLED_S, (case.latency("median_ttft_ms") or 0) / 1000
    if longest < limits.stall_s or longest < limits.stall_times * ordinary:
        return
    share = longest / duration if duration else 1.0
    yield Finding(
        rule="stalled",
        verdict=Verdict.SUSPECT if share >= limits.stall_share else Verdict.VALID,
        text=f"no token came for {longest:.1f} s while requests were open ({share:.0%} of the run)",
        numbers={"stall_s": longest, "ordinary_gap_s": ordinary, "share": share},
    )


def drift(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """The first third of the requests against the middle and the last, in tokens/s, by the order of ending.

    Draining makes the last third slower, so that only a beginning slower than both is a finding.
    """
    allowed = limit(case) or 0
    answered = sorted(timed(case.samples), key=_end)
    third = len(answered) // 3
    if third < limits.drift_requests or case.asked.paced or len(answered) < limits.waves * allowed:
        return
    began = min(map(_start, answered))
    speeds = []
    for part in (answered[:third], answered[third : 2 * third], answered[2 * third :]):
        took = _end(part[-1]) - began
        if took < limits.drift_third_s:
            return
        speeds.append(sum(request.output_tokens for request in part) / took)
        began = _end(part[-1])
    first, middle, last = speeds
    rest = min(middle, last)
    if first < (1 - limits.drift) * rest:
        yield Finding(
            rule="drift",
            verdict=Verdict.SUSPECT,
            text=f"the first third ran at {first:.4g} output tokens/s, the rest at {rest:.4g} or more:"
            " the warm-up was still visible",
            numbers={"first_tps": first, "middle_tps": middle, "last_tps": last},
        )


def _slow_whole(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Aggregate ÷ (concurrency × rate of one request): 1 when all places are busy all the time.

    For where it is not known when each token came: requests that differ much in their time have it low, too.
    """
    allowed, whole = limit(case), finite(case.result.output_throughput)
    one = case.request_output_tps or _request_tps(case.samples)
    prompts = case.asked.num_prompts
    few = prompts is not None and prompts < limits.waves * (allowed or 0)
    if not allowed or not whole or not one or few or case.asked.paced:
        return
    ratio = whole / (allowed * one)
    if ratio < limits.stall_ratio:
        yield Finding(
            rule="stalled",
            verdict=Verdict.SUSPECT,
            text=f"{whole:.4g} output tokens/s are {ratio:.0%} of {allowed} requests at {one:.4g} each:"
            " the mean is taken over time in which nothing was done",
            numbers={"output_throughput": whole, "request_tps": one, "concurrency": allowed, "ratio": ratio},
        )


def _request_tps(samples: Samples | None) -> float | None:
    """Return the median over the requests of output tokens/s of each, over its whole time."""
    requests = samples.requests if samples else ()
    rates = [request.output_tokens / request.e2el_s for request in requests if request.e2el_s > 0]
    return statistics.median(rates) if rates else None


def _longest_gap(answered: Sequence[Request]) -> tuple[float, float]:
    """Return the longest time without a token while a request is open, and what is ordinary, in seconds.

    Ordinary is what every fourth wave has: a prefill that nothing else runs beside, for instance.
    """
    if not answered:
        return 0.0, 0.0
    began, ended = min(map(_start, answered)), max(map(_end, answered))
    slot = max(SLOT_S, (ended - began) / MOST_SLOTS)
    size = int((ended - began) / slot) + 2
    came, opened = bytearray(size), [0] * (size + 1)
    for request in answered:
        for piece in request.arrivals():
            came[min(int((piece - began) / slot), size - 1)] = 1
        opened[int((_start(request) - began) / slot)] += 1
        opened[int((_end(request) - began) / slot) + 1] -= 1
    gaps, waiting, now = [], 0, 0
    for place in range(size):
        now += opened[place]
        if came[place] or not now:
            gaps.append(waiting * slot)
            waiting = 0
        else:
            waiting += 1
    gaps.sort(reverse=True)
    busy = sum(request.e2el_s for request in answered) / max(ended - began, slot)
    turns = len(answered) / max(busy, 1.0)
    return gaps[0], gaps[min(len(gaps) - 1, max(2, int(turns / 4)))]


def _start(request: Request) -> float:
    return request.started_s or 0.0


def _end(request: Request) -> float:
    return _start(request) + request.e2el_s
