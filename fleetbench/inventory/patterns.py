"""Names of many hosts written short: `h100-[01-08,12]` to names and back. Pure text, no inventory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

from fleetbench.errors import one_line

MOST_NAMES = 10_000  # a typing error such as [1-99999999] must not fill the memory

_ITEM = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_DIGITS = re.compile(r"([0-9]+)")


def split_expression(text: str) -> tuple[str, ...]:
    """Given `a, b-[1-3,7], !c`, return its comma-separated terms; commas inside brackets do not separate."""
    terms, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            terms.append(text[start:position])
            start = position + 1
    terms.append(text[start:])
    return tuple(term.strip() for term in terms if term.strip())


def expand_names(pattern: str) -> tuple[str, ...]:
    """Given `h100-[01-03,07]`, return the names it stands for; text without brackets is its own name.

    Several brackets multiply. Zeros in front are kept: `[08-10]` gives 08, 09, 10. ValueError, saying what
    is wrong, for an unclosed bracket, a range that runs backwards or more than `MOST_NAMES` names.
    """
    parts = re.split(r"\[([^\[\]]*)\]", pattern)
    texts, brackets = parts[0::2], parts[1::2]
    if any("[" in text or "]" in text for text in texts):
        raise ValueError(f"a bracket in {one_line(pattern, 60)} has no partner")
    choices = [_numbers(bracket) for bracket in brackets]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_NAMES:
        raise ValueError(f"{one_line(pattern, 60)} stands for {total} names, more than {MOST_NAMES}")
    return tuple(
        texts[0] + "".join(number + text for number, text in zip(numbers, texts[1:], strict=True))
        for numbers in product(*choices)
    )


def fold_names(names: Iterable[str]) -> str:
    """Given names, return them short: `a, h100-01 … h100-08` as `a,h100-[01-08]`; each name once.

    Names differ in one number only to be folded together; of several numbers the one that folds most is
    taken. `expand_names` of each term gives the same names back.
    """
    families: dict[tuple[str, ...], list[list[str]]] = {}
    for name in dict.fromkeys(names):
        parts = _DIGITS.split(name)  # text, number, text, number, … text
        families.setdefault(tuple(parts[0::2]), []).append(parts)
    return ",".join(term for family in families.values() for term in _fold_family(family))


def _fold_family(family: Sequence[list[str]]) -> Sequence[str]:
    """Fold names that differ in their numbers only, over the number that leaves the fewest terms."""
    places = range(len(family[0]) - 2, 0, -2)
    foldings = [_fold_at(family, place) for place in places]
    return min(foldings, key=len) if foldings else ["".join(family[0])]


def _fold_at(family: Sequence[list[str]], place: int) -> Sequence[str]:
    """Fold names over the number at `place` of their parts; the terms keep the order of appearance."""
    folded: dict[tuple[str, str], list[str]] = {}
    for parts in family:
        around = ("".join(parts[:place]), "".join(parts[place + 1 :]))
        folded.setdefault(around, []).append(parts[place])
    return [
        before + (numbers[0] if len(numbers) == 1 else f"[{','.join(_runs(numbers))}]") + after
        for (before, after), numbers in folded.items()
    ]


def _runs(numbers: Sequence[str]) -> list[str]:
    """Given number texts, return `3`, `01-08` … in ascending order."""
    runs: list[list[str]] = []
    for text in sorted(numbers, key=lambda number: (int(number), len(number))):
        if runs and text == str(int(runs[-1][-1]) + 1).zfill(_width(runs[-1][0])):
            runs[-1].append(text)
        else:
            runs.append([text])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _numbers(bracket: str) -> list[str]:
    """Given `01-03,07`, return 01, 02, 03, 07; ValueError when it cannot be read."""
    numbers: list[str] = []
    quoted = f"[{one_line(bracket, 60)}]"
    for item in bracket.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{quoted} is not a list of numbers and ranges such as [01-08,12]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"{quoted} runs backwards")
        if int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"{quoted} stands for more than {MOST_NAMES} names")
        width = _width(first)
        if last != str(int(last)).zfill(width):
            raise ValueError(f"{quoted} has ends with different zeros in front; write [01-08]")
        numbers += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    return numbers


def _width(number: str) -> int:
    """Digits that a range keeps, given its first number: only zeros in front ask for a width."""
    return len(number) if number.startswith("0") else 0
