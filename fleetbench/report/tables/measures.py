"""The second source's measures as columns, under its headings (data/telemetry_figures.toml). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.tables.shown import Columns, device_word, gpus_text, number, standing
from fleetbench.telemetry.figures import measures

# What one of these tables is made of: without them it would be one of dashes.
NEEDED = ("prompt_tps", "gen_tps", "avg_latency_s")
SHOWN = (*NEEDED, "request_generation_level_tps", "request_prompt_level_tps")
# Its numbers are none of the configuration's.
_WITHOUT_NUMBERS = (Status.FAILED, Status.IMPLIED, Status.NOT_RUN)


def has_measures(entries: Sequence[Entry]) -> bool:
    """Whether one of the entries has what it takes."""
    return any(all(key in entry.values for key in NEEDED) for entry in entries)


def names(entries: Sequence[Entry]) -> Columns:
    """Return the columns that say what a row is about; own rows name their GPUs where these differ."""
    gpus: list[Cell] = [gpus_text(entry) or None for entry in entries]
    heading = f"{device_word(entries[0])}s" if entries else ""
    return [("configuration", [one_line(entry.name, 80) for entry in entries]), (heading, gpus)]


def measured(entries: Sequence[Entry]) -> Columns:
    """Return the measures but for the errors; own rows also have what their client counted."""
    titles = {each.column: each.title for each in measures()}
    columns: Columns = [
        (titles[key], [number(entry, entry.values.get(key)) for entry in entries]) for key in SHOWN
    ]
    if not all(entry.imported for entry in entries):
        columns.insert(2, (OUTPUT.heading, [number(entry, entry.value(OUTPUT)) for entry in entries]))
    return columns


def errors(entries: Sequence[Entry]) -> Columns:
    """Return how many requests failed, over all repeats."""
    title = next(each.title for each in measures() if each.column == "errors")
    return [(title, [None if entry.status in _WITHOUT_NUMBERS else entry.failed for entry in entries])]


def verdicts(entries: Sequence[Entry]) -> Columns:
    """Return what became of each, which no source has."""
    return [("verdict", [standing(entry) for entry in entries])]
