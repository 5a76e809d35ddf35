"""Repeats of one measurement as a few honest numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median and range of repeats, in the unit of the values.

    `cv_percent` is the coefficient of variation (sample standard deviation over mean), None below two
    repeats or where the mean is 0.
    """

    median: float
    minimum: float
    maximum: float
    count: int
    cv_percent: float | None = None

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges share a value: then the repeats do not tell the two apart."""
        return self.minimum <= other.maximum and other.minimum <= self.maximum


def spread(values: Iterable[float]) -> Spread | None:
    """Given the values of the repeats, return their spread; None when there is none."""
    found = list(values)
    if not found:
        return None
    mean = statistics.fmean(found)
    cv = statistics.stdev(found) / abs(mean) * 100 if len(found) > 1 and mean else None
    return Spread(
        median=statistics.median(found),
        minimum=min(found),
        maximum=max(found),
        count=len(found),
        cv_percent=cv,
    )
