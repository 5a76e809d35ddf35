"""The table of report labels, read once: what a line's label means, whichever client printed it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

# `Mean TTFT (ms)`, `P99.9 ITL (ms)`, `P95 Latency(s)`: statistic, name, unit.
_STATISTIC = r"Mean|Median|Std|Min|Max|P\d{1,3}(?:\.\d{1,3})?"
_POSITION = re.compile(r"position (\d{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One row of the table; see `data/report_labels.toml` for the meaning of the fields."""

    text: str
    key: str
    kind: str
    since: str = ""
    until: str = ""
    dialect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTable:
    """All labels, and the patterns made of them.

    Attributes:
        labels: by their text, and by it in lower case: some changed their case between versions.
        latencies: dialect and key by the latency's name in lower case.
        inline: finds any known label inside a line that holds several; exact case, because a value's
            words may look like the end of a label. The colon may be missing where the text was cut.
    """

    labels: Mapping[str, Label]
    latencies: Mapping[str, Label]
    plain_sections: frozenset[str]
    needed: tuple[str, ...]
    generation_only: frozenset[str]
    unset_words: frozenset[str]
    json_alias: Mapping[str, str]
    latency: re.Pattern[str]
    inline: re.Pattern[str]

    def find(self, text: str) -> Label | None:
        """Given a label as printed (without colon), return its row, made up for latencies; None: unknown."""
        shown = " ".join(text.split())
        plain = shown.lower()
        if known := self.labels.get(shown) or self.labels.get(plain):
            return known
        if match := _POSITION.fullmatch(plain):
            return Label(text=text, key=f"spec_decode_position_{match[1]}_acceptance_pct", kind="number")
        if match := self.latency.fullmatch(plain):
            statistic, name, unit = match.groups()
            latency = self.latencies[name]
            return Label(
                text=text, key=f"{statistic}_{latency.key}_{unit}", kind="number", dialect=latency.dialect
            )
        return None


@cache
def label_table() -> LabelTable:
    """Return the table, read from the package's data on first use."""
    source = resources.files("fleetbench").joinpath("data/report_labels.toml")
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    rows = tuple(Label(**row) for row in data["label"])
    latencies = {row["text"].lower(): Label(kind="number", **row) for row in data["latency"]}
    names = "|".join(re.escape(name) for name in sorted(latencies, key=len, reverse=True))
    shown = "|".join(re.escape(row["text"]) for row in sorted(data["latency"], key=lambda r: -len(r["text"])))
    texts = "|".join(re.escape(row.text) for row in sorted(rows, key=lambda row: -len(row.text)))
    return LabelTable(
        labels={row.text.lower(): row for row in rows} | {row.text: row for row in rows},
        latencies=latencies,
        plain_sections=frozenset(section.lower() for section in data["plain_sections"]),
        needed=tuple(data["needed"]),
        generation_only=frozenset(data["generation_only"]),
        unset_words=frozenset(data["unset_words"]),
        json_alias=data["json_alias"],
        latency=re.compile(rf"({_STATISTIC.lower()}) ({names}) ?\((ms|s)\)"),
        inline=re.compile(
            rf"(?<![A-Za-z])(?:(?:{texts}|Position \d{{1,3}}) ?:"
            rf"|(?:{_STATISTIC}) (?:{shown}) ?\((?:ms|s)\)(?: ?:)?)"
        ),
    )
