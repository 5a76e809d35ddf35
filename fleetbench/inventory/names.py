"""Which names are safe, and which known name somebody may have meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Names of hosts, groups, models, sweeps and builds become arguments, file names and parts of unit names.
# They begin with a letter or digit (never "-", "." or "/") and hold nothing that a shell or systemd reads.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64"


def is_name(text: str) -> bool:
    """True when `text` can name a host, group, model, sweep or build."""
    return NAME.fullmatch(text) is not None


def near_names(wrong: str, known: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return the known names that look like `wrong`, most similar first; case does not matter."""
    by_lower: dict[str, str] = {}
    for name in known:
        by_lower.setdefault(name.lower(), name)
    # difflib's time grows with the product of the lengths: a hostile "name" of a megabyte is cut.
    close = difflib.get_close_matches(wrong[:100].lower(), by_lower, n=limit, cutoff=0.6)
    return tuple(by_lower[name] for name in close)


def suggestion(wrong: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return `did you mean a or b?`, else the list of the few known names, else nothing.

    `prefix` is put before each name (`@` for groups).
    """
    names = tuple(known)
    near = near_names(wrong, names)
    if near:
        return f"did you mean {' or '.join(prefix + name for name in near)}?"
    if 0 < len(names) <= 30:
        return f"known: {', '.join(prefix + name for name in names)}"
    return ""
