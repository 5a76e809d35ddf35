"""What each further GPU gave: speed-up and efficiency against the fewest GPUs. Pure.

Speed-up = throughput / that of the base; efficiency = speed-up / (GPUs / GPUs of the base).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT, Metric
from fleetbench.report.tables.shown import (
    Columns,
    EntryTable,
    OneDigit,
    Times,
    device_word,
    gpus_text,
    is_a_rate,
    number,
    rules_against,
    several,
    standing,
    titled,
    without_empty,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """An entry against the base of its ladder.

    Attributes:
        speed_up: how many times the base's throughput. efficiency_percent: of that of as many GPUs.
    """

    entry: Entry
    base: Entry
    speed_up: float
    efficiency_percent: float

    @property
    def is_base(self) -> bool:
        """Whether it is what the others are compared with."""
        return self.entry is self.base


def ladders(entries: Sequence[Entry], metric: Metric = OUTPUT) -> tuple[tuple[Scaled, ...], ...]:
    """Return what was measured on different numbers of GPUs of a kind, the base first, then by GPUs.

    Own entries have to be valid, imported ones a rate. The base is the fastest of those on the fewest GPUs.
    """
    groups: dict[object, list[tuple[int, float, Entry]]] = {}
    for entry in entries:
        value = entry.value(metric)
        if value is not None and value > 0 and entry.gpus and is_a_rate(entry):
            groups.setdefault(_alike(entry), []).append((entry.gpus, value, entry))
    found = []
    for group in groups.values():
        if several(gpus for gpus, *_ in group):
            fewest, at_base, base = min(group, key=lambda each: (each[0], -each[1]))
            found.append(
                tuple(
                    Scaled(
                        entry=entry,
                        base=base,
                        speed_up=value / at_base,
                        efficiency_percent=value / at_base / (gpus / fewest) * 100,
                    )
                    for gpus, value, entry in sorted(group, key=lambda each: (each[2] is not base, each[0]))
                )
            )
    return tuple(found)


def scaling_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return a table for each model and load, with all kinds of GPU and all lengths in it."""
    groups: dict[object, list[tuple[Scaled, ...]]] = {}
    for ladder in ladders(entries):
        base = ladder[0].base
        groups.setdefault((base.source, base.model, base.load), []).append(ladder)
    heads = [group[0][0].base for group in groups.values()]
    models, loads = several(head.model for head in heads), several(head.load for head in heads)
    return tuple(_table(group, entries, models=models, loads=loads) for group in groups.values())


def _alike(entry: Entry) -> object:
    config = entry.config
    return (
        *(entry.source, entry.series, entry.table, entry.model, entry.gpu, entry.load),
        *(config.ep, config.max_model_len, config.serve_args, config.build),
    )


def _table(
    group: Sequence[Sequence[Scaled]], among: Sequence[Entry], *, models: bool, loads: bool
) -> EntryTable:
    steps = [step for ladder in group for step in ladder]
    head = steps[0].base
    entries = [step.entry for step in steps]
    lengths = several(entry.config.max_model_len for entry in entries)
    tables = several(entry.table for entry in entries)
    columns: Columns = [
        ("configuration", [one_line(entry.name, 80) for entry in entries]),
        (f"{device_word(head)}s", [gpus_text(entry) for entry in entries]),
        ("table", [one_line(entry.table, 60) if tables else None for entry in entries]),
        ("tokens of context", [entry.config.max_model_len if lengths else None for entry in entries]),
        (OUTPUT.heading, [number(entry, entry.value(OUTPUT)) for entry in entries]),
        ("speed-up", [Times(step.speed_up) for step in steps]),
        (f"per {device_word(head)} %", [OneDigit(step.efficiency_percent) for step in steps]),
        ("verdict", [standing(entry) for entry in entries]),
    ]
    return EntryTable(
        kind="scaling",
        source_table="" if tables else head.table,
        title=titled(
            f"What more {device_word(head)}s gave", head.model if models else "", head.load if loads else ""
        ),
        table=without_empty(columns, len(steps)),
        entries=tuple(entries),
        notes=(*_notes(head, entries), *_bases([ladder[0].base for ladder in group], among)),
    )


def _notes(head: Entry, entries: Sequence[Entry]) -> Iterator[str]:
    word = device_word(head)
    yield (
        f"Speed-up is against the first row of the same kind of {word}; per {word} % is the speed-up over "
        f"the number of {word}s, 100 where each one gives as much as the first."
    )
    if head.imported:
        yield "Rows with failed requests or a stall are left out: their throughput is no rate."
    if any("column-misread" in rules_against(entry) for entry in entries):
        yield "The column can only be total tokens; ratios within it are the same."


def _bases(bases: Sequence[Entry], among: Sequence[Entry]) -> Iterator[str]:
    """Say where fewer GPUs than the base's were tried, and gave nothing to compare with."""
    alike: dict[object, list[Entry]] = {}
    for entry in among:
        alike.setdefault(_alike(entry), []).append(entry)
    for base in bases:
        found = [entry for entry in alike[_alike(base)] if 0 < (entry.gpus or 0) < (base.gpus or 0)]
        if found:
            names = ", ".join(
                dict.fromkeys(f"{one_line(each.name, 60)} {each.status.value}" for each in found)
            )
            yield (
                f"100 is what each of the {base.gpus} {device_word(base)}s of {one_line(base.name, 60)} "
                f"gives: fewer gave nothing that counts ({names})."
            )
