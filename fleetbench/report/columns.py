"""A report as columns and cells, wide for CSV and JSON.

The columns are made for csvkit: snake_case names, units in the name, None for what is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fleetbench.model import Workload
from fleetbench.report import nearness, telemetry
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.report.standing import NO_STANDING, STANDING, Standing, standings
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.rows import MeasurementRow, TrialRow
from fleetbench.results.samples import PERCENTILES
from fleetbench.results.statistics import Spread
from fleetbench.results.values import BenchResult

Cell = None | bool | int | float | str

STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")
LATENCY_KEYS = tuple(
    f"{statistic}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for statistic in STATISTICS
)
POOLED_KEYS = tuple(
    f"p{percent}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for percent in PERCENTILES
)
RESULT_KEYS = (
    "completed",
    "failed",
    "duration",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
)


@dataclass(frozen=True, slots=True)
class Table:
    """Column names and rows of cells; None is unknown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def objects(self) -> list[dict[str, Cell]]:
        """Return the rows as JSON-able objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def summary_columns() -> tuple[str, ...]:
    """Return the columns of `summary_table`, in order."""
    return (
        *("run", "trial", "host", "model", "configuration"),
        *_SETTINGS,
        "workload_index",
        *_WORKLOAD,
        *("state", "verdict", "repeats_counted", "repeats_asked", "client_program"),
        *("ready_s", "vllm_version"),
        *(f"{metric.key}{suffix}" for metric in METRICS for suffix in _SPREAD),
        *_CERTAINTY,
        *STANDING,
        *map(nearness.column, nearness.KEYS),
        "output_throughput_per_gpu",
        "warmup_output_throughput",
        *("failure_kind", "failure_cause", "failure_evidence", "failure_advice", "notes"),
    )


def summary_table(report: Report) -> Table:
    """Return the report for programs: one row for each workload of each trial."""
    stand = standings(report)
    rows = (_summary_cells(report, row, stand) for row in report.rows)
    return Table(summary_columns(), tuple(map(tuple, rows)))


def measurement_columns() -> tuple[str, ...]:
    """Return the columns of `measurement_table`, in order."""
    return (
        *("run", "trial", "host", "model", "configuration"),
        *_SETTINGS,
        "workload_index",
        *_WORKLOAD,
        "vllm_version",
        *("kind", "repeat", "attempt", "seed", "client", "client_program", "client_version"),
        *("state", "exit_status", "verdict", "reasons"),
        *RESULT_KEYS,
        *LATENCY_KEYS,
        *telemetry.columns(),
        *map(nearness.column, nearness.KEYS),
        *("started_at", "ended_at", "unit", "directory"),
    )


def measurement_table(report: Report) -> Table:
    """Return every measurement, warm-ups and invalid ones too: one row each."""
    trials = {trial.number: trial for trial in report.trials}
    return Table(
        measurement_columns(),
        tuple(tuple(_measurement_cells(report, trials[row.trial], row)) for row in report.measurements),
    )


def _pooled(key: str) -> Callable[[ReportRow], Cell]:
    return lambda row: row.pooled.latencies.get(key) if row.pooled else None


def _steady(key: str) -> Callable[[ReportRow], Cell]:
    return lambda row: found.median if row.steady and (found := row.steady.spreads.get(key)) else None


# Column name -> value, so that names and cells cannot get out of step.
_SETTINGS: dict[str, Callable[[TrialRow], Cell]] = {
    "tp": lambda trial: trial.config.tp,
    "dp": lambda trial: trial.config.dp,
    "pp": lambda trial: trial.config.pp,
    "ep": lambda trial: trial.config.ep,
    "units": lambda trial: trial.config.units,
    "gpu_count": lambda trial: trial.config.gpus,
    "gpus": lambda trial: "+".join(f"gpu{index}" for index in trial.gpus.indices) or None,
    "max_model_len": lambda trial: trial.config.max_model_len,
    "serve_args": lambda trial: " ".join(trial.config.serve_args),
    "build": lambda trial: trial.config.build or None,
}
_WORKLOAD: dict[str, Callable[[Workload], Cell]] = {
    "dataset": lambda workload: workload.dataset,
    "input_len": lambda workload: workload.input_len,
    "output_len": lambda workload: workload.output_len,
    "num_prompts": lambda workload: workload.num_prompts,
    "max_concurrency": lambda workload: workload.max_concurrency,
    "request_rate": lambda workload: workload.request_rate,
    "temperature": lambda workload: workload.temperature,
}


# Suffix of a metric's column -> value. The name alone is the median of the repeats.
_SPREAD: dict[str, Callable[[Spread], Cell]] = {
    "": lambda found: found.median,
    "_min": lambda found: found.minimum,
    "_max": lambda found: found.maximum,
    "_cv_percent": lambda found: found.cv_percent,
    "_low": lambda found: found.interval.low if found.interval else None,
    "_high": lambda found: found.interval.high if found.interval else None,
}
STEADY_KEYS = ("output_throughput", "request_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms")
_CERTAINTY: dict[str, Callable[[ReportRow], Cell]] = {
    "interval_method": lambda row: (
        found.interval.method if (found := row.spreads.get(OUTPUT.key)) and found.interval else None
    ),
    "steady_share": lambda row: row.steady.share.median if row.steady else None,
    **{f"steady_{key}": _steady(key) for key in STEADY_KEYS},
    "pooled_requests": lambda row: row.pooled.requests if row.pooled else None,
    **{f"pooled_{key}": _pooled(key) for key in POOLED_KEYS},
}


def _origin(report: Report, trial: TrialRow, index: int) -> Iterator[Cell]:
    yield from (report.run.id, trial.number, trial.host, report.run.model, trial.config.label)
    yield from (setting(trial) for setting in _SETTINGS.values())
    yield index
    yield from (part(trial.workloads[index]) for part in _WORKLOAD.values())


def _summary_cells(
    report: Report, row: ReportRow, stand: Mapping[tuple[int, int], Standing]
) -> Iterator[Cell]:
    trial, failure = row.trial, row.failure
    yield from _origin(report, trial, row.workload_index)
    yield from (trial.state.value, row.verdict and row.verdict.value, row.counted, trial.repeats)
    yield "; ".join(row.client_programs) or None
    yield from (trial.ready_s, trial.vllm_version)
    for metric in METRICS:
        found = row.spreads.get(metric.key)
        yield from (_rounded(part(found)) if found else None for part in _SPREAD.values())
    yield from (_rounded(part(row)) for part in _CERTAINTY.values())
    yield from map(_rounded, stand.get((trial.number, row.workload_index), NO_STANDING))
    yield from map(_rounded, nearness.together(row.repeats))
    output = row.spreads.get("output_throughput")
    yield _rounded(output.median / trial.config.gpus) if output else None
    yield _rounded(row.warmup_output_throughput)
    for name in ("kind", "cause", "evidence", "advice"):
        yield getattr(failure, name) if failure else None
    yield "; ".join(row.notes)


def _measurement_cells(report: Report, trial: TrialRow, row: MeasurementRow) -> Iterator[Cell]:
    result = row.result or BenchResult()
    yield from _origin(report, trial, row.workload_index)
    yield trial.vllm_version
    yield from (row.kind.value, row.repeat, row.attempt, row.seed, row.client)
    yield from (row.client_program or None, row.client_version or None)
    yield from (row.state.value, row.exit_status, row.verdict and row.verdict.value, "; ".join(row.reasons))
    yield from (getattr(result, key) for key in RESULT_KEYS)
    yield from (result.latencies.get(key) for key in LATENCY_KEYS)
    yield from telemetry.cells(row)
    yield from nearness.cells(row)
    yield from (row.started_at, row.ended_at, row.unit_name, row.directory)


def _rounded(value: Cell) -> Cell:
    """Six digits after the point: more are noise of the division, not of the measurement."""
    return round(value, 6) if isinstance(value, float) else value
