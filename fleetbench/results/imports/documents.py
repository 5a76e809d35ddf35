"""Looking into JSON that somebody else's program wrote: what is not there, or is of another kind, is None."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fleetbench.errors import Unreadable, one_line

_DEEPEST = 8
_MOST_LOOKED_AT = 20_000
_LARGEST = 10**18


def load(text: str, source: str) -> Any:
    """Return the JSON value of a text; `Unreadable` where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"{source}: no JSON", cause=one_line(str(exc), 200)) from exc


def at(value: Any, *path: str | int) -> Any:
    """Return what is found along a path of keys and positions; None where it leads nowhere."""
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def number(value: Any) -> float | None:
    """Return a number that is finite and not negative; None for anything else, a marker of -1 among it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LARGEST else None


def count(value: Any) -> int | None:
    """Return a whole number that is not negative."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None


def text(value: Any, limit: int = 200) -> str:
    """Return a text on one line, empty for anything else; of a list, its first text."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        value = value.get("name")
    return one_line(value, limit) if isinstance(value, str) else ""


def first(value: Any, *names: str) -> Any:
    """Return the first value that is kept anywhere below under one of the names, shallow ones first.

    Settings moved between sections from release to release, and kept their names.
    """
    for name in names:
        for mapping in _mappings(value):
            if mapping.get(name) is not None:
                return mapping[name]
    return None


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    level, looked_at = [value], 0
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for item in level:
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                return
            if isinstance(item, dict):
                yield item
                following += [inner for inner in item.values() if isinstance(inner, dict | list)]
            elif isinstance(item, list):
                following += [inner for inner in item[:100] if isinstance(inner, dict | list)]
        level = following
