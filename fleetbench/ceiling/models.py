"""Shapes of models by name, for rows that nobody has a config.json for: `data/models.toml`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fleetbench.plan.architecture import Architecture, read_architecture

_LONGEST_NAME = 300


def architecture_named(name: str) -> Architecture | None:
    """Return the shape of a model by the last part of its repository's name or path; None when the table does
    not have it. Upper and lower case are alike, and nothing else is guessed."""
    return _table().get(name[-_LONGEST_NAME:].rstrip("/").rpartition("/")[2].lower())


def known() -> tuple[str, ...]:
    """Return the first name of each model of the table."""
    return tuple(row["names"][0] for row in _rows())


def is_counted(kind: str) -> bool:
    """Whether the work of models of this `model_type` is known to be what is counted."""
    return kind in _data()["counted_kinds"]


@cache
def _table() -> Mapping[str, Architecture]:
    found: dict[str, Architecture] = {}
    for row in _rows():
        shape = read_architecture(json.dumps(row["config"]))
        found |= {name.lower(): shape for name in row["names"]}
    return found


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _data()["model"]
    return rows


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((resources.files("fleetbench") / "data" / "models.toml").read_text("utf-8"))
