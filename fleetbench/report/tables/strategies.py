"""Tensor against pipeline parallelism on the same GPUs, as section 3 of the second source. Pure.

Speed-up = tensor / pipeline − 1, in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT, PROMPT, Metric
from fleetbench.report.tables.shown import (
    Columns,
    EntryTable,
    OneDigit,
    device_word,
    foremost,
    gpus_text,
    number,
    section,
    several,
    standing,
    titled,
    without_empty,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same GPUs, once as stages of a pipeline, once sharing each layer.

    `alike`: both are one configuration, on one GPU: what they differ by is noise.
    """

    pipeline: Entry
    tensor: Entry

    @property
    def alike(self) -> bool:
        """Whether nothing tells the two apart: on one GPU there is nothing to split."""
        return self.pipeline.config == self.tensor.config

    def speed_up_percent(self, metric: Metric) -> float | None:
        """Return by how much tensor is faster; None where one is unknown or is no number of its own."""
        one, other = self.tensor, self.pipeline
        before, after = other.value(metric), one.value(metric)
        counts = all(entry.valid or entry.imported for entry in (one, other))
        if not counts or before is None or after is None or before <= 0:
            return None
        return (after / before - 1) * 100


def pairs(entries: Sequence[Entry]) -> tuple[tuple[Pair, ...], ...]:
    """Return the pairs of each model, load and context length (imports: of each section, too).

    A table of an import that has pipelines in it is the one of pipelines, also on its single GPUs.
    """
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        if entry.split_known:
            length = entry.config.max_model_len
            key = (entry.source, entry.series, section(entry), entry.model, entry.load, length)
            groups.setdefault(key, []).append(entry)
    return tuple(found for group in groups.values() if (found := tuple(_pairs(group))))


def strategy_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return a table for each group of pairs; none where nothing was split both ways."""
    found = pairs(entries)
    models = several(group[0].tensor.model for group in found)
    loads = several(group[0].tensor.load for group in found)
    return tuple(_table(group, models=models, loads=loads) for group in found)


def _pairs(group: Sequence[Entry]) -> Iterator[Pair]:
    tables = {entry.table for entry in group if entry.config.pp > 1}
    if all(tables) and several(entry.table for entry in group):  # an arm is a table of its own
        pipelines = [entry for entry in group if entry.table in tables]
        tensors = [entry for entry in group if entry.table not in tables]
    else:
        pipelines = [entry for entry in group if entry.config.pp > 1]
        tensors = [entry for entry in group if entry.config.pp == 1 and entry.config.tp > 1]
    if not any(entry.config.pp > 1 for entry in pipelines):
        return
    of_gpus = _by_gpus(entry for entry in tensors if entry.config.pp == 1)
    for gpus, found in _by_gpus(entry for entry in pipelines if entry.config.tp == 1).items():
        if gpus in of_gpus:  # starts are one pair, rows of a source a pair each
            tensor = foremost(of_gpus[gpus])
            shown = found if tensor.imported else [foremost(found)]
            yield from (Pair(pipeline=pipeline, tensor=tensor) for pipeline in shown)


def _by_gpus(entries: Iterable[Entry]) -> dict[object, list[Entry]]:
    found: dict[object, list[Entry]] = {}
    for entry in entries:
        found.setdefault(_gpus(entry), []).append(entry)
    return found


def _gpus(entry: Entry) -> object:
    """Return what has to be equal: the GPUs, and all of the configuration but tp and pp."""
    config = entry.config
    return entry.gpu, entry.gpus, config.tp * config.pp, replace(config, tp=1, pp=1)


def _table(group: Sequence[Pair], *, models: bool, loads: bool) -> EntryTable:
    first = group[0].tensor
    columns: Columns = [(f"{device_word(first)}s", [gpus_text(pair.tensor) or None for pair in group])]
    if first.imported:
        columns.insert(0, ("configuration", [one_line(pair.tensor.name, 80) for pair in group]))
    for metric, short in ((PROMPT, "Prompt"), (OUTPUT, "Gen")):
        columns += [
            (f"Pipeline ({short} TPS)", [_value(pair.pipeline, metric) for pair in group]),
            (f"Tensor ({short} TPS)", [_value(pair.tensor, metric) for pair in group]),
        ]
    for metric, short in ((PROMPT, "Prompt"), (OUTPUT, "Gen")):
        ups = [pair.speed_up_percent(metric) for pair in group]
        columns.append((f"{short} Speedup (%)", [None if up is None else OneDigit(up) for up in ups]))
    if not first.imported:
        columns.append(("tensor against pipeline", [_said(pair) for pair in group]))
    columns.append(("verdicts", [_verdicts(pair) for pair in group]))
    length = f"{first.config.max_model_len:,} tokens of context" if first.config.max_model_len else ""
    return EntryTable(
        kind="strategies",
        source_table=section(first) if first.table != section(first) else "",
        title=titled(
            "Tensor against pipeline parallel",
            first.model if models else "",
            length,
            first.load if loads else "",
            first.series,
        ),
        table=without_empty(columns, len(group)),
        entries=tuple(entry for pair in group for entry in (pair.pipeline, pair.tensor)),
        notes=("Speed-up is tensor against pipeline, tensor / pipeline − 1.",),
    )


def _value(entry: Entry, metric: Metric) -> Cell:
    return number(entry, entry.value(metric)) if entry.valid or entry.imported else None


def _said(pair: Pair) -> Cell:
    if not (pair.pipeline.valid and pair.tensor.valid):
        return None
    found = pair.tensor.against(pair.pipeline, OUTPUT)
    return None if found is None else found.sentence()


def _verdicts(pair: Pair) -> str:
    one, other = standing(pair.pipeline), standing(pair.tensor)
    return f"both {one}" if one == other else f"pipeline {one}; tensor {other}"
