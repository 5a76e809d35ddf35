"""The decisive line of an installer's output, by the table `data/install_failures.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fleetbench.errors import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an install failed: the line that says so, and what to do about it."""

    line: str
    advice: str


def cause(lines: Sequence[str], unit: str) -> Cause:
    """Given the last lines of an install's journal, return the decisive one, else the last."""
    for pattern, advice in _table():
        for line in lines:
            if pattern.search(line):
                return Cause(line=one_line(line), advice=advice.replace("UNIT", unit))
    said = [line for line in lines if line.strip() and not _BY_SYSTEMD.search(line)]
    return Cause(line=one_line(said[-1]) if said else "", advice=f"on the host: journalctl -u {unit}")


_BY_SYSTEMD = re.compile(r"Main process exited|Failed with result|Consumed .* CPU time|Started |Deactivated")


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    text = (resources.files("fleetbench") / "data" / "install_failures.toml").read_text("utf-8")
    return tuple(
        (re.compile(row["text"], re.IGNORECASE), row["advice"]) for row in tomllib.loads(text)["failure"]
    )
