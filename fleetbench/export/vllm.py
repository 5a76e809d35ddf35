"""Runs as `vllm bench sweep serve` would have left them, so that vLLM's own plot tools read them. Pure.

What these tools need, by their source in vLLM 0.32 (benchmarks/sweep/): `plot` and `plot_pareto` read every
`summary.json` below a directory, a list of flat objects that all have the same keys, and take `inf` as text.
`plot_pareto` counts GPUs by tensor, pipeline and data parallel size, which is wrong for several units:
`--gpu-count-var gpu_count` tells it. Neither knows a verdict, so a summary holds valid measurements only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields

from fleetbench.errors import one_line
from fleetbench.report.columns import Table
from fleetbench.report.csv_text import csv_cell, csv_text
from fleetbench.results.records import ALL_AT_ONCE
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunRow, TrialRow, Verdict
from fleetbench.results.values import BenchResult

Value = None | bool | int | float | str
Record = dict[str, Value]
SUMMARY = "summary.json"
LONGEST_NAME = 150


def sweep_files(
    run: RunRow, trials: Iterable[TrialRow], measurements: Iterable[MeasurementRow]
) -> dict[str, bytes]:
    """Given a run and its rows, return the files of its directory by their path in it.

    `run=N.json` is a finished measurement that left a result, `warmup.json` a warm-up, `summary.json` the
    valid ones of a configuration under a workload, `failure.json` why a configuration did not work, and
    `summary.csv` all that the summaries hold.
    """
    known = tuple(measurements)
    found: dict[str, list[tuple[MeasurementRow, Record]]] = {}
    files: dict[str, bytes] = {}
    for trial in trials:
        for index in range(len(trial.workloads)):
            here = (trial.number, index)
            rows = [
                row for row in known if (row.trial, row.workload_index) == here and row.result is not None
            ]
            if rows:
                found[_folder(trial, index)] = [(row, _record(run, trial, row)) for row in rows]
        if trial.failure is not None:
            files[f"{_server(trial)}/failure.json"] = _json(_failure(run, trial))
    keys = list(dict.fromkeys(key for several in found.values() for _, record in several for key in record))
    counted: list[Record] = []
    for folder, several in found.items():
        whole = [(row, {key: record.get(key) for key in keys}) for row, record in several]
        for row, record in whole:
            files[f"{folder}/{_file(row)}"] = _json(record)
        valid = [record for row, record in whole if _counts(row)]
        if valid:
            files[f"{folder}/{SUMMARY}"] = _json(valid)
            counted += valid
    if counted:
        files["summary.csv"] = _csv(keys, counted)
    return files


def _record(run: RunRow, trial: TrialRow, row: MeasurementRow) -> Record:
    """Return a measurement under vLLM's names; what is ours begins with `fleetbench_`."""
    result, config, workload = row.result or BenchResult(), trial.config, trial.workloads[row.workload_index]
    reported: Record = {
        entry.name: _plain(getattr(result, entry.name))
        for entry in fields(BenchResult)
        if entry.name not in ("latencies", "extra")
    }
    if reported["request_rate"] is None:
        reported["request_rate"] = workload.request_rate or ALL_AT_ONCE
    asked: Record = {
        "model_id": one_line(result.model_id or run.repo or run.model, 300),
        "num_prompts": result.num_prompts or workload.num_prompts,
        "max_concurrency": workload.max_concurrency,
        "dataset_name": one_line(workload.dataset, 100),
        "input_len": workload.input_len,
        "output_len": workload.output_len,
        "seed": row.seed,
    }
    served: Record = {
        "tensor_parallel_size": config.tp,
        "data_parallel_size": config.dp,
        "pipeline_parallel_size": config.pp,
        "enable_expert_parallel": config.ep,
        "max_model_len": config.max_model_len or _whole(trial.effective.get("max_model_len")),
        "units": config.units,
        "gpu_count": len(trial.gpus.indices) or None,
        "run_number": row.repeat - 1,
        "_benchmark_name": one_line(workload.label, LONGEST_NAME),
    }
    ours: Record = {
        "fleetbench_run": run.id,
        "fleetbench_trial": trial.number,
        "fleetbench_configuration": one_line(config.label, 400),
        "fleetbench_host": one_line(trial.host, 100),
        "fleetbench_gpu": one_line(trial.gpu_name, 100),
        "fleetbench_vllm_version": one_line(trial.vllm_version, 60),
        "fleetbench_verdict": row.verdict.value if row.verdict else None,
        "fleetbench_reasons": one_line("; ".join(row.reasons), 2000),
    }
    numbers = {
        one_line(name, 100): _plain(value) for name, value in {**result.extra, **result.latencies}.items()
    }
    return {**numbers, **reported, **asked, **served, **ours}


def _counts(row: MeasurementRow) -> bool:
    return row.kind is MeasurementKind.MEASURE and row.verdict is Verdict.VALID


def _file(row: MeasurementRow) -> str:
    if row.kind is MeasurementKind.MEASURE:
        return f"run={row.repeat - 1}.json"
    return "warmup.json" if row.kind is MeasurementKind.WARMUP else f"control={row.repeat - 1}.json"


def _failure(run: RunRow, trial: TrialRow) -> Record:
    failure = trial.failure
    return {
        "error_type": failure.kind if failure else "",
        "error": one_line(failure.cause, 2000) if failure else "",
        "evidence": one_line(failure.evidence, 2000) if failure else "",
        "fleetbench_run": run.id,
        "fleetbench_trial": trial.number,
        "fleetbench_state": trial.state.value,
        "fleetbench_configuration": one_line(trial.config.label, 400),
        "fleetbench_host": one_line(trial.host, 100),
    }


def _server(trial: TrialRow) -> str:
    return f"SERVE--{trial.number:02d}-{_safe(trial.config.label)}"


def _folder(trial: TrialRow, index: int) -> str:
    return f"{_server(trial)}-BENCH--{index}-{_safe(trial.workloads[index].label)}"


def _safe(text: str) -> str:
    """Return text as part of a file's name; it may hold what was typed into an inventory."""
    return re.sub(r"[^A-Za-z0-9=._-]+", "_", text)[:80].strip("._")


def _plain(value: object) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else one_line(str(value), 400)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _json(value: object) -> bytes:
    return f"{json.dumps(value, indent=2, allow_nan=False)}\n".encode()


def _csv(keys: Iterable[str], records: Iterable[Mapping[str, Value]]) -> bytes:
    """Return all records as one table; keys that a result file named are no formulas either."""
    keys = tuple(keys)
    names = tuple(str(csv_cell(key)) for key in keys)
    return csv_text(Table(names, tuple(tuple(record[key] for key in keys) for record in records))).encode()
