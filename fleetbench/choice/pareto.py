"""What no other exceeds both in output per GPU and in the speed that one user sees. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fleetbench.report.frontier import frontier
from fleetbench.report.metrics import PER_GPU, PER_USER
from fleetbench.report.recommendation import Pick


def pareto(picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """Return the picks on the front, the fastest for a user first; those without both values are left out."""
    known = [
        (user, gpu, pick)
        for pick in picks
        if (user := pick.entry.value(PER_USER)) is not None and (gpu := pick.entry.value(PER_GPU)) is not None
    ]
    return tuple(pick for *_, pick in frontier(known, lambda each: each[:2]))
