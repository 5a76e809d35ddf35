"""Models on a single GPU, the repeats side by side and the warm-up beside them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.tables.shown import (
    Columns,
    EntryTable,
    OneDigit,
    device_word,
    hindmost,
    number,
    several,
    standing,
    without_empty,
)

_TTFT = next(metric for metric in METRICS if metric.key == "median_ttft_ms")
_MOST_REPEATS = 10  # further ones are in measurements.csv


def single_gpu_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return one table with a row for each model on each kind of GPU, or none.

    It takes entries on one GPU, one of which was repeated or warmed up. Rows of one imported table that have
    one name, configuration and load are its repeats.
    """
    found = [group for group in _repeated(entries) if _alone(group[0])]
    repeats = [_outputs(group) for group in found]
    most = min(max(map(len, repeats), default=0), _MOST_REPEATS)
    if most < 2 and all(group[0].warmup_output_tps is None for group in found):
        return ()
    loads = several(group[0].load for group in found)
    columns: Columns = [
        ("model", [one_line(group[0].model, 80) or None for group in found]),
        ("GPU", [one_line(group[0].gpu, 60) or None for group in found]),
        ("configuration", [one_line(group[0].name, 80) for group in found]),
        ("workload", [group[0].load if loads else None for group in found]),
        ("warm-up", [number(group[0], group[0].warmup_output_tps) for group in found]),
        *(
            (
                f"repeat {place + 1}",
                [
                    number(group[0], values[place] if place < len(values) else None)
                    for group, values in zip(found, repeats, strict=True)
                ],
            )
            for place in range(most)
        ),
        (f"median {OUTPUT.heading}", [number(group[0], _median(group)) for group in found]),
        ("±%", [_variation(group[0]) for group in found]),
        (_TTFT.heading, [number(group[0], group[0].value(_TTFT)) for group in found]),
        ("status", [standing(hindmost(group)) for group in found]),
    ]
    return (
        EntryTable(
            kind="single-gpu",
            title=f"On a single {device_word(found[0][0])}",
            table=without_empty(columns, len(found)),
            entries=tuple(entry for group in found for entry in group),
            notes=(
                f"Warm-up and repeats are {OUTPUT.title} in {OUTPUT.unit}; the warm-up never counts.",
                *(("Repeats beyond these are in measurements.csv.",) if _more(repeats) else ()),
            ),
        ),
    )


def _repeated(entries: Sequence[Entry]) -> list[list[Entry]]:
    groups: dict[object, list[Entry]] = {}
    for place, entry in enumerate(entries):
        same = (entry.source, entry.table, entry.name, entry.model, entry.gpu, entry.config, entry.load)
        groups.setdefault(same if entry.imported and entry.table else place, []).append(entry)
    return list(groups.values())


def _alone(entry: Entry) -> bool:
    return entry.gpus == 1 and (entry.config.gpus == 1 or not entry.split_known)


def _outputs(group: Sequence[Entry]) -> list[float]:
    return [found.value for entry in group for found in entry.observations.get(OUTPUT.key, ())]


def _median(group: Sequence[Entry]) -> float | None:
    if len(group) == 1:
        return group[0].value(OUTPUT)
    values = sorted(_outputs(group))
    half = len(values) // 2
    if not values:
        return None
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _variation(entry: Entry) -> Cell:
    spread = entry.spread(OUTPUT)
    return None if spread is None or spread.cv_percent is None else OneDigit(spread.cv_percent)


def _more(repeats: Sequence[Sequence[float]]) -> bool:
    return any(len(values) > _MOST_REPEATS for values in repeats)
