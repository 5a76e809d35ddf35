"""Single fields of foreign text: what cannot be read is None or empty, never an exception and never 0."""

from __future__ import annotations

import math
import re

from fleetbench.errors import one_line, without_secrets

FIELD_LIMIT = 200
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")


def clean(text: str, limit: int = FIELD_LIMIT) -> str:
    """Given any text, return it as one printable line: no escapes, no control characters, bounded."""
    return one_line(_ESCAPE.sub("", text[: 8 * limit]), limit)


def shown(text: str) -> str:
    """Given a foreign text of several lines, return it as it may be shown and kept.

    Lines and tabs stay, other control characters become `?`, what looks like a password or token `***`.
    """
    return without_secrets("".join(c if c.isprintable() or c in "\n\t" else "?" for c in text))


def known(text: str) -> str:
    """Given a field of a GPU tool, return it cleaned; its ways of saying "unknown" become empty."""
    value = clean(text)
    return "" if value.strip("[]").lower() in {"n/a", "not supported", "unknown error", "unknown"} else value


def whole(text: str) -> int | None:
    """Given a field, return it as a whole number that is not negative, else None."""
    digits = text.strip()
    return int(digits) if re.fullmatch(r"[0-9]{1,18}", digits) else None


def decimal(text: str) -> float | None:
    """Given a field that starts with a number (a unit may follow), return the number, else None."""
    match = re.match(r"\s*(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)(?![0-9])", text)
    if match is None:
        return None
    value = float(match[1])
    return value if math.isfinite(value) else None


def rows(text: str, columns: int) -> list[tuple[str, ...]]:
    """Given lines of tab-separated fields, return those with at least one tab, padded to `columns`.

    A field beyond the last column stays part of the last one.
    """
    found = []
    for line in text.split("\n"):
        fields = line.split("\t", columns - 1)
        if len(fields) > 1:
            found.append((*fields, *[""] * (columns - len(fields))))
    return found
