"""sweeps.toml: `serve_args` and `variants`, the axes of a sweep that are arguments of `vllm serve`.

Which flags a version has is not asked here but when a sweep is planned: it depends on the build.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fleetbench.inventory.documents import Place
from fleetbench.inventory.keys import serve_argument
from fleetbench.inventory.kinds import INVALID, many
from fleetbench.inventory.names import NAME_RULE, is_name
from fleetbench.model import Choice

MOST_CHOICES = 100
_FLAG = re.compile(r"--[a-z0-9][a-z0-9_-]*(\.[A-Za-z0-9_.-]+)?")
_SHOWN = 24
_FLAGS = 'expected a table of flags such as {"--max-num-seqs" = [256, 512]}'
_VARIANTS = 'expected a table of argument lists such as {plain = [], eager = ["--enforce-eager"]}'


def read_serve_args(value: Any, place: Place) -> Any:
    """Read a table of flags, each with one value or several: one axis for each flag, in the file's order.

    `true` is the flag alone, `false` its absence; numbers and texts are values of the flag.
    """
    if not isinstance(value, dict) or not value:
        place.report(_FLAGS)
        return INVALID
    axes = [_axis(flag, values, place.at(flag)) for flag, values in value.items()]
    return INVALID if INVALID in axes else tuple(axes)


def read_variants(value: Any, place: Place) -> Any:
    """Read a table of whole argument lists, each with a name: together they are one axis."""
    if not isinstance(value, dict) or not 0 < len(value) <= MOST_CHOICES:
        place.report(_VARIANTS)
        return INVALID
    read = []
    for name, arguments in value.items():
        if not is_name(name):
            place.at(name).report(f"expected a name of {NAME_RULE}")
        words = many(serve_argument)(arguments, place.at(name))
        read.append(INVALID if words is INVALID else Choice(serve_args=words, label=name))
    return INVALID if INVALID in read else tuple(read)


def _axis(flag: str, value: Any, place: Place) -> Any:
    values = value if isinstance(value, list) else [value]
    if not 0 < len(values) <= MOST_CHOICES:
        place.expected(f"one value or a list of at most {MOST_CHOICES}", value)
        return INVALID
    if not _FLAG.fullmatch(flag):
        place.report('expected a flag of vllm serve by its long name, in quotes: "--max-num-seqs"')
        return INVALID
    if serve_argument(flag.partition(".")[0], place) is INVALID:
        return INVALID
    words = [
        _word(item, place.at(index) if isinstance(value, list) else place)
        for index, item in enumerate(values)
    ]
    if INVALID in words:
        return INVALID
    if len(set(words)) < len(words):
        place.report("expected each value once: it would be measured twice and counted as two")
        return INVALID
    short = {word: word if len(word) <= _SHOWN else f"{word[: _SHOWN - 1]}…" for word in words if word}
    if len(set(short.values())) < len(short):
        short = {word: word for word in short}
    return tuple(_choice(flag, word, short) for word in words)


def _word(value: Any, place: Place) -> Any:
    """The value as it stands on the command line; None for a flag that is absent, empty for one without."""
    if isinstance(value, bool):
        return "" if value else None
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, str) and value and value.isprintable() and len(value) <= 4096:
        return value
    place.expected("true, false, a number, or text without control characters", value)
    return INVALID


def _choice(flag: str, word: str | None, short: Mapping[str, str]) -> Choice:
    if word is None:
        return Choice()
    name = flag.removeprefix("--")
    if not word:
        return Choice(serve_args=(flag,), label=name)
    # A value that begins with a dash would be taken for a flag.
    written = (f"{flag}={word}",) if word.startswith("-") else (flag, word)
    return Choice(serve_args=written, label=f"{name}={short[word]}")
