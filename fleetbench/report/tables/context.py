"""What each configuration came to at each context length, as section 4 of the second source. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell, Table
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.tables.measures import errors, has_measures, measured, names, verdicts
from fleetbench.report.tables.shown import (
    EntryTable,
    configuration,
    device_word,
    foremost,
    gpus_text,
    plain_number,
    rules_against,
    several,
    titled,
    without_empty,
)
from fleetbench.report.terminal import INVALID, SUSPECT

_UNUSED = (
    "Where requests did not use the context (context-unused), "
    "columns differ by something else than its length."
)
_WORDS = {"suspect": SUSPECT, "invalid": INVALID}


def context_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return a table for each context length, model and load (imports: each table of a source).

    It takes entries that name their length, one of which has the measures.
    """
    found = [group for group in _of_length(entries) if has_measures(group)]
    found = [group for group in found if len(group) > 1 or not _rung(group[0], found)]
    models = several(group[0].model for group in found)
    loads = several(group[0].load for group in found)
    return tuple(_table(group, models=models, loads=loads) for group in found)


def _rung(entry: Entry, groups: Sequence[Sequence[Entry]]) -> bool:
    """Whether an own entry stands alone at its load and again at others: the table of the loads has it."""

    def kind(one: Entry) -> tuple[object, ...]:
        return (one.imported, one.source, one.model, one.config.max_model_len)

    return not entry.imported and several(g[0].load for g in groups if kind(g[0]) == kind(entry))


def length_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return a table for each model and load that has the lengths side by side; it takes two lengths."""
    groups: dict[object, list[Entry]] = {}
    for group in _of_length(entries):
        if not group[0].imported or has_measures(group):
            key = (group[0].source, group[0].model, group[0].load)
            groups.setdefault(key, []).extend(group)
    found = [group for group in groups.values() if several(entry.config.max_model_len for entry in group)]
    models = several(group[0].model for group in found)
    loads = several(group[0].load for group in found)
    return tuple(_lengths(group, models=models, loads=loads) for group in found)


def _of_length(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each length together; tables in which the load varies are about the load."""
    loads: dict[str, set[str]] = {}
    for entry in entries:
        loads.setdefault(entry.table, set()).add(entry.load)
    varied = {table for table, found in loads.items() if table and len(found) > 1}
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        length = entry.config.max_model_len
        if length and entry.table not in varied:
            groups.setdefault((entry.source, entry.table, entry.model, entry.load, length), []).append(entry)
    return list(groups.values())


def _table(group: Sequence[Entry], *, models: bool, loads: bool) -> EntryTable:
    first = group[0]
    columns = [*names(group), *measured(group), *errors(group), *verdicts(group)]
    return EntryTable(
        kind="context",
        source_table=first.table,
        title=titled(
            f"{first.config.max_model_len:,} tokens of context",
            first.model if models else "",
            first.load if loads else "",
        ),
        table=without_empty(columns, len(group)),
        entries=tuple(group),
    )


def _lengths(group: Sequence[Entry], *, models: bool, loads: bool) -> EntryTable:
    lengths = sorted({entry.config.max_model_len or 0 for entry in group})
    rows: dict[object, list[Entry]] = {}
    for entry in group:
        rows.setdefault((configuration(_without_length(entry)), gpus_text(entry)), []).append(entry)
    return EntryTable(
        kind="lengths",
        title=titled(
            "What the context length costs", group[0].model if models else "", group[0].load if loads else ""
        ),
        table=Table(
            ("configuration", f"{device_word(group[0])}s", *(f"{length:,}" for length in lengths)),
            tuple(
                (_row_name(row), gpus_text(row[0]) or None, *(_cell(row, length) for length in lengths))
                for row in rows.values()
            ),
        ),
        entries=tuple(group),
        notes=(
            f"{OUTPUT.title[:1].upper()}{OUTPUT.title[1:]} in {OUTPUT.unit} by tokens of context; "
            "? is suspect, ✗ invalid, and · a configuration without a row at that length.",
            *((_UNUSED,) if any("context-unused" in rules_against(entry) for entry in group) else ()),
        ),
    )


def _without_length(entry: Entry) -> Entry:
    name = entry.name.replace(f" len={entry.config.max_model_len}", "")
    return replace(entry, name=name, config=replace(entry.config, max_model_len=None))


def _row_name(row: Sequence[Entry]) -> str:
    """Return what a row is called; of names that differ only in the number of a trial none."""
    found = [_without_length(entry) for entry in row]
    first = found[0]
    named = several(entry.name for entry in found)
    return one_line(f"{first.series} {first.config.label}".strip() if named else first.name, 80)


def _cell(row: Sequence[Entry], length: int) -> Cell:
    found = [entry for entry in row if entry.config.max_model_len == length]
    if not found:
        return "·"
    entry = foremost(found)
    value = plain_number(entry, entry.value(OUTPUT))
    if entry.valid or value is None:
        return value if entry.valid else entry.status.value
    return f"{value:,} {_WORDS.get(entry.status.value, entry.status.value)}"
