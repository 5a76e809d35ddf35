"""The same configuration at several concurrencies, as section 5 of the second source. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.report.entry import Entry, traffic
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.tables.measures import errors, measured, names, verdicts
from fleetbench.report.tables.shown import (
    Columns,
    EntryTable,
    configuration,
    number,
    several,
    titled,
    without_empty,
)

_OWN = tuple(metric for metric in METRICS if metric.key in ("median_ttft_ms", "median_tpot_ms"))


def ladders(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """Return the entries of each configuration that was loaded with several concurrencies, in their order.

    All but the concurrency and the number of prompts is equal. Starts that are not valid under a load stand
    beside those that are.
    """
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        load = entry.workload
        if load.max_concurrency is not None and load.request_rate is None:
            key = (
                *(entry.source, entry.series, entry.table, entry.model, entry.gpu, entry.gpus),
                *(configuration(entry), entry.config, traffic(load)),
            )
            groups.setdefault(key, []).append(entry)
    return tuple(
        tuple(sorted(group, key=lambda entry: entry.workload.max_concurrency or 0))
        for group in groups.values()
        if several(entry.workload.max_concurrency for entry in group)
    )


def concurrency_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return a table for each model and kind of requests (imports: each table of a source)."""
    groups: dict[object, list[Entry]] = {}
    for ladder in ladders(entries):
        first = ladder[0]
        load = first.workload
        same = (first.source, first.table, first.model, load.dataset, load.input_len, load.output_len)
        groups.setdefault(same, []).extend(ladder)
    found = list(groups.values())
    models = several(group[0].model for group in found)
    requests = several(_requests(group[0]) for group in found)
    return tuple(_table(group, models=models, requests=requests) for group in found)


def _table(group: Sequence[Entry], *, models: bool, requests: bool) -> EntryTable:
    first = group[0]
    columns: Columns = [*names(group), *measured(group)]
    if not first.imported:
        columns += [(metric.heading, [number(e, e.value(metric)) for e in group]) for metric in _OWN]
    columns += [
        ("Concurrency", [entry.workload.max_concurrency for entry in group]),
        *errors(group),
        *verdicts(group),
    ]
    return EntryTable(
        kind="concurrency",
        source_table=first.table,
        title=titled("Concurrency", first.model if models else "", _requests(first) if requests else ""),
        table=without_empty(columns, len(group)),
        entries=tuple(group),
        notes=(f"{OUTPUT.heading} is what the client counted.",) if not first.imported else (),
    )


def _requests(entry: Entry) -> str:
    load = entry.workload
    return f"{load.dataset} {load.input_len}/{load.output_len}"
