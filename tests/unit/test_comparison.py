"""What is said of two groups of repeats, and how often it is wrong: by simulation, seeded."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.results.comparison import Comparison, Observation, compare, percent_range

SEED = 20261201
Draw = Callable[[random.Random], Comparison]


def group(*values: float, start: str = "1", seeds: bool = False) -> list[Observation]:
    return [
        Observation(value=value, start=start, seed=place if seeds else None)
        for place, value in enumerate(values)
    ]


def compared(first: Sequence[Observation], second: Sequence[Observation]) -> Comparison:
    found = compare(first, second)
    assert found is not None
    return found


def share(draw: Draw, true: Callable[[Comparison], bool], tries: int = 1500) -> float:
    r = random.Random(SEED)  # noqa: S311  a simulation that can be repeated
    return sum(true(draw(r)) for _ in range(tries)) / tries


def holds(ratio: float) -> Callable[[Comparison], bool]:
    return lambda found: found.low is not None and found.high is not None and found.low <= ratio <= found.high


def drawn(
    counts: tuple[int, int],
    noises: tuple[float, float],
    *,
    ratio: float = 1.0,
    in_common: float | None = None,
) -> Draw:
    """Return what draws two groups; `in_common` is the noise that equal seeds share (None: other seeds)."""

    def draw(r: random.Random) -> Comparison:
        shared = [r.gauss(0, in_common or 0) for _ in range(max(counts))]
        groups = []
        for centre, count, noise in zip((math.log(ratio), 0.0), counts, noises, strict=True):
            values = [math.exp(centre + shared[place] + r.gauss(0, noise)) for place in range(count)]
            groups.append(group(*values, seeds=in_common is not None))
        return compared(*groups)

    return draw


def test_a_clear_difference_is_told_as_a_range() -> None:
    found = compared(group(106, 108, 107), group(100, 101, 99))
    # Welch by hand: logarithms differ by 0.06767, standard error 0.00790, 3.99 degrees of freedom.
    assert found.method == "Welch"
    assert (found.ratio, found.low, found.high) == (
        pytest.approx(1.0700, abs=1e-4),
        pytest.approx(1.0467, abs=2e-4),
        pytest.approx(1.0938, abs=2e-4),
    )
    assert found.sentence() == "faster by 5–9 %"
    assert compared(group(100, 101, 99), group(106, 108, 107)).sentence() == "slower by 4–9 %"
    assert found.sentence(against="tp=1") == "faster than tp=1 by 5–9 %"


def test_latencies_are_shorter_or_longer() -> None:
    found = compared(group(93, 94, 92), group(100, 101, 99))
    assert found.sentence(higher_is_better=False) == "shorter by 5–9 %"
    other = compared(group(100, 101, 99), group(93, 94, 92))
    assert other.sentence(higher_is_better=False, against="dp=2") == "longer than dp=2 by 5–10 %"


def test_what_is_far_apart_is_told_as_a_multiple() -> None:
    found = compared(group(400, 410, 390), group(100, 101, 99))
    assert found.sentence() == "3.79–4.22 times as fast"
    assert found.sentence(higher_is_better=False, against="tp=1") == "3.79–4.22 times as long as tp=1"
    assert compared(group(100, 101, 99), group(400, 410, 390)).sentence() == "slower by 74–76 %"


def test_noise_is_said_with_what_would_find_more() -> None:
    found = compared(group(104, 112, 100), group(100, 101, 99))
    assert not found.differs
    assert found.sentence() == "not distinguishable at this noise: 4 more repeats would show 7 %"


def test_what_is_promised_of_more_repeats_is_kept() -> None:
    """Three repeats at 3 %: so many more show the difference that was named in 80 of 100 tries."""
    found = compared(group(103, 100, 97), group(100, 103, 97))
    assert found.more is not None
    assert found.shown_percent is not None
    count = 3 + found.more
    power = share(
        drawn((count, count), (0.03, 0.03), ratio=1 + found.shown_percent / 100), lambda it: it.differs
    )
    assert 0.75 <= power <= 0.97


def test_a_difference_within_one_percent_is_none() -> None:
    found = compared(group(100.1, 100.2, 100.0), group(100.0, 100.1, 99.9))
    assert (found.same, found.differs) == (True, False)
    assert found.sentence() == "within 1 % of each other"
    assert found.sentence(against="tp=1") == "within 1 % of tp=1"


@pytest.mark.parametrize("second", [(100.0,), (100.0, 101.0, 99.0)])
def test_a_single_repeat_makes_no_claim(second: tuple[float, ...]) -> None:
    found = compared(group(110.0), group(*second))
    assert (found.low, found.high, found.more, found.differs, found.same) == (None, None, None, False, False)
    assert "(measured once: the noise is unknown)" in found.sentence()
    assert found.sentence(against="tp=1").partition(" (")[0] in ("10 % above tp=1", "10.0 % above tp=1")


def test_nothing_is_compared_with_nothing_or_with_zero() -> None:
    assert compare([], group(1.0)) is None
    assert compare(group(0.0, 1.0), group(1.0, 1.0)) is None
    assert compare(group(float("nan"), 1.0), group(1.0, 1.0)) is None


def test_equal_seeds_are_paired_and_what_they_share_drops_out() -> None:
    drift = (100.0, 140.0, 180.0)
    paired = compared(group(*(1.05 * value for value in drift), seeds=True), group(*drift, seeds=True))
    assert (paired.method, paired.counts) == ("paired by seed", (3, 3))
    assert paired.sentence() == "faster by 5.0 %"
    alone = compared(group(*(1.05 * value for value in drift)), group(*drift))
    assert alone.method == "Welch"
    assert not alone.differs


def test_seeds_that_do_not_all_agree_are_no_pairs() -> None:
    first, second = group(1.0, 1.1, 1.2, seeds=True), group(1.0, 1.1, 1.2, 1.3, seeds=True)
    assert compared(first, second).method == "Welch"
    assert compared(first[:2], second[:2]).method == "Welch"
    twice = [*first[:2], first[1]]
    assert compared(twice, twice).method == "Welch"


def starts(*groups: tuple[float, ...]) -> list[Observation]:
    return [
        found for place, values in enumerate(groups) for found in group(*values, start=str(place), seeds=True)
    ]


def test_several_starts_are_compared_by_their_starts() -> None:
    found = compared(starts((100, 101), (110, 111), (90, 91)), starts((105, 106), (115, 116), (95, 96)))
    assert (found.method, found.unit, found.counts) == ("starts", "start", (3, 3))
    assert not found.differs
    assert "more starts would show" in found.sentence()


def test_a_lone_start_is_given_the_noise_of_the_others() -> None:
    found = compared(starts((100, 101), (110, 111), (90, 91)), starts((115, 115)))
    assert (found.method, found.counts) == ("starts", (3, 1))
    assert not found.differs
    assert found.low is not None
    assert found.low < 0.6


@pytest.mark.parametrize(
    ("counts", "noises"),
    [((2, 2), (0.02, 0.02)), ((3, 3), (0.02, 0.02)), ((3, 5), (0.01, 0.04)), ((5, 5), (0.3, 0.1))],
)
def test_the_interval_holds_the_true_ratio_95_times_in_100(
    counts: tuple[int, int], noises: tuple[float, float]
) -> None:
    assert 0.93 <= share(drawn(counts, noises, ratio=1.05), holds(1.05)) <= 0.985


@pytest.mark.parametrize("in_common", [0.0, 0.01, 0.1])
def test_pairs_hold_it_too_whatever_they_have_in_common(in_common: float) -> None:
    found = share(drawn((4, 4), (0.02, 0.02), ratio=1.05, in_common=in_common), holds(1.05))
    assert 0.93 <= found <= 0.97


@pytest.mark.parametrize("counts", [(3, 3), (4, 2), (3, 1)])
def test_starts_hold_it_too(counts: tuple[int, int]) -> None:
    def draw(r: random.Random) -> Comparison:
        made = []
        for ratio, count in zip((1.05, 1.0), counts, strict=True):
            centres = [math.log(ratio) + r.gauss(0, 0.03) for _ in range(count)]
            made.append(starts(*(tuple(math.exp(c + r.gauss(0, 0.005)) for _ in range(3)) for c in centres)))
        return compared(*made)

    assert 0.93 <= share(draw, holds(1.05)) <= 0.985


@pytest.mark.parametrize("count", [2, 3, 5])
def test_equal_groups_are_called_different_at_most_5_times_in_100(count: int) -> None:
    assert share(drawn((count, count), (0.05, 0.05)), lambda found: found.differs) <= 0.06


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.06, 1.09, "6–9"),
        (0.91, 0.94, "6–9"),
        (1.004, 1.03, "0.4–3.0"),
        (1.0004, 1.03, "0.04–3.0"),
        (1.0712, 1.0713, "7.1"),
        (1.0601, 1.0639, "6.0–6.4"),
        (5.0, 12.0, "400–1,100"),
    ],
)
def test_a_range_has_the_digits_that_it_needs_and_never_begins_with_zero(
    low: float, high: float, text: str
) -> None:
    assert percent_range(low, high) == text


VALUES = st.lists(
    st.builds(
        Observation,
        value=st.floats(),
        start=st.sampled_from("ab"),
        seed=st.none() | st.integers(0, 3),
    ),
    max_size=5,
)


@given(VALUES, VALUES)
def test_whatever_is_compared_gets_a_sentence(first: list[Observation], second: list[Observation]) -> None:
    found = compare(first, second)
    if found is not None:
        assert found.sentence()
        assert not (found.same and found.differs)
        if found.low is not None and found.high is not None:
            assert found.low <= found.ratio * (1 + 1e-9)
            assert found.ratio <= found.high * (1 + 1e-9)


@pytest.mark.parametrize("seeds", [False, True], ids=["Welch", "paired"])
@pytest.mark.parametrize("configurations", [2, 3, 6, 12])
def test_among_equal_configurations_a_winner_is_named_at_most_5_times_in_100(
    configurations: int, seeds: bool
) -> None:
    """The best is clear of every other one: all comparisons have to agree, so many make no more winners."""
    r = random.Random(SEED)  # noqa: S311  a simulation that can be repeated
    winners = 0
    for _ in range(600):
        shared = [r.gauss(0, 0.02) for _ in range(3)]
        groups = [
            group(*(math.exp((seed if seeds else 0) + r.gauss(0, 0.03)) for seed in shared), seeds=seeds)
            for _ in range(configurations)
        ]
        first, *others = sorted(groups, key=lambda found: -statistics.median(item.value for item in found))
        winners += all((it := compared(first, other)).differs and it.ratio > 1 for other in others)
    assert winners / 600 <= 0.07  # 0.05, and what 600 tries may miss it by
