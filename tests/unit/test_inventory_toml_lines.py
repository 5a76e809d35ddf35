"""The scanner knows the line of everything that tomllib finds."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbench.inventory.toml_lines import Path, key_lines


def paths(value: Any, path: Path = ()) -> set[Path]:
    """Return the key path of everything inside a parsed TOML value."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return {path} - {()} | {found for key, item in inner for found in paths(item, (*path, key))}


bare = st.sampled_from(["a", "b-1", "c_2", "3"])
quoted = st.sampled_from(['"h[01-08]"', "'x.y'", '"q\\"]u\\u00e4"', '" # no comment"'])
keys = st.one_of(bare, quoted)
scalars = st.sampled_from(
    [
        "1",
        "-0.5",
        "inf",
        "true",
        "1979-05-27 07:32:00",
        '"text # ] }"',
        "'raw \\ [x]'",
        '"""\nmany\n[not.a.table]\nlines = "1"\\\n  on"""',
        "'''one\n# two'''",
        '"""ends in quotes"""""',
        '"\\\\"',
    ]
)


def values(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return scalars
    inner = values(depth - 1)
    between = st.sampled_from([", ", ",\n  ", " , # a ] comment, [x]\n"])
    arrays = st.tuples(st.lists(inner, max_size=3), between).map(lambda t: "[" + t[1].join(t[0]) + "\n]")
    tables = st.dictionaries(bare, inner, max_size=3).map(
        lambda table: "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"
    )
    return st.one_of(scalars, arrays, tables)


pairs = st.tuples(st.lists(keys, min_size=1, max_size=2), values(2)).map(
    lambda t: f"{' . '.join(t[0])} = {t[1]}"
)
headers = st.tuples(st.lists(keys, min_size=1, max_size=3), st.booleans()).map(
    lambda t: f"[[ {'.'.join(t[0])} ]]" if t[1] else f"[{' . '.join(t[0])}]"
)
lines = st.one_of(pairs, headers, st.sampled_from(["", "# [comment]", "  # x = 1"]))


@settings(max_examples=400)
@given(st.lists(lines, max_size=12))
def test_every_key_that_tomllib_finds_has_a_line(parts: list[str]) -> None:
    text = ""
    for part in parts:  # keep what is valid: random parts collide
        try:
            tomllib.loads(text + part + "\n")
        except tomllib.TOMLDecodeError:
            continue
        text += part + "\n"
    found = key_lines(text)
    assert set(found) == paths(tomllib.loads(text))
    assert all(1 <= line <= text.count("\n") for line in found.values())


@settings(max_examples=300)
@given(st.text(alphabet="[]{}=,.#'\"\\\n ab1", max_size=40))
def test_a_text_that_is_not_toml_still_ends_the_scan(text: str) -> None:
    with suppress(tomllib.TOMLDecodeError):  # a quoted key with a wrong escape never gets past tomllib
        key_lines(text)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("hosts",), 2),
        (("hosts", "h100-[01-08]"), 2),
        (("hosts", "h100-[01-08]", "env", "A"), 3),
        (("hosts", "h100-[01-08]", "note"), 4),
        (("hosts", "h100-[01-08]", "ports"), 6),
        (("hosts", "h100-[01-08]", "ports", 1), 8),
        (("w", 0), 10),
        (("w", 1), 12),
        (("w", 1, "x"), 13),
        (("w", 1, "deep", "y"), 15),
    ],
)
def test_lines_are_exact(path: Path, line: int) -> None:
    text = '''# first
[hosts."h100-[01-08]"]
env.A = "1"
note = """
[w]"""
ports = [
  8001,
  8002, # last
]
[[w]]
x = 1
[[w]]
x = 2
[w.deep]
y = 3
'''
    assert key_lines(text)[path] == line
