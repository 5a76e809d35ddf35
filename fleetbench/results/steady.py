"""The part of a run in which the load was as it was meant to be, without filling up and draining. Pure.

With a limit of requests in flight (closed loop), the window is from the moment at which as many requests have
ended as the limit allows, so that the first wave, all of it sent in one instant, is over, until the last
moment at which 95 % of the limit are in flight. vLLM's Rust client begins as soon as 95 % are in flight, and
so keeps the first wave. With a rate (open loop) it is from the 95th percentile of the latencies after the
first request until the last request is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from fleetbench.model import Workload
from fleetbench.results.samples import Request, Samples, latencies

FULL = 0.95  # of the limit of requests in flight
LEAST_WAVES = 2  # within the window; fewer say nothing about a steady state


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """A window of one measurement, and what happened in it.

    Attributes:
        began_s, ended_s: since the first request was sent.
        share: of the whole run, by time.
        requests: how many were sent within it; the latencies are theirs, whenever they ended.
        request_throughput, output_throughput: what came within it, for each second of it. A request of which
            a part came counts as that part: with requests in lockstep, a whole wave ends beside the border.
        latencies: under vLLM's names, as `samples.latencies` makes them.
    """

    began_s: float
    ended_s: float
    share: float
    requests: int
    request_throughput: float
    output_throughput: float
    latencies: Mapping[str, float] = field(default_factory=dict)

    @property
    def window_s(self) -> float:
        """How long it is."""
        return self.ended_s - self.began_s


def steady_state(samples: Samples, workload: Workload) -> SteadyState | None:
    """Given a measurement's requests and what was asked for, return its steady state.

    None where there is none: the moments of sending are unknown, requests failed (what they did in between is
    unknown), everything was sent at once, or fewer than two waves are left.
    """
    if not samples.timed or samples.failed or samples.unreadable:
        return None
    window = _closed(samples, workload) if _is_closed(workload) else _open(samples)
    if window is None:
        return None
    began, ended = window
    inside = [request for request in samples.requests if began <= _start(request) <= ended]
    shares = _shares_within(samples.requests, began, ended)
    limit = workload.max_concurrency or 1 if _is_closed(workload) else 1
    if not inside or sum(shares) < LEAST_WAVES * limit:
        return None
    length = ended - began
    run_s = max(map(_end, samples.requests))
    return SteadyState(
        began_s=began,
        ended_s=ended,
        share=length / run_s,
        requests=len(inside),
        request_throughput=sum(shares) / length,
        output_throughput=sum(map(_tokens, samples.requests, shares)) / length,
        latencies=latencies([Samples(requests=tuple(inside))]),
    )


def in_flight(samples: Samples) -> list[tuple[float, int]]:
    """Return how many requests were in flight, as moments (seconds since the first) at which that changed.

    A request that ends in the very instant in which the next one is sent gives its place to it.
    """
    changes = [(_start(request), 1) for request in samples.requests]
    changes += [(_end(request), -1) for request in samples.requests]
    steps, now = [], 0
    for moment, together in groupby(sorted(changes), key=lambda change: change[0]):
        now += sum(change for _, change in together)
        steps.append((moment, now))
    return steps


def _is_closed(workload: Workload) -> bool:
    return workload.request_rate is None and workload.max_concurrency is not None


def _closed(samples: Samples, workload: Workload) -> tuple[float, float] | None:
    limit = workload.max_concurrency or 1
    ends = sorted(map(_end, samples.requests))
    if len(ends) <= limit:
        return None
    began = ends[limit - 1]
    full = FULL * limit
    # After each change the count holds until the next one, so the last full moment is where it fell.
    steps = in_flight(samples)
    fell = [after for (_, count), (after, less) in pairwise(steps) if count >= full > less]
    if not fell:
        return None
    return (began, fell[-1]) if fell[-1] > began else None


def _open(samples: Samples) -> tuple[float, float] | None:
    lengths = sorted(request.e2el_s for request in samples.requests)
    longest = lengths[min(int(0.95 * len(lengths)), len(lengths) - 1)]
    began, ended = longest, max(map(_start, samples.requests))
    return (began, ended) if ended - began >= LEAST_WAVES * longest and ended > began else None


def _shares_within(requests: Sequence[Request], began: float, ended: float) -> list[float]:
    """Return for each request the share of its answer's pieces that came within the window."""
    shares = []
    for request in requests:
        first, last = _start(request) + request.ttft_s, _end(request)
        if last <= began or first > ended:
            shares.append(0.0)
        elif began < first and last <= ended:
            shares.append(1.0)
        else:
            pieces = 1 + len(request.itl_s)
            shares.append(sum(began < moment <= ended for moment in request.arrivals()) / pieces)
    return shares


def _tokens(request: Request, share: float) -> float:
    return request.output_tokens * share


def _start(request: Request) -> float:
    return request.started_s or 0.0


def _end(request: Request) -> float:
    return _start(request) + request.e2el_s
