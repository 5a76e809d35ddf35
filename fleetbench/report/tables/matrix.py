"""Every split of one model on one server: tp down, dp across, units and pp beside. Pure.

Each split that was planned has a cell, whatever became of it. A number stands alone only where it is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetbench.errors import one_line
from fleetbench.model import Config
from fleetbench.report.columns import Cell, Table
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT, Metric
from fleetbench.report.tables.shown import EntryTable, number, plain_number, rules_against, several, titled

NOT_PLANNED = "·"
_FEWEST = 3
_SHORT = 32  # letters of a cause that a cell holds; a longer one gets a number, and is told below
Arm = tuple[int, int, int]  # dp, units, pp


def matrix_tables(entries: Sequence[Entry], metric: Metric = OUTPUT) -> tuple[EntryTable, ...]:
    """Return a table for each model, GPU, load and whatever else the servers had in common.

    It takes three splits at least that differ in more than tp: a ladder of tp alone is no matrix.
    """
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        if entry.split_known:
            groups.setdefault(_common(entry), []).append(entry)
    found = [
        group
        for group in groups.values()
        if several(_arm(entry.config) for entry in group)
        and len({(entry.config.tp, _arm(entry.config)) for entry in group}) >= _FEWEST
    ]
    return tuple(_table(group, metric, _differences(group[0], found)) for group in found)


def _common(entry: Entry) -> object:
    config = entry.config
    return (
        *(entry.source, entry.series, entry.table, entry.model, entry.gpu, entry.load),
        *(config.ep, config.max_model_len, config.serve_args, config.build, config.variant),
    )


def _table(group: Sequence[Entry], metric: Metric, title: str) -> EntryTable:
    arms = sorted({_arm(entry.config) for entry in group}, key=_order)
    sizes = sorted({entry.config.tp for entry in group})
    cells: dict[tuple[int, Arm], list[Entry]] = {}
    for entry in group:
        cells.setdefault((entry.config.tp, _arm(entry.config)), []).append(entry)
    legend = _Legend()
    rows = tuple(
        (f"tp={tp}", *(_cell(cells.get((tp, arm), ()), metric, legend) for arm in arms)) for tp in sizes
    )
    empty = any((tp, arm) not in cells for tp in sizes for arm in arms)
    unit = f"{metric.title[:1].upper()}{metric.title[1:]} in {metric.unit}"
    return EntryTable(
        kind="matrix",
        source_table=group[0].table,
        title=titled("Every split", title),
        table=Table((metric.heading, *map(_heading, arms)), rows),
        entries=tuple(group),
        notes=(
            f"{unit}. A number without a word is valid."
            + (f" {NOT_PLANNED} is a split that was not planned." if empty else ""),
            *legend.lines(),
        ),
    )


class _Legend:
    """Causes that are too long for a cell, numbered in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def short(self, cause: str) -> str:
        """Return a cause as it is where it fits, else its number in brackets."""
        text = one_line(cause, 300)
        if len(text) <= _SHORT:
            return text
        return f"({self._numbers.setdefault(text, len(self._numbers) + 1)})"

    def lines(self) -> tuple[str, ...]:
        """Return a line for each cause that got a number."""
        return tuple(f"({place}) {cause}" for cause, place in self._numbers.items())


def _cell(found: Sequence[Entry], metric: Metric, legend: _Legend) -> Cell:
    """Return what stands in a cell: a number, or words that no one takes for one."""
    if not found:
        return NOT_PLANNED
    if len(found) == 1 and found[0].status is Status.VALID:
        return number(found[0], found[0].value(metric))
    return "; ".join(_word(entry, metric, legend) for entry in found)


def _word(entry: Entry, metric: Metric, legend: _Legend) -> str:
    value = plain_number(entry, entry.value(metric))
    shown = "" if value is None else f"{value:,}"
    if entry.status is Status.VALID:
        return shown or "–"
    rules = rules_against(entry)
    cause = legend.short(", ".join(rules) if entry.imported and rules else entry.cause)
    status = f"{entry.status.value}: {cause}" if cause and not cause.startswith("(") else entry.status.value
    if cause.startswith("("):
        status += f" {cause}"
    # The number of an invalid row is none: it is in the table of results, with what is held against it.
    return f"{shown} {status}" if entry.status is Status.SUSPECT and shown else status


def _arm(config: Config) -> Arm:
    return config.dp, config.units, config.pp


def _order(arm: Arm) -> tuple[int, int, int, int]:
    """Sort dp first, then units, pp, and what mixes them."""
    dp, units, pp = arm
    kinds = [dp > 1, units > 1, pp > 1]
    kind = 3 if sum(kinds) > 1 else 2 if pp > 1 else 1 if units > 1 else 0
    return kind, units, pp, dp


def _heading(arm: Arm) -> str:
    dp, units, pp = arm
    parts = [f"dp={dp}"] if dp > 1 or units == pp == 1 else []
    parts += [f"units={units}"] if units > 1 else []
    parts += [f"pp={pp}"] if pp > 1 else []
    return " ".join(parts)


def _differences(entry: Entry, groups: Iterable[Sequence[Entry]]) -> str:
    """Return what tells one matrix from the others of the same report, the GPU in any case."""
    heads = [group[0] for group in groups]
    config = entry.config
    differs = {
        entry.series: several(head.series for head in heads),
        entry.table: several(head.table for head in heads),
        entry.model: several(head.model for head in heads),
        entry.load: several(head.load for head in heads),
        f"len={config.max_model_len}": several(head.config.max_model_len for head in heads),
        "ep" if config.ep else "": several(head.config.ep for head in heads),
        f"build={config.build}" if config.build else "": several(head.config.build for head in heads),
        config.variant or " ".join(config.serve_args): several(
            (head.config.variant, head.config.serve_args) for head in heads
        ),
    }
    return titled(entry.gpu, *(text for text, shown in differs.items() if shown))
