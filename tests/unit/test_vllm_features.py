"""Versions compare as pip compares them, and the table says what each version accepts."""

from __future__ import annotations

import itertools
import re

import pytest
from shared_material import help_texts, read, shared, version_of

from fleetbench.errors import UsageError
from fleetbench.vllm_features import Feature, feature_table, parse_version

# In ascending order; each is a version that pip or `vllm --version` has printed somewhere.
_ASCENDING = [
    "0.6.6",
    "0.6.6.post1",
    "0.8.5.post1",
    "0.9.2",
    "0.10.0",
    "0.10.1",
    "0.10.1.1",
    "0.10.2rc2.dev5+g1a2b3c",
    "0.10.2rc2",
    "0.10.2",
    "0.11.0",
    "0.23.1.dev7+gabc",
    "0.23.1a1",
    "0.23.1b2",
    "0.23.1rc1.dev5",
    "0.23.1rc1",
    "0.23.1",
    "0.23.1.post1.dev3",
    "0.23.1.post1",
    "1.0",
]


def test_versions_stand_in_the_order_of_pep_440() -> None:
    parsed = [parse_version(text) for text in _ASCENDING]
    assert all(a < b and not b < a for a, b in itertools.pairwise(parsed))
    assert sorted(parsed[1::2] + parsed[::2]) == parsed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.11", "0.11.0"),
        ("v0.32.0", "0.32.0"),
        ("0.32.0+cpu", "0.32.0"),
        ("0.33.0+cu129", "0.33.0+cpu"),
        ("0.23.1-rc.1", "0.23.1rc1"),
        (" 0.9.2\n", "0.9.2"),
    ],
)
def test_spellings_and_local_parts_do_not_count(one: str, other: str) -> None:
    assert parse_version(one) == parse_version(other)
    assert hash(parse_version(one)) == hash(parse_version(other))


def test_the_local_part_is_kept_for_those_who_ask() -> None:
    assert parse_version("0.33.0+cu129").local == "cu129"
    assert str(parse_version("0.33.0+cu129")) == "0.33.0+cu129"


@pytest.mark.parametrize(
    "text", ["", "latest", "0.10.x", "0.10.1.1 ; rm -rf /", "1" * 50, "0..1", "0.1\n0.2"]
)
def test_what_is_no_version_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_version(text)
    assert "\n" not in refusal.value.what


def test_a_feature_begins_and_ends_where_the_table_says() -> None:
    routing = feature_table().flags["bench_serve"]["--endpoint-type"]
    known = {
        v: routing.in_version(parse_version(v)) for v in ("0.8.4", "0.8.5", "0.10.1.1", "0.11.0", "0.11.1")
    }
    assert known == {"0.8.4": False, "0.8.5": True, "0.10.1.1": True, "0.11.0": True, "0.11.1": False}
    assert routing.span == "vLLM >= 0.8.5 and < 0.11.1"
    assert Feature(name="--x").span == "every vLLM"


def test_behaviour_is_that_of_the_newest_row_that_is_not_newer() -> None:
    table = feature_table()
    ratio = [
        table.behaviour("bench_exact_length_ratio", parse_version(v))
        for v in ("0.8.5.post1", "0.9.2", "0.33.0")
    ]
    assert ratio == ["1.0", "0.0", "0.0"]
    assert table.behaviour("bench_failed_count", parse_version("0.11.0")) == "no"
    assert table.behaviour("bench_failed_count", parse_version("0.11.1")) == "yes"
    assert table.behaviour("bench_rust_client", parse_version("0.1")) == "no"


@pytest.mark.parametrize("name", help_texts(), ids=version_of)
def test_the_table_agrees_with_the_help_of_each_captured_version(name: str) -> None:
    version = parse_version(version_of(name))
    offered = set(re.findall(r"^  (--[a-z][\w-]*)", read(shared(name)), re.MULTILINE))
    offered |= set(re.findall(r"^  -\w, (--[a-z][\w-]*)", read(shared(name)), re.MULTILINE))
    wrong = {
        flag.name
        for flag in feature_table().flags["bench_serve"].values()
        if flag.in_version(version) is not (flag.name in offered)
    }
    assert not wrong
