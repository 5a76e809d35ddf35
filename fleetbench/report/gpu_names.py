"""What GPUs are called where each word costs room. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile


def short_gpus(names: Iterable[str]) -> dict[str, str]:
    """Return the words of each name that tell it from the others (`H100`, `H200`); one alone stays whole."""
    words = {name: name.split() for name in dict.fromkeys(names) if name}
    columns = zip(*words.values(), strict=False)
    common = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    for most in range(1, 1 + max(map(len, words.values()), default=0)):
        short = {name: " ".join(parts[common : common + most]) for name, parts in words.items()}
        if len(words) > 1 and all(short.values()) and len(set(short.values())) == len(short):
            return {"": "", **short}
    return {"": "", **{name: name for name in words}}
