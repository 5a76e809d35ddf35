"""Rules over the course of a run: time in which nothing happened, and a beginning slower than the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, Samples, finite
from fleetbench.results.rules.load import limit
from fleetbench.results.rules.table import Thresholds

# Above this many pieces of streams the samples are not gone through; and how finely time is divided.
MOST_PIECES = 5_000_000
SLOT_S, MOST_SLOTS = 0.05, 400_000
# A server is sampled each second, so a stall of that source may be as much longer than it was.
SAMPLED_S = 2.0


@dataclass(frozen=True, slots=True)
class Stream:
    """One request that came to a good end: when it was sent, and when each piece of its answer came."""

    start_s: float
    pieces_s: tuple[float, ...]
    tokens: int

    @property
    def end_s(self) -> float:
        """When its last piece came."""
        return self.pieces_s[-1]


def streams(samples: Samples) -> tuple[Stream, ...]:
    """Return the requests that were answered; empty where starts are not recorded or are no numbers."""
    starts, firsts, gaps, tokens = samples.starts_s, samples.ttfts_s, samples.itls_s, samples.output_lens
    if not len(starts) == len(firsts) == len(gaps) == len(tokens):
        return ()
    if sum(map(len, gaps)) + len(starts) > MOST_PIECES:
        return ()
    found = []
    for start, first, between, count in zip(starts, firsts, gaps, tokens, strict=True):
        numbers = [finite(value) for value in (start, first, *between)]
        if None in numbers or not first > 0 or any(gap < 0 for gap in between):
            continue
        at = start + first
        pieces = [at]
        for gap in between:
            at += gap
            pieces.append(at)
        found.append(Stream(start, tuple(pieces), count))
    return tuple(found)


def stalled(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """A time without any token while requests were open, or a whole far slower than its parts."""
    answered = streams(case.samples) if case.samples else ()
    duration = finite(case.result.duration)
    yield from _slow_whole(case, answered, limits)
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
    answered = sorted(streams(case.samples), key=lambda stream: stream.end_s) if case.samples else []
    third = len(answered) // 3
    if third < limits.drift_requests or case.asked.paced or len(answered) < limits.waves * allowed:
        return
    began = min(stream.start_s for stream in answered)
    speeds = []
    for part in (answered[:third], answered[third : 2 * third], answered[2 * third :]):
        took = part[-1].end_s - began
        if took < limits.drift_third_s:
            return
        speeds.append(sum(stream.tokens for stream in part) / took)
        began = part[-1].end_s
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


def mean_request_tps(answered: Sequence[Stream]) -> float | None:
    """Return the mean over the requests of output tokens/s of each, over its whole time."""
    rates = [stream.tokens / (stream.end_s - stream.start_s) for stream in answered]
    return sum(rates) / len(rates) if rates else None


def _slow_whole(case: Case, answered: Sequence[Stream], limits: Thresholds) -> Iterator[Finding]:
    """Aggregate ÷ (concurrency × rate of one request): 1 when all places are busy all the time."""
    allowed, whole = limit(case), finite(case.result.output_throughput)
    one = case.request_output_tps or mean_request_tps(answered)
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


def _longest_gap(answered: Sequence[Stream]) -> tuple[float, float]:
    """Return the longest time without a token while a request is open, and what is ordinary, in seconds.

    Ordinary is what every fourth wave has: a prefill that nothing else runs beside, for instance.
    """
    if not answered:
        return 0.0, 0.0
    began, ended = min(s.start_s for s in answered), max(s.end_s for s in answered)
    slot = max(SLOT_S, (ended - began) / MOST_SLOTS)
    size = int((ended - began) / slot) + 2
    came, opened = bytearray(size), [0] * (size + 1)
    for stream in answered:
        for piece in stream.pieces_s:
            came[int((piece - began) / slot)] = 1
        opened[int((stream.start_s - began) / slot)] += 1
        opened[int((stream.end_s - began) / slot) + 1] -= 1
    gaps, waiting, now = [], 0, 0
    for place in range(size):
        now += opened[place]
        if came[place] or not now:
            gaps.append(waiting * slot)
            waiting = 0
        else:
            waiting += 1
    gaps.sort(reverse=True)
    busy = sum(stream.end_s - stream.start_s for stream in answered) / max(ended - began, slot)
    turns = len(answered) / max(busy, 1.0)
    return gaps[0], gaps[min(len(gaps) - 1, max(2, int(turns / 4)))]
