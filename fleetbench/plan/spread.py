"""Longest first: who does what when, if everything takes as long as expected.

The longest piece goes to whoever is free first. That is at most a third longer than the best that there is
(Graham 1969), and needs no more than to ask for work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One piece of work: which lane does it, from when until when."""

    lane: int
    began_s: float
    ended_s: float


def longest_first(pieces_s: Sequence[float], lanes_s: Sequence[float]) -> tuple[Span, ...]:
    """Given how long each piece takes and when each lane becomes free, return a span for each piece.

    Of equally long pieces the first is done first, of equally free lanes the first takes it.
    """
    free = list(lanes_s)
    spans: dict[int, Span] = {}
    for piece in sorted(range(len(pieces_s)), key=lambda index: -pieces_s[index]):
        lane = min(range(len(free)), key=lambda index: free[index])
        began = free[lane]
        free[lane] = began + pieces_s[piece]
        spans[piece] = Span(lane=lane, began_s=began, ended_s=free[lane])
    return tuple(spans[piece] for piece in range(len(pieces_s)))


def makespan_s(spans: Sequence[Span]) -> float:
    """Return when the last piece ends."""
    return max((span.ended_s for span in spans), default=0.0)
