"""Tables of a report on several runs: the runs, and every entry of a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.errors import one_line
from fleetbench.report.columns import Cell, Table
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import METRICS, OUTPUT, Metric
from fleetbench.report.tables.shown import (
    Columns,
    OneDigit,
    gpus_text,
    number,
    several,
    standing,
    without_empty,
)
from fleetbench.report.terminal import Marked, Uncertain, interval_text
from fleetbench.report.together.joined import Joined

_HEADS = ("run", "state", "model", "hosts", "GPUs", "vLLM", "client", "started (UTC)", "rows", "valid")


def run_table(found: Joined) -> Table:
    """Return a row for each run: what was measured, where, with what."""
    return Table(_HEADS, tuple(_run(found, place) for place in range(len(found.reports))))


def result_table(entries: Sequence[Entry]) -> Table:
    """Return the entries of a model with their headlines; columns that say nothing are left out."""
    loads = several(entry.load for entry in entries)
    columns: Columns = [
        ("configuration", [one_line(entry.name, 100) for entry in entries]),
        ("GPUs", [gpus_text(entry) or None for entry in entries]),
        ("workload", [entry.load if loads else None for entry in entries]),
        ("status", [_status(entry) for entry in entries]),
    ]
    for metric in METRICS:
        if metric.table:
            columns.append((metric.heading, [_shown(entry, metric) for entry in entries]))
        if metric is OUTPUT:
            columns += _beside(entries)
    return without_empty(columns, len(entries))


def _run(found: Joined, place: int) -> tuple[Cell, ...]:
    report = found.reports[place]
    run = report.run
    entries = [entry for entry in found.entries if entry.run == run.id]
    gpus = dict.fromkeys(one_line(entry.gpu, 60) for entry in entries if entry.gpu)
    clients = dict.fromkeys(entry.client for entry in entries if entry.client)
    versions = dict.fromkeys(entry.vllm_version for entry in entries if entry.vllm_version)
    return (
        run.id,
        run.state.value,
        one_line(run.repo or run.model, 80),
        one_line(", ".join(run.hosts), 120),
        ", ".join(gpus) or None,
        one_line(", ".join(versions), 60) or None,
        one_line("; ".join(clients), 80) or None,
        run.created_at,
        len(entries),
        sum(entry.valid for entry in entries),
    )


def _status(entry: Entry) -> str:
    if entry.status is Status.VALID:
        return f"{entry.status.value}, {entry.repeats} repeat{'' if entry.repeats == 1 else 's'}"
    return standing(entry)


def _shown(entry: Entry, metric: Metric) -> Cell:
    value = number(entry, None if entry.status is Status.INVALID else entry.value(metric))
    if not isinstance(value, int | float) or not entry.rests_on_few(metric):
        return value
    return Marked(value, value.mark, weak=True) if isinstance(value, Marked) else Uncertain(value)


def _beside(entries: Sequence[Entry]) -> Columns:
    spreads = [entry.spread(OUTPUT) if entry.status is not Status.INVALID else None for entry in entries]
    noise = [spread.cv_percent if spread else None for spread in spreads]
    return [
        ("95 % interval", [interval_text(spread) for spread in spreads]),
        ("±%", [None if cv is None else OneDigit(cv) for cv in noise]),
        ("warm-up", [number(entry, entry.warmup_output_tps) for entry in entries]),
    ]
