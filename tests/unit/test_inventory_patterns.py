"""Names written short and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.inventory import expand_names, fold_names
from fleetbench.inventory.patterns import split_expression

names = st.from_regex(r"[a-c]{1,2}-?[0-9]{0,3}(\.[a-b][0-9]{0,2})?", fullmatch=True)


@given(st.lists(names, max_size=40))
def test_folding_and_expanding_gives_the_same_names_each_once(many: list[str]) -> None:
    folded = fold_names(many)
    again = [name for term in split_expression(folded) for name in expand_names(term)]
    assert sorted(again) == sorted(set(many))


@given(st.integers(0, 2000), st.integers(0, 300), st.integers(1, 4))
def test_a_range_expands_to_every_number_between_its_ends(first: int, more: int, width: int) -> None:
    ends = [str(first).zfill(width), str(first + more).zfill(width)]
    if ends[0].startswith("0") or len(ends[0]) >= width:
        assert len(expand_names(f"n[{ends[0]}-{ends[1]}]")) == more + 1


@given(st.text(alphabet="ab[],-019", max_size=12))
def test_any_text_expands_or_is_refused_with_a_reason(text: str) -> None:
    try:
        found = expand_names(text)
    except ValueError as exc:
        reason = str(exc)
    else:
        reason = ""
    assert reason or (found and not any("[" in name or "]" in name for name in found))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("h100-01", ["h100-01"]),
        ("h100-[08-10]", ["h100-08", "h100-09", "h100-10"]),
        ("h[8-10]", ["h8", "h9", "h10"]),
        ("h[1,3-4].dc", ["h1.dc", "h3.dc", "h4.dc"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("h[098-101]", ["h098", "h099", "h100", "h101"]),
        ("h[7]", ["h7"]),
    ],
)
def test_ranges_expand_in_order_and_keep_their_zeros(pattern: str, expected: list[str]) -> None:
    assert list(expand_names(pattern)) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("h[08-01]", "runs backwards"),
        ("h[1-08]", "different zeros"),
        ("h[01-8]", "different zeros"),
        ("h[a-c]", "not a list of numbers"),
        ("h[]", "not a list of numbers"),
        ("h[1-2", "has no partner"),
        ("h1]", "has no partner"),
        ("h[[1-2]]", "has no partner"),
        ("h[1-999999999]", "more than 10000 names"),
        ("h[1-99999999999999]", "not a list of numbers"),
        ("h[1-200][1-200]", "stands for 40000 names"),
        ("h[١-٣]", "not a list of numbers"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expand_names(pattern)


@pytest.mark.parametrize(
    ("many", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        ([f"h100-{n:02}" for n in range(1, 9)], "h100-[01-08]"),
        (["h100-01", "h100-02", "h100-05"], "h100-[01-02,05]"),
        (["gpu02.dc1", "gpu01.dc1"], "gpu[01-02].dc1"),
        (["b", "h1", "a", "h2"], "b,h[1-2],a"),
        (["h9", "h10", "h11"], "h[9-11]"),
        (["h099", "h100"], "h[099-100]"),
        (["h1", "h01"], "h[1,01]"),
    ],
)
def test_folding_finds_the_number_that_counts_up(many: list[str], expected: str) -> None:
    assert fold_names(many) == expected


def test_commas_inside_brackets_do_not_separate_terms() -> None:
    assert split_expression(" a, b-[1-3,7] ,!c,, ") == ("a", "b-[1-3,7]", "!c")
