"""The table of signatures is checked when it is read."""

from __future__ import annotations

import re

import pytest

from fleetbench.errors import FleetbenchError
from fleetbench.failure_table import failure_table, parse_table

GENERAL = "[general]\nwrappers = []\nstops = []\nharmless = []\nignored = []\nstarts = []\n"
GOOD = """
[[failure]]
kind = "a"
group = "g"
priority = 1
match = ["some text"]
cause = "c"
advice = "d"
"""


def test_the_table_that_comes_with_fleetbench_is_right() -> None:
    assert len(failure_table().signatures) > 100


def test_advice_and_causes_fit_one_line_and_speak() -> None:
    for signature in failure_table().signatures:
        assert 10 < len(signature.cause) < 200, signature.kind
        assert 10 < len(signature.advice) < 300, signature.kind
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", signature.kind)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('match = ["some text"]', "match = [{ text = \"some text\", regex = '(a+)+b' }]", "unbounded"),
        ('match = ["some text"]', "match = [{ text = \"some text\", regex = 'a.*b' }]", "unbounded"),
        (
            'match = ["some text"]',
            "match = [{ text = \"some text\", regex = '(?:a{1,9}){1,9}' }]",
            "inside a repeat",
        ),
        ('match = ["some text"]', "match = [{ text = \"some text\", regex = '(' }]", "missing"),
        ('match = ["some text"]', 'match = [{ text = "some text", rex = "x" }]', "rex"),
        ('match = ["some text"]', 'match = ["it"]', "too short"),
        ('match = ["some text"]', "match = []", "must not be empty"),
        ('advice = "d"', 'advice = ""', "must not be empty"),
        ('advice = "d"', 'advice = "d"\ndetail = "{who}"', "who"),
        ('advice = "d"', 'advice = "d"\nrole = "boss"', "boss"),
        ('advice = "d"', 'advice = "d"\ncolour = "red"', "colour"),
        ('cause = "c"', "", "cause"),
    ],
)
def test_a_wrong_entry_is_named(old: str, new: str, said: str) -> None:
    parse_table(GENERAL + GOOD)
    with pytest.raises(FleetbenchError) as caught:
        parse_table(GENERAL + GOOD.replace(old, new))
    assert said in caught.value.cause


def test_a_class_that_is_defined_twice_is_refused() -> None:
    with pytest.raises(FleetbenchError, match="wrong") as caught:
        parse_table(GENERAL + GOOD + GOOD)
    assert "twice: a" in caught.value.cause


def test_no_expression_can_take_more_than_bounded_time() -> None:
    for signature in failure_table().signatures:
        for pattern in signature.patterns:
            for expression in (pattern.regex, *pattern.fields):
                if expression is not None:
                    bare = re.sub(r"\[(?:\\.|[^\]\\])+\]|\\.", "c", expression.pattern)
                    assert "*" not in bare, expression.pattern
                    assert "+" not in bare, expression.pattern
                    assert not re.search(r"\{\d*,\}", bare), expression.pattern
                    assert not re.search(r"[}?]\)\{", bare), expression.pattern


def test_an_unknown_class_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        failure_table().signature("no-such-class")
