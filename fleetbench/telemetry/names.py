"""Which of a server's metrics are sampled, and what they are called: the table in data/metric_names.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

PREFIX = "vllm:"
# Labels of the cache configuration, a gauge that is always 1: not sampled, but read once.
CACHE = "cache_config_info"


class Kind(StrEnum):
    """How the series of several engines, or of several servers, become one."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SHARE = "share"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One row of the table.

    Attributes:
        key: name of the series here, whatever the version calls it.
        names: what versions call it, the newest first; without the prefix.
        split: label whose every value is a series of its own, or whose values in `without` do not count.
        note: which versions have it, where it is not all of them.
    """

    key: str
    kind: Kind
    names: tuple[str, ...]
    split: str = ""
    without: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A metric as a version names it, and the series that it feeds; `rank` 0 is the newest name."""

    series: Series
    rank: int
    suffix: str = ""


@cache
def table() -> tuple[Series, ...]:
    """Return the rows of the table in their order."""
    text = (resources.files("fleetbench.data") / "metric_names.toml").read_text("utf-8")
    return tuple(
        Series(
            key=row["key"],
            kind=Kind(row["kind"]),
            names=tuple(row["names"]),
            split=row.get("split", ""),
            without=tuple(row.get("without", ())),
            note=row.get("note", ""),
        )
        for row in tomllib.loads(text)["series"]
    )


@cache
def sources() -> Mapping[str, tuple[Source, ...]]:
    """Return what each metric feeds, by its full name as it stands in the text, without the prefix."""
    found: dict[str, tuple[Source, ...]] = {}
    for series in table():
        for rank, name in enumerate(series.names):
            suffixes = ("_sum", "_count") if series.kind is Kind.HISTOGRAM else ("",)
            for suffix in suffixes:
                source = Source(series=series, rank=rank, suffix=suffix)
                found[name + suffix] = (*found.get(name + suffix, ()), source)
    return found
