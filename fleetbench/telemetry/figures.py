"""What samples come to, by name and in order, and what the second source calls some of it: one table."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of the second source.

    Attributes:
        title: as its tables call it; `column`: in CSV and JSON.
        source: the figure that it is; where `client`, a key of the client's result, times `times`.
    """

    title: str
    column: str
    source: str
    client: bool = False
    times: float = 1.0

    def of(self, figures: Mapping[str, Any], result: Mapping[str, Any]) -> float | None:
        """Return its value; None when that is not known."""
        value = (result if self.client else figures).get(self.source)
        return value * self.times if isinstance(value, int | float) else None


@cache
def figures() -> Mapping[str, str]:
    """Return what each figure is, by its name."""
    return {row["name"]: row["what"] for row in _table()["figure"]}


@cache
def measures() -> tuple[Measure, ...]:
    """Return the second source's measures."""
    return tuple(
        Measure(
            title=row["title"],
            column=row["column"],
            source=row["from"],
            client=row.get("client", False),
            times=row.get("times", 1.0),
        )
        for row in _table()["measure"]
    )


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    text = (resources.files("fleetbench.data") / "telemetry_figures.toml").read_text("utf-8")
    return tomllib.loads(text)
