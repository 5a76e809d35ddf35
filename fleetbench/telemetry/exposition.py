"""The text of a server's /metrics to named series, for any vLLM from 0.6 to 0.33.

The format is Prometheus' text exposition; names and how they are added up stand in data/metric_names.toml.
Whatever is no finite number from 0 on is not there.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from fleetbench.telemetry.names import CACHE, PREFIX, Kind, Source, sources, table

MAX_LINE = 20_000
LARGEST = 1e15
NO_LABELS: Mapping[str, str] = MappingProxyType({})
NO_VALUES: Mapping[str, float] = MappingProxyType({})

_SAMPLE = re.compile(
    r"vllm:(?P<name>[a-z0-9_]{1,80})(?:\{(?P<labels>.{0,18000})\})? (?P<value>\S{1,40})(?: \d+)?"
)
_LABEL = re.compile(r'(?P<name>[a-zA-Z0-9_]{1,80})="(?P<value>(?:[^"\\]|\\.){0,2000})"')
_WORD = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The named series of one server, or of several together, at one moment.

    Attributes:
        values: by key; of a share, the mean over engines. What this version does not have is not there.
        highest: of a share, the highest of any engine.
        engines: data-parallel engines that report; None when nothing names one.
        cache: labels of the cache configuration of the first engine.
    """

    values: Mapping[str, float] = field(default_factory=lambda: NO_VALUES)
    highest: Mapping[str, float] = field(default_factory=lambda: NO_VALUES)
    engines: int | None = None
    cache: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)


def snapshot(text: str) -> Snapshot:
    """Given what /metrics answered, return its named series; what is not there or no number is left out."""
    known = sources()
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    engines: set[str] = set()
    configuration = NO_LABELS
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line) if line.startswith(PREFIX) and len(line) <= MAX_LINE else None
        if match is None or (match["name"] not in known and match["name"] != CACHE):
            continue
        labels = {label["name"]: label["value"] for label in _LABEL.finditer(match["labels"] or "")}
        if "engine" in labels:
            engines.add(labels["engine"])
        if match["name"] == CACHE:
            configuration = configuration or MappingProxyType(labels)
            continue
        value = number(match["value"])
        if value is None:
            continue
        for source in known[match["name"]]:
            key = _key(source, labels)
            if key:
                found[key, source.rank].append(value)
    values, highest = _named(found)
    return Snapshot(values=values, highest=highest, engines=len(engines) or None, cache=configuration)


def together(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Return several servers as one; a series that one of them lacks is unknown for all."""
    every = tuple(snapshots)
    if not every:
        return Snapshot()
    common = set.intersection(*(set(each.values) for each in every))
    values = {key: sum(each.values[key] for each in every) / _over(key, len(every)) for key in common}
    highest = {key: max(each.highest[key] for each in every) for key in common if key in every[0].highest}
    engines = [each.engines for each in every if each.engines is not None]
    return Snapshot(
        values=values,
        highest=highest,
        engines=sum(engines) if len(engines) == len(every) else None,
        cache=every[0].cache,
    )


def number(text: str) -> float | None:
    """Return a finite number from 0 on; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < LARGEST else None


@cache
def _shares() -> frozenset[str]:
    return frozenset(series.key for series in table() if series.kind is Kind.SHARE)


def _over(key: str, count: int) -> int:
    return count if key in _shares() else 1


def _key(source: Source, labels: Mapping[str, str]) -> str:
    """Return the key that a sample counts for; empty when it counts for none."""
    series = source.series
    if not series.split:
        return series.key + source.suffix
    word = labels.get(series.split, "")
    if series.without:
        return "" if word in series.without else series.key
    return f"{series.key}_{word}" if _WORD.fullmatch(word) else ""


def _named(found: Mapping[tuple[str, int], list[float]]) -> tuple[dict[str, float], dict[str, float]]:
    ranks: dict[str, int] = {}
    for key, rank in found:
        ranks[key] = min(rank, ranks.get(key, rank))
    values, highest = {}, {}
    for key, rank in ranks.items():
        samples = found[key, rank]
        values[key] = sum(samples) / _over(key, len(samples))
        if key in _shares():
            highest[key] = max(samples)
    return values, highest
