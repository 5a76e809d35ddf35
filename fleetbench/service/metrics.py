"""The few numbers of a server's /metrics that prove something, for any vLLM from 0.6 to 0.33.

Prometheus text in, one `Reading` out. Names, and how several engines are added up, stand in one table
(`telemetry.names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetbench.telemetry.exposition import NO_LABELS, snapshot

# Fields of `Reading` that are series of the table, under the same names.
_GAUGES = ("running", "waiting")
_NUMBERS = (
    *("prompt_tokens", "generation_tokens", "prefix_queries", "prefix_hits", "requests", "preemptions"),
    *_GAUGES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters of one server (or of several, added up) at one moment; None: this version has no such number.

    Attributes:
        engines: data-parallel engines that report; None when nothing names one.
        prefix_queries, prefix_hits: prompt tokens that were looked up in the prefix cache, and found there.
        requests: answered to their end. preemptions: a preempted request looks up its tokens once more.
        running, waiting: requests at this moment.
        cache: labels of the cache configuration of the first engine.
    """

    engines: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    requests: int | None = None
    preemptions: int | None = None
    running: int | None = None
    waiting: int | None = None
    cache: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)

    @property
    def work(self) -> tuple[int | None, int | None, int | None]:
        """What grows while the server gets anything done."""
        return self.prompt_tokens, self.generation_tokens, self.requests


def read(text: str) -> Reading:
    """Given what /metrics answered, return the reading; what is not there or no number stays None."""
    seen = snapshot(text)
    numbers = {key: int(seen.values[key]) if key in seen.values else None for key in _NUMBERS}
    return Reading(engines=seen.engines, cache=seen.cache, **numbers)


def total(readings: Iterable[Reading]) -> Reading:
    """Return the sum over several servers; a number that one of them lacks is unknown for all."""
    first, *others = tuple(readings) or (Reading(),)
    summed = {
        name: _sum(getattr(reading, name) for reading in (first, *others)) for name in ("engines", *_NUMBERS)
    }
    return Reading(cache=first.cache, **summed)


def since(before: Reading, after: Reading) -> Reading:
    """Return what was counted between two readings; a counter that went backwards is unknown.

    `running` and `waiting` count nothing over time and are None.
    """
    counted = {}
    for name in _NUMBERS:
        first, last = getattr(before, name), getattr(after, name)
        both = first is not None and last is not None and last >= first
        counted[name] = last - first if both and name not in _GAUGES else None
    return Reading(engines=after.engines, cache=after.cache, **counted)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
