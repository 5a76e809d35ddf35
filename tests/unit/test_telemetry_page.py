"""docs/telemetry.md says the same as the tables that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

from fleetbench.telemetry.figures import figures, measures
from fleetbench.telemetry.names import table

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"


def rows(name: str) -> list[list[str]]:
    section = PAGE.read_text("utf-8").partition(f"<!-- table: {name} -->\n")[2].partition("<!-- end -->")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()[2:]]


def test_every_figure_is_explained_in_the_words_of_the_table() -> None:
    assert rows("figures") == [[f"`{name}`", what] for name, what in figures().items()]


def test_the_second_sources_names_are_those_of_the_table() -> None:
    assert [row[:2] for row in rows("measures")] == [[each.title, f"`{each.column}`"] for each in measures()]
    assert [re.findall(r"`(\w+)`", row[2])[0] for row in rows("measures")] == [
        each.source for each in measures()
    ]


def test_every_series_is_listed_with_the_names_of_all_versions() -> None:
    shown = {row[0].strip("`"): re.findall(r"`(\w+)`", row[2].partition(" by ")[0]) for row in rows("series")}
    assert shown == {series.key: list(series.names) for series in table()}
