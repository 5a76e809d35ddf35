"""What no other exceeds in both of two numbers: Pareto's frontier, for the choice and for its chart. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def frontier(items: Iterable[Item], both: Callable[[Item], tuple[float, float]]) -> tuple[Item, ...]:
    """Return the items that none reaches in one number and exceeds in the other, the first number falling.

    Both numbers are the better the higher. Of equal items the first one is kept.
    """
    found: list[Item] = []
    most = float("-inf")
    for item in sorted(items, key=both, reverse=True):
        second = both(item)[1]
        if second > most:
            found.append(item)
            most = second
    return tuple(found)
