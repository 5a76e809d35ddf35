"""Two groups of repeats: by how much they differ, whether that is more than noise, and how to find out. Pure.

The ratio of two typical values has an interval of 95 %; what is said follows from it and from nothing else:

- it lies within ±1 %: the two are the same for any purpose;
- it does not hold 1: one is faster, by the interval;
- else they are not distinguishable, and how many more repeats would show which difference is said.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fleetbench.results.statistics import CONFIDENCE, middle, t_quantile, t_tail

SAME_PERCENT = 1.0  # within that, a difference is not worth a name
# Servers that were started once each may differ by as much for no other reason (a rule of thumb, see
# docs/statistics.md): what is claimed below that says so.
RESTART_PERCENT = 3.0
MOST_PERCENT = 200.0  # beyond that a difference is told as a multiple
POWER = 0.8  # with which `more` repeats would show a difference
# Fewer pairs cost more certainty than what they have in common gives back.
LEAST_PAIRS = 3
WORTH_SHOWING_PERCENT = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
MOST_MORE = 5


@dataclass(frozen=True, slots=True)
class Words:
    """How a ratio is told: above 1 and below 1 in percent, and as a multiple: `3 times as fast`."""

    above: str
    below: str
    multiple: str


FASTER = Words("faster", "slower", "fast")
LONGER = Words("longer", "shorter", "long")
MORE = Words("more", "less", "much")
DEARER = Words("dearer", "cheaper", "dear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One repeat: its value, the start of a server that it belongs to, the seed of its prompts."""

    value: float
    start: str = ""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The first group against the second.

    Attributes:
        ratio: typical value of the first over that of the second.
        low, high: the ratio's interval of 95 %; None where a group has a single value.
        method: `paired by seed`, `Welch`, or `starts` (Welch over starts); empty without an interval.
        counts: values of each group that the interval was made of: repeats, starts, or pairs.
        unit: what one more of is one more value: `repeat` or `start`.
        more: so many more of them in each group would show a difference of `shown_percent` in 80 of 100
            tries; None where that is not known, or not to be had with five.
        error: standard error of the ratio's logarithm. degrees: of freedom of its Student's t.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    counts: tuple[int, int] = (1, 1)
    unit: str = "repeat"
    more: int | None = None
    shown_percent: float | None = None
    error: float | None = None
    degrees: float | None = None

    @property
    def same(self) -> bool:
        """Whether the two are known to lie within one percent of each other."""
        within = 1 + SAME_PERCENT / 100
        return (
            self.low is not None and self.high is not None and 1 / within <= self.low <= self.high <= within
        )

    @property
    def differs(self) -> bool:
        """Whether the difference is more than noise, and more than nothing."""
        return (
            self.low is not None
            and self.high is not None
            and not self.same
            and not self.low <= 1 <= self.high
        )

    @property
    def within_a_start(self) -> bool:
        """Whether another start of the same servers might undo it, be it worth a name or not."""
        near = min(abs((bound or 1) - 1) for bound in (self.low, self.high))
        return self.unit == "repeat" and near < RESTART_PERCENT / 100

    @property
    def may_be_the_start(self) -> bool:
        """Whether it is a difference that another start of the same servers might undo."""
        return self.differs and self.within_a_start

    def chance(self, limit: float, *, above: bool) -> float | None:
        """Return how likely a ratio so far above (or below) a limit is when the truth is the limit itself.

        One-sided: at 0.025 the interval ends at the limit. None without an interval.
        """
        if self.error is None or self.degrees is None:
            return None
        beyond = math.log(self.ratio / limit) * (1 if above else -1)
        if self.error == 0:  # repeats that are all alike
            return 0.0 if beyond > 0 else 1.0
        return t_tail(beyond / self.error, self.degrees)

    def sentence(
        self, *, higher_is_better: bool = True, against: str = "", words: Words | None = None
    ) -> str:
        """Return what the comparison says, as a clause: `faster by 6–9 %`.

        Far apart they are `3.1–4.2 times as fast`. For latencies (`higher_is_better` False) it is
        `shorter by`, `longer by` or `times as long`; `words` are others for what is neither. `against` names
        the second group: `faster than tp=1 by 6–9 %`.
        """
        if self.low is None or self.high is None:
            alone = f"{against} " if against else ""
            return f"{_apart(self.ratio)} {alone}(measured once: the noise is unknown)"
        if self.same:
            return f"within {SAME_PERCENT:g} % of {against or 'each other'}"
        if self.differs:
            told = words or (FASTER if higher_is_better else LONGER)
            if self.low > 1 and self.high > MOST_PERCENT / 100 + 1:
                as_other = f" as {against}" if against else ""
                return f"{_times(self.low, self.high)} times as {told.multiple}{as_other}"
            than = f" than {against}" if against else ""
            word = told.above if self.low > 1 else told.below
            return f"{word}{than} by {percent_range(self.low, self.high)} %"
        from_other = f" from {against}" if against else ""
        text = f"not distinguishable{from_other} at this noise"
        if self.more is None:
            return text
        several = "s" if self.more > 1 else ""
        return f"{text}: {self.more} more {self.unit}{several} would show {self.shown_percent:g} %"


def compare(first: Iterable[Observation], second: Iterable[Observation]) -> Comparison | None:
    """Given two groups of repeats, compare them; None where a group is empty or a value is no number above 0.

    Which method depends on how the repeats were made, never on their values:

    - one start each, equal seeds in both (three or more): the ratio of each pair, Student's t;
    - one start each otherwise: Welch's t over repeats. Neither holds what a restart would change;
    - several starts of both: Welch's t over the starts' means;
    - several starts of one: the noise between its starts is taken for the other's, too.
    """
    one, other = list(first), list(second)
    if not one or not other or not all(0 < found.value < math.inf for found in (*one, *other)):
        return None
    starts = _by_start(one), _by_start(other)
    if max(map(len, starts)) > 1:
        means = [[math.log(middle(group)) for group in groups] for groups in starts]
        return _over_starts(means[0], means[1])
    pairs = _pairs(one, other)
    if pairs:
        return _made([a - b for a, b in pairs], None, "paired by seed", "repeat")
    return _made(_logs(one), _logs(other), "Welch", "repeat")


def percent_range(low: float, high: float) -> str:
    """Given an interval of a ratio that does not hold 1, return its distance from 1 in percent: `6–9`."""
    near, far = sorted(abs(bound - 1) * 100 for bound in (low, high))
    decimals = 0 if near >= 1 and far - near >= 1 else 1 if far - near >= 0.1 or near >= 1 else 2
    shown = f"{near:,.{decimals}f}", f"{far:,.{decimals}f}"
    if float(shown[0].replace(",", "")) == 0:
        shown = f"{near:,.1g}", shown[1]
    return shown[0] if shown[0] == shown[1] else "–".join(shown)


def _over_starts(one: list[float], other: list[float]) -> Comparison:
    if min(len(one), len(other)) > 1:
        return _made(one, other, "starts", "start")
    several, lone = (one, other) if len(one) > 1 else (other, one)
    noise = statistics.stdev(several)
    error = noise * math.sqrt(1 / len(one) + 1 / len(other))
    difference = statistics.fmean(one) - statistics.fmean(other)
    counts = len(one), len(other)
    more = _more(noise * math.sqrt(2), len(lone), lambda n: 2 * (n - 1))
    degrees = len(several) - 1
    return _interval(difference, error, degrees, method="starts", unit="start", counts=counts, more=more)


def _made(one: list[float], other: list[float] | None, method: str, unit: str) -> Comparison:
    """Return the comparison of two lists of logarithms, or of one list of differences."""
    if other is None:
        counts = len(one), len(one)
        difference, noise = statistics.fmean(one), statistics.stdev(one)
        degrees: float = len(one) - 1
        error = noise / math.sqrt(len(one))
        more = _more(noise, len(one), lambda n: n - 1)
    else:
        counts = len(one), len(other)
        difference = statistics.fmean(one) - statistics.fmean(other)
        if min(counts) < 2:
            return Comparison(ratio=_ratio(difference), counts=counts, unit=unit)
        variances = [statistics.variance(group) for group in (one, other)]
        shares = [variance / count for variance, count in zip(variances, counts, strict=True)]
        error = math.sqrt(sum(shares))
        degrees = _welch(shares, counts)
        more = _more(math.sqrt(sum(variances)), min(counts), lambda n: 2 * (n - 1))
    return _interval(difference, error, degrees, method=method, unit=unit, counts=counts, more=more)


def _interval(
    difference: float,
    error: float,
    degrees: float,
    *,
    method: str,
    unit: str,
    counts: tuple[int, int],
    more: tuple[int | None, float | None],
) -> Comparison:
    half = t_quantile((1 + CONFIDENCE) / 2, degrees) * error
    return Comparison(
        ratio=_ratio(difference),
        low=_ratio(difference - half),
        high=_ratio(difference + half),
        method=method,
        counts=counts,
        unit=unit,
        more=more[0],
        shown_percent=more[1],
        error=error,
        degrees=degrees,
    )


def _welch(shares: Sequence[float], counts: Sequence[int]) -> float:
    """Return Welch and Satterthwaite's degrees of freedom, given variance over count of each group."""
    below = sum(share**2 / (count - 1) for share, count in zip(shares, counts, strict=True))
    return sum(shares) ** 2 / below if below else float(sum(counts) - 2)


def _more(noise: float, count: int, degrees: Callable[[int], float]) -> tuple[int | None, float | None]:
    """Return how many more values show which difference in percent, given the noise of one difference.

    The smallest difference of the table that no more than five more values show, but not the present ones: by
    the usual approximation, (t for the confidence + t for the power) × standard error.
    """

    def shown(values: int) -> float:
        free = degrees(values)
        reach = t_quantile((1 + CONFIDENCE) / 2, free) + t_quantile(POWER, free)
        return (_ratio(reach * noise / math.sqrt(values)) - 1) * 100

    for percent in WORTH_SHOWING_PERCENT:
        for more in range(1, MOST_MORE + 1):
            if shown(count + more) <= percent:
                return more, percent
    return None, None


def _by_start(observations: Iterable[Observation]) -> list[list[float]]:
    found: dict[str, list[float]] = {}
    for observation in observations:
        found.setdefault(observation.start, []).append(observation.value)
    return list(found.values())


def _pairs(one: Sequence[Observation], other: Sequence[Observation]) -> list[tuple[float, float]]:
    """Return logarithms side by side where both groups have the same seeds, each once; else nothing."""
    first, second = ({item.seed: item.value for item in group} for group in (one, other))
    once = len(first) == len(one) == len(other)
    if None in first or first.keys() != second.keys() or not once or len(first) < LEAST_PAIRS:
        return []
    return [(math.log(value), math.log(second[seed])) for seed, value in first.items()]


def _logs(observations: Iterable[Observation]) -> list[float]:
    return [math.log(observation.value) for observation in observations]


def _ratio(logarithm: float) -> float:
    return math.exp(max(-700.0, min(logarithm, 700.0)))  # beyond that no float holds it


def _times(low: float, high: float) -> str:
    shown = (f"{bound:,.0f}" if bound >= 100 else f"{bound:.3g}" for bound in (low, high))
    return "–".join(dict.fromkeys(shown))


def _apart(ratio: float) -> str:
    percent = abs(ratio - 1) * 100
    return f"{percent:,.{1 if percent < 10 else 0}f} % {'above' if ratio > 1 else 'below'}"
