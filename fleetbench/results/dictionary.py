"""What every column means: one name, one meaning, in views, CSV, Parquet and JSON alike. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

SCHEMA = "fleetbench columns"  # beside the version, in every export that has room for it


class Kind(StrEnum):
    """What kind of values a column has; any of them may be unknown."""

    TEXT = "text"
    WHOLE = "whole"
    REAL = "real"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One column: `unit` is empty for a count or a word, `text` one line without a full stop."""

    name: str
    kind: Kind
    unit: str = ""
    text: str


# A name that is made of another one's, as the report makes it.
_SUFFIXES = {
    "_min": "the least of the repeats",
    "_max": "the most of the repeats",
    "_low": "lower end of the interval of 95 %",
    "_high": "upper end of the interval of 95 %",
}
_PREFIXES = {"steady": "of the steady state: ", "pooled": "over the requests of all repeats together: "}
_LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first",
    "itl": "time between two pieces of an answer",
    "e2el": "time of a whole request",
}
_LATENCY = re.compile(r"(mean|median|std|p\d+)_(ttft|tpot|itl|e2el)_ms")


@cache
def version() -> int:
    """Return the version of all columns together: raised when one comes, goes or changes its meaning."""
    found: int = _table()["version"]
    return found


def meaning(name: str, figures: Mapping[str, str] | None = None) -> Meaning | None:
    """Return what a column means; None for one that nobody described.

    `figures` are those of the samples with what they are (`telemetry.figures`), which have a table of their
    own.
    """
    if name in _meanings():
        return _meanings()[name]
    if match := _LATENCY.fullmatch(name):
        statistic = {"std": "standard deviation", "median": "median"}.get(match[1], match[1])
        return Meaning(
            name=name, kind=Kind.REAL, unit="ms", text=f"{statistic} of the {_LATENCIES[match[2]]}"
        )
    if figures and name in figures:
        return _figure(name, figures[name])
    return next(_made_of(name), None)


def _made_of(name: str) -> Iterator[Meaning]:
    for suffix, what in _SUFFIXES.items():
        if name.endswith(suffix) and (base := meaning(name.removesuffix(suffix))):
            yield Meaning(name=name, kind=Kind.REAL, unit=base.unit, text=f"{base.name}: {what}")
    if name.endswith("_cv_percent") and (base := meaning(name.removesuffix("_cv_percent"))):
        text = f"{base.name}: coefficient of variation of the repeats"
        yield Meaning(name=name, kind=Kind.REAL, unit="%", text=text)
    for prefix, what in _PREFIXES.items():
        if name.startswith(f"{prefix}_") and (base := meaning(name.removeprefix(f"{prefix}_"))):
            yield Meaning(name=name, kind=Kind.REAL, unit=base.unit, text=f"{what}{base.text}")


# By the ends of their names, which have their units in them.
_FIGURE_UNITS = {
    "_tps": "tok/s",
    "_s_mean": "s",
    "_s": "s",
    "_ms": "ms",
    "_w_mean": "W",
    "_energy_j": "J",
    "_mib_max": "MiB",
    "_mhz_mean": "MHz",
    "_mhz_min": "MHz",
    "_mhz_max_possible": "MHz",
    "_c_max": "°C",
    "_util_mean": "%",
    "_tokens": "tokens",
    "_cores_mean": "cores",
    "_cores_max": "cores",
    "_cpu_share": "cores",
}
_WORDS = ("window_from", "gpu_throttle_reasons", "problem")


def _figure(name: str, text: str) -> Meaning:
    if name in _WORDS:
        return Meaning(name=name, kind=Kind.TEXT, text=text)
    unit = next((unit for end, unit in _FIGURE_UNITS.items() if name.endswith(end)), "")
    return Meaning(name=name, kind=Kind.REAL, unit=unit, text=text)


@cache
def _meanings() -> Mapping[str, Meaning]:
    return {
        row["name"]: Meaning(
            name=row["name"], kind=Kind(row["kind"]), unit=row.get("unit", ""), text=row["meaning"]
        )
        for row in _table()["column"]
    }


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((resources.files("fleetbench.data") / "columns.toml").read_text("utf-8"))
