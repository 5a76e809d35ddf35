"""Repeats of one measurement as a few honest numbers. Pure.

Two levels of noise are kept apart: between repeats within one server's life, and between starts (restarts of
a server, or other hosts). Repeats of one start share what that start happened to be, so with several starts
the interval is made of the starts, never of all repeats as if each stood for itself.

All computing is on logarithms: noise of throughputs and latencies is proportional to them, and the difference
of two logarithms is the ratio that a comparison is about.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
# From here on the order of the values alone gives an interval, whatever their distribution is.
ORDER_FROM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the typical value lies with 95 % confidence, in the unit of the values.

    Attributes:
        method: `t` (Student's t on logarithms) or `order` (order statistics of the median).
        count: values that it was made of: repeats, or starts where there are several.
    """

    low: float
    high: float
    method: str
    count: int

    @property
    def relative_percent(self) -> float | None:
        """Half its width in percent of its middle; None where the middle is 0."""
        middle = (self.low + self.high) / 2
        return (self.high - self.low) / 2 / abs(middle) * 100 if middle else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Repeats, over one start or several, in the unit of the values.

    Attributes:
        count: repeats. starts: servers' lives that they come from.
        cv_percent: coefficient of variation over all repeats (sample standard deviation over mean); None
            below two repeats or where the mean is 0.
        interval: of the median of all repeats that could be made; None with one value, which says nothing
            about noise.
        within_percent: noise between repeats of one start. between_percent: noise between starts, that of
            the repeats taken off. Standard deviations in percent; None where there are too few to tell.
    """

    median: float
    minimum: float
    maximum: float
    count: int
    cv_percent: float | None = None
    starts: int = 1
    interval: Interval | None = None
    within_percent: float | None = None
    between_percent: float | None = None

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges share a value."""
        return self.minimum <= other.maximum and other.minimum <= self.maximum


def spread(values: Iterable[float]) -> Spread | None:
    """Given the values of the repeats of one start, return their spread; None when there is none."""
    return nested_spread([list(values)])


def nested_spread(starts: Iterable[Sequence[float]]) -> Spread | None:
    """Given the repeats of each start, return the spread of all; None when there is no value."""
    groups = [list(group) for group in starts if group]
    values = [value for group in groups for value in group]
    if not values:
        return None
    mean = statistics.fmean(values)
    cv = statistics.stdev(values) / abs(mean) * 100 if len(values) > 1 and mean else None
    within, between = noise_levels(groups)
    return Spread(
        median=statistics.median(values),
        minimum=min(values),
        maximum=max(values),
        count=len(values),
        cv_percent=cv,
        starts=len(groups),
        interval=interval(values if len(groups) == 1 else [middle(group) for group in groups]),
        within_percent=within,
        between_percent=between,
    )


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return where the typical one of independent values lies; None below two values.

    Below 20 values: Student's t on logarithms, which is exact for the median of a log-normal population and
    close for what a benchmark's repeats are. From 20 on: order statistics of the median (the sign test turned
    round), true for any distribution. No bootstrap: of three values, its interval of 95 % holds the median
    75 times in 100 (docs/statistics.md).
    """
    count = len(values)
    if count < 2:
        return None
    if count >= ORDER_FROM:
        below = _order_rank(count, confidence)
        ordered = sorted(values)
        return Interval(low=ordered[below], high=ordered[count - 1 - below], method="order", count=count)
    logarithmic = all(value > 0 for value in values)
    scaled = [math.log(value) for value in values] if logarithmic else list(values)
    centre = statistics.fmean(scaled)
    half = t_quantile((1 + confidence) / 2, count - 1) * statistics.stdev(scaled) / math.sqrt(count)
    low, high = centre - half, centre + half
    if logarithmic:
        low, high = _exp(low), _exp(high)
    return Interval(low=low, high=high, method="t", count=count)


def noise_levels(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Given the repeats of each start, return the noise within and between starts in percent.

    One-way analysis of variance with random effects on logarithms (Searle, Casella, McCulloch, Variance
    Components, 1992, section 3.6): between = (mean square between − mean square within) / n₀, not below 0.
    None where a level cannot be told: no start has two repeats, or there is one start.
    """
    if any(value <= 0 for group in groups for value in group):
        return None, None
    logs = [[math.log(value) for value in group] for group in groups if group]
    total, starts = sum(map(len, logs)), len(logs)
    if total <= starts:
        return None, None
    means = [statistics.fmean(group) for group in logs]
    squares = math.fsum(
        (value - mean) ** 2 for group, mean in zip(logs, means, strict=True) for value in group
    )
    within = squares / (total - starts)
    if starts < 2:
        return _percent(within), None
    grand = math.fsum(value for group in logs for value in group) / total
    apart = math.fsum(len(group) * (mean - grand) ** 2 for group, mean in zip(logs, means, strict=True)) / (
        starts - 1
    )
    typical = (total - sum(len(group) ** 2 for group in logs) / total) / (starts - 1)
    return _percent(within), _percent(max(0.0, (apart - within) / typical))


def middle(group: Sequence[float]) -> float:
    """Return the geometric mean of a start's repeats, or the mean where a value is not above 0."""
    if all(value > 0 for value in group):
        return math.exp(statistics.fmean(math.log(value) for value in group))
    return statistics.fmean(group)


@lru_cache(maxsize=4096)  # a report asks a thousand times for the same few
def t_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's t distribution; `degrees` of freedom need not be whole."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def t_tail(value: float, degrees: float) -> float:
    """Return how likely a larger value of Student's t is; `degrees` of freedom need not be whole."""
    from scipy.special import stdtr

    return float(stdtr(degrees, -value))


@lru_cache(maxsize=4096)
def _order_rank(count: int, confidence: float) -> int:
    """Return how many values at each end lie outside the interval of the median.

    It misses a median when no more than so many of `count` values fall on one side of it.
    """
    from scipy.special import bdtr

    outside = 0
    while bdtr(outside, count, 0.5) <= (1 - confidence) / 2:
        outside += 1
    return outside - 1


def _percent(variance: float) -> float:
    return math.sqrt(variance) * 100


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))  # beyond that no float holds it
