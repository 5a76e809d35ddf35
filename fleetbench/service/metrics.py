"""The few numbers of a server's /metrics that prove something, for any vLLM from 0.6 to 0.33.

Prometheus text in, one `Reading` out. Each data-parallel engine has series of its own: counters are added
up. Names are those of vLLM's source by version: the prefix cache's counters began as `gpu_prefix_cache_*`,
0.9 to 0.11 have both, newer ones only `prefix_cache_*`. Every counter has a `_created` twin that is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NO_LABELS: Mapping[str, str] = MappingProxyType({})
MAX_LINE = 20_000

# Field of `Reading`: the names it had, the newest first; the first one that is there counts.
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens_total",),
    "generation_tokens": ("generation_tokens_total",),
    "prefix_queries": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_hits": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "preemptions": ("num_preemptions_total",),
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "requests": ("request_success_total",),
}
_GAUGES = ("running", "waiting")
# An aborted request was given up by its client, and one in error was answered with it.
_NOT_ANSWERED = ("abort", "error")
_NAMES = frozenset(name for names in _COUNTERS.values() for name in names)
_CACHE = "cache_config_info"
_SAMPLE = re.compile(
    r"vllm:(?P<name>[a-z0-9_]{1,80})(?:\{(?P<labels>.{0,18000})\})? (?P<value>\S{1,40})(?: \d+)?"
)
_LABEL = re.compile(r'(?P<name>[a-zA-Z0-9_]{1,80})="(?P<value>(?:[^"\\]|\\.){0,2000})"')


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
    found: dict[str, float] = {}
    engines: set[str] = set()
    cache = NO_LABELS
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line) if line.startswith("vllm:") and len(line) <= MAX_LINE else None
        if match is None or match["name"] not in (*_NAMES, _CACHE):
            continue
        labels = {label["name"]: label["value"] for label in _LABEL.finditer(match["labels"] or "")}
        if "engine" in labels:
            engines.add(labels["engine"])
        if match["name"] == _CACHE:
            cache = cache or MappingProxyType(labels)
            continue
        value = _number(match["value"])
        if value is None or labels.get("finished_reason") in _NOT_ANSWERED:
            continue
        found[match["name"]] = found.get(match["name"], 0) + value
    numbers = {
        key: next((int(found[name]) for name in names if name in found), None)
        for key, names in _COUNTERS.items()
    }
    return Reading(engines=len(engines) or None, cache=cache, **numbers)


def total(readings: Iterable[Reading]) -> Reading:
    """Return the sum over several servers; a number that one of them lacks is unknown for all."""
    first, *others = tuple(readings) or (Reading(),)
    summed = {
        name: _sum(getattr(reading, name) for reading in (first, *others)) for name in ("engines", *_COUNTERS)
    }
    return Reading(cache=first.cache, **summed)


def since(before: Reading, after: Reading) -> Reading:
    """Return what was counted between two readings; a counter that went backwards is unknown.

    `running` and `waiting` count nothing over time and are None.
    """
    counted = {}
    for name in _COUNTERS:
        first, last = getattr(before, name), getattr(after, name)
        both = first is not None and last is not None and last >= first
        counted[name] = last - first if both and name not in _GAUGES else None
    return Reading(engines=after.engines, cache=after.cache, **counted)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e15 else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
