"""Intervals hold what they promise, and the two levels of noise are told apart: by simulation, seeded."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.results.statistics import ORDER_FROM, interval, nested_spread, noise_levels, spread

TRIES = 1500
SEED = 20261201

# What a benchmark's repeats may look like, each with its true median.
SHAPES: dict[str, tuple[Callable[[random.Random], float], float]] = {
    "log-normal, 2 %": (lambda r: math.exp(r.gauss(0, 0.02)), 1.0),
    "normal, 5 %": (lambda r: r.gauss(1, 0.05), 1.0),
    "log-normal, 50 %": (lambda r: math.exp(r.gauss(0, 0.5)), 1.0),
    "heavy tails": (lambda r: 1 + 0.02 * r.gauss(0, 1) / math.sqrt(r.gammavariate(1.5, 2) / 3), 1.0),
}


def coverage(made: Callable[[random.Random], tuple[float, float]], true: float, tries: int = TRIES) -> float:
    r = random.Random(SEED)  # noqa: S311  a simulation that can be repeated
    return sum(low <= true <= high for low, high in (made(r) for _ in range(tries))) / tries


def drawn(
    shape: Callable[[random.Random], float], count: int
) -> Callable[[random.Random], tuple[float, float]]:
    def made(r: random.Random) -> tuple[float, float]:
        found = interval([shape(r) for _ in range(count)])
        assert found is not None
        return found.low, found.high

    return made


def test_a_spread_is_median_range_and_variation() -> None:
    found = spread([30.0, 10.0, 20.0])
    assert found is not None
    assert (found.median, found.minimum, found.maximum, found.count) == (20.0, 10.0, 30.0, 3)
    assert found.cv_percent == pytest.approx(50.0)
    assert spread([]) is None


def test_one_value_has_no_interval_and_no_noise() -> None:
    found = spread([5.0])
    assert found is not None
    assert (found.interval, found.cv_percent, found.within_percent, found.between_percent) == (None,) * 4


def test_three_values_give_students_t_on_logarithms() -> None:
    found = interval([98.0, 100.0, 103.0])
    assert found is not None
    logs = [math.log(value) for value in (98.0, 100.0, 103.0)]
    half = 4.302652729911275 * statistics.stdev(logs) / math.sqrt(3)  # t of 97.5 %, 2 degrees of freedom
    centre = statistics.fmean(logs)
    assert (found.method, found.count) == ("t", 3)
    assert found.low == pytest.approx(math.exp(centre - half))
    assert found.high == pytest.approx(math.exp(centre + half))


def test_equal_values_give_an_interval_without_width_and_zero_is_no_logarithm() -> None:
    same = interval([7.0, 7.0, 7.0])
    assert same is not None
    assert (same.low, same.high) == (pytest.approx(7.0), pytest.approx(7.0))
    plain = interval([0.0, 1.0, 2.0])
    assert plain is not None
    assert (plain.low + plain.high) / 2 == pytest.approx(1.0)
    assert plain.low < 0


def test_many_values_give_order_statistics_of_the_median() -> None:
    found = interval([float(value) for value in range(1, 21)])
    assert found is not None
    # Binomial: of 20 values the 6th and the 15th hold the median in 95.9 % of cases.
    assert (found.method, found.low, found.high) == ("order", 6.0, 15.0)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_the_interval_of_few_repeats_holds_the_true_value_95_times_in_100(name: str, count: int) -> None:
    shape, true = SHAPES[name]
    assert 0.93 <= coverage(drawn(shape, count), true) <= 0.975


@pytest.mark.parametrize("count", [ORDER_FROM, 40])
def test_the_interval_of_many_repeats_holds_the_median_of_a_skewed_population(count: int) -> None:
    found = coverage(drawn(lambda r: 1 + 0.05 * r.expovariate(1), count), 1 + 0.05 * math.log(2))
    assert 0.94 <= found <= 0.985


def test_a_bootstrap_of_three_values_would_not() -> None:
    """Why there is none: it never leaves the range of the values."""

    def made(r: random.Random) -> tuple[float, float]:
        values = [math.exp(r.gauss(0, 0.02)) for _ in range(3)]
        medians = sorted(statistics.median(r.choices(values, k=3)) for _ in range(200))
        return medians[5], medians[194]

    assert 0.70 <= coverage(made, 1.0, 800) <= 0.80


def nested(
    r: random.Random, starts: int, repeats: Sequence[int], between: float, within: float
) -> list[list[float]]:
    centres = [r.gauss(0, between) for _ in range(starts)]
    return [
        [math.exp(centre + r.gauss(0, within)) for _ in range(count)]
        for centre, count in zip(centres, repeats, strict=True)
    ]


@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
def test_with_several_starts_the_interval_holds_the_true_value_whatever_restarts_do(between: float) -> None:
    def made(r: random.Random) -> tuple[float, float]:
        found = nested_spread(nested(r, 3, (3, 3, 3), between, 0.01))
        assert found is not None
        assert found.interval is not None
        assert found.interval.count == 3
        return found.interval.low, found.interval.high

    assert 0.93 <= coverage(made, 1.0) <= 0.97


def test_taking_all_repeats_for_independent_would_promise_too_much() -> None:
    """The mistake that the nesting prevents: restarts of 3 % and repeats of 0.5 %."""

    def made(r: random.Random) -> tuple[float, float]:
        found = interval([value for group in nested(r, 3, (3, 3, 3), 0.03, 0.005) for value in group])
        assert found is not None
        return found.low, found.high

    assert coverage(made, 1.0) < 0.75


@pytest.mark.parametrize(("between", "within"), [(0.0, 0.02), (0.03, 0.01), (0.01, 0.03)])
def test_the_two_levels_of_noise_are_told_apart(between: float, within: float) -> None:
    r = random.Random(SEED)  # noqa: S311  a simulation that can be repeated
    found = [noise_levels(nested(r, 6, (4, 3, 5, 4, 2, 4), between, within)) for _ in range(600)]
    variances = [[value**2 for value in column if value is not None] for column in zip(*found, strict=True)]
    assert math.sqrt(statistics.fmean(variances[0])) == pytest.approx(within * 100, rel=0.05)
    # Not below 0, so a little too much where there is none.
    assert math.sqrt(statistics.fmean(variances[1])) == pytest.approx(between * 100, rel=0.1, abs=0.7)


def test_noise_that_cannot_be_told_is_unknown_and_not_zero() -> None:
    assert noise_levels([[1.0, 1.1]])[1] is None
    assert noise_levels([[1.0], [1.1]]) == (None, None)
    assert noise_levels([[0.0, 1.0], [1.0, 2.0]]) == (None, None)
    same = nested_spread([[1.0, 1.0], [1.0, 1.0]])
    assert same is not None
    assert (same.within_percent, same.between_percent) == (0.0, 0.0)


@given(
    st.lists(
        st.lists(
            st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300), max_size=4
        ),
        max_size=4,
    )
)
def test_whatever_finite_values_there_are_the_spread_is_in_order(groups: list[list[float]]) -> None:
    found = nested_spread(groups)
    if found is None:
        assert not any(groups)
        return
    assert found.minimum <= found.median <= found.maximum
    assert found.starts == len([group for group in groups if group])
    if found.interval is not None:
        assert found.interval.low <= found.interval.high
