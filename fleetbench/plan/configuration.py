"""Reads values out of a config.json, which anybody may have written: typed, bounded, or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetbench.errors import Unreadable, one_line

# No model has more of anything; a larger number is a mistake or an attack on the arithmetic.
LARGEST = 10**9
_LARGEST_TEXT = 8 * 1024 * 1024
_NEXT = "give the config.json of the model, as it lies beside the weights"


@dataclass(frozen=True, slots=True)
class Table:
    """One object of the JSON, with its place for messages: `text_config.num_hidden_layers`."""

    values: Mapping[str, Any]
    place: str = ""

    def whole(self, *names: str, default: int | None = None, least: int = 0) -> int:
        """Return the first of the names that is there as a whole number; null counts as absent.

        Without `default` one of them has to be there.
        """
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, list) and value and all(item == value[0] for item in value):
                value = value[0]  # some remote code repeats a number for each layer
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
                raise self.wrong(name, f"a whole number from {least} on", value)
            return value
        if default is None:
            raise Unreadable(
                f"config.json has no {self.place}{names[0]}", cause=self._what_there_is(), next_step=_NEXT
            )
        return default

    def number(self, name: str, default: float) -> float:
        """Return a positive number."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            raise self.wrong(name, "a positive number", value)
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def text(self, *names: str) -> str:
        """Return the first of the names that is there as one printable line, empty when none is."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise self.wrong(name, "text", value)
            return one_line(value, 100)
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty when it is absent."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of texts", value)
        return tuple(one_line(item, 200) for item in value)

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers, empty when it is absent."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            type(item) is int and 0 <= item <= LARGEST for item in value
        ):
            raise self.wrong(name, "a list of whole numbers", value)
        return tuple(value)

    def table(self, *names: str) -> Table | None:
        """Return the first of the names that is there as an object, None when none is."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if not isinstance(value, dict):
                raise self.wrong(name, "an object", value)
            return Table(value, f"{self.place}{name}.")
        return None

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def wrong(self, name: str, wanted: str, value: object) -> Unreadable:
        """Return the error for a value that is not what it should be."""
        return Unreadable(
            f"config.json: {self.place}{name} is not {wanted}", cause=f"it is {value!r:.80}", next_step=_NEXT
        )

    def _what_there_is(self) -> str:
        return f"it has {', '.join(one_line(name, 40) for name in list(self.values)[:8]) or 'nothing'}"


def read_table(text: str, what: str = "config.json") -> Table:
    """Given a JSON text, return its outermost object. Unreadable when it is none."""
    if len(text) > _LARGEST_TEXT:
        raise Unreadable(f"{what} is larger than {_LARGEST_TEXT // 2**20} MiB", next_step=_NEXT)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"{what} is not JSON", cause=str(exc), next_step=_NEXT) from exc
    if not isinstance(document, dict):
        raise Unreadable(f"{what} holds no object", cause=f"it is {type(document).__name__}", next_step=_NEXT)
    return Table(document)
