"""What the repeats of one workload of one trial came to, kept beside them for queries.

A row of `summaries` follows from the measurements below it and is written in the transaction that changes
them, so that a query over 10,000 runs reads one narrow row for each instead of four wide ones. Which repeats
count is the report's rule: the valid ones, or, where there is none, the suspect ones. Percentiles are medians
of each repeat's own, as in summary.csv.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from fleetbench.results.rows import MeasurementKind, MeasurementState, Verdict
from fleetbench.results.schema import MEASUREMENTS, SUMMARIES, SUMMARY_METRICS

Record = Mapping[Any, Any]
_READ = ("kind", "state", "verdict", *SUMMARY_METRICS, "latencies")


def summary_of(rows: Iterable[Record]) -> dict[str, Any] | None:
    """Given the measurements of one workload of one trial, return its summary without its key.

    None when none of them is a finished repeat. A metric that no repeat has is None.
    """
    finished = [
        row
        for row in rows
        if row["kind"] == MeasurementKind.MEASURE.value and row["state"] == MeasurementState.FINISHED.value
    ]
    verdict = next((v.value for v in Verdict if any(row["verdict"] == v.value for row in finished)), None)
    if verdict is None:
        return None
    counted = [row for row in finished if row["verdict"] == verdict != Verdict.INVALID.value]
    found: dict[str, Any] = {"verdict": verdict, "repeats_counted": len(counted)}
    for metric in SUMMARY_METRICS:
        values = [value for row in counted if (value := _value(row, metric)) is not None]
        found[metric] = statistics.median(values) if values else None
    outputs = [row["output_throughput"] for row in counted if row["output_throughput"] is not None]
    found["output_throughput_min"] = min(outputs, default=None)
    found["output_throughput_max"] = max(outputs, default=None)
    return found


def refresh(connection: Connection, run_id: str, trial: int, workload_index: int) -> None:
    """Write the summary anew of one workload of a trial whose measurements were changed."""
    key = {"run_id": run_id, "trial": trial, "workload_index": workload_index}
    columns = [MEASUREMENTS.c[name] for name in _READ]
    found = summary_of(connection.execute(select(*columns).where(*_is(MEASUREMENTS, key))).mappings())
    connection.execute(delete(SUMMARIES).where(*_is(SUMMARIES, key)))
    if found is not None:
        connection.execute(insert(SUMMARIES).values(**key, **found))


def _value(row: Record, metric: str) -> float | None:
    """Some versions of vLLM report a p50 in the place of a median."""
    value: float | None = row[metric]
    if value is None and metric.startswith("median_"):
        value = row["latencies"].get(metric.replace("median_", "p50_"))
    return value


def _is(table: Any, key: Mapping[str, Any]) -> list[Any]:
    return [table.c[name] == value for name, value in key.items()]
