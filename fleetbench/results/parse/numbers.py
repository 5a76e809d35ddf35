"""Reading the value of one line: a number, or the reason why it is none. Nothing is ever guessed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.results.values import Number

# vLLM formats with `{:<10.2f}` whatever the locale. What has passed a spreadsheet or a translator may carry
# decimal commas and dots between thousands; `1.000` is then a thousand, and here it could be either.
_PLAIN = re.compile(r"\d{1,18}(?:\.\d{1,12})?")
_EXPONENT = re.compile(r"\d(?:\.\d+)?[eE][+-]?\d{1,3}")
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_COMMA = re.compile(r"[\d.]*\d,\d[\d.,]*")
_PLACEHOLDER = re.compile(r"[xXnN.…?_*-]+|<[^<>]*>|\[[^\[\]]*\]|n/a|tbd|todo|null|none", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_NEGATIVE = re.compile(r"-\d[\d.,]*")
# `100 <<<<< new` is a remark beside the value; `10 k`, `3 min`, `12 (%)`, `1 000` change what it means.
_CHANGES_MEANING = re.compile(r"[\w%(\[/.,:+×±~=^°µ-]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A number, or None with the reason."""

    value: Number | None
    reason: str = ""


def read_number(text: str, *, whole: bool = False) -> Reading:
    """Given the text after a label's colon, return the number in it.

    `whole` asks for a count. Anything that can be read in two ways, or has a word or second number after
    it, is refused; a remark that starts with a punctuation mark is not.
    """
    token, _, rest = text.strip().partition(" ")
    token, rest = token.rstrip("|"), rest.strip()
    if reason := _refusal(token):
        return Reading(None, reason)
    if rest and _CHANGES_MEANING.match(rest):
        return Reading(None, f"{_quoted(text)}: text after the number may change its meaning")
    if token.isdigit():
        return Reading(int(token))
    value = float(token)
    if not math.isfinite(value) or (whole and not value.is_integer()):
        return Reading(None, f"{_quoted(token)} is not a {'whole' if whole else 'finite'} number")
    return Reading(int(value) if whole else value)


def _refusal(token: str) -> str:
    """Return why `token` is no plain number, empty when it is one."""
    if not token:
        return "no value, cut off"
    shown = _quoted(token)
    if _AMBIGUOUS.fullmatch(token):
        return f"{shown} is ambiguous: dots may stand between thousands"
    if _PLAIN.fullmatch(token) or _EXPONENT.fullmatch(token):
        return ""
    reasons = (
        (_NOT_FINITE, f"{shown} is not a finite number"),
        (_COMMA, f"{shown} is ambiguous: decimal comma, or commas between thousands"),
        (_NEGATIVE, f"{shown} is negative: a marker, not a measurement"),
        (_PLACEHOLDER, f"{shown} is a placeholder"),
    )
    for pattern, reason in reasons:
        if pattern.fullmatch(token):
            return reason
    return f"{shown} is not a number"


def _quoted(text: str) -> str:
    return f"'{one_line(text, 60)}'"
