"""Between rows of the database and frozen values. Pure: mappings in, values out, and back.

What comes from a host is made storable here: text without NUL (PostgreSQL refuses it) and without lone
surrogates (neither database encodes them), numbers finite and within 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from fleetbench.model import Config, Failure, GpuSet, Trial, TrialState, Workload
from fleetbench.results.rows import (
    Finding,
    LoanRow,
    MeasurementKind,
    MeasurementRow,
    MeasurementState,
    RunKind,
    RunRow,
    RunState,
    TrialRow,
    Verdict,
)
from fleetbench.results.schema import LATENCY_COLUMNS, REAL_COLUMNS, TEXT_COLUMNS, WHOLE_COLUMNS
from fleetbench.results.values import BenchResult

Record = Mapping[Any, Any]  # one row of a database by column name
LARGEST_INTEGER = 2**63 - 1
ALL_AT_ONCE = "inf"  # vLLM's word for a request rate without limit


def storable(value: Any) -> Any:
    """Given text, or lists and mappings of text, return it as both databases take it."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def config_of(document: Mapping[str, Any]) -> Config:
    """Return the configuration that `document_of` wrote; keys of a later version are passed over."""
    return Config(**_known(Config, document))


def workload_of(document: Mapping[str, Any]) -> Workload:
    """Return the workload that `document_of` wrote."""
    return Workload(**_known(Workload, document))


def document_of(value: Config | Workload) -> dict[str, Any]:
    """Return a configuration or workload as JSON-able mapping."""
    document: dict[str, Any] = storable(asdict(value))
    return document


def planned(run_id: str, trial: Trial, now: str) -> dict[str, Any]:
    """Return a trial that has not begun, or is not to, as a row; `now` is the time."""
    return failure_columns(trial.skipped) | {
        "run_id": run_id,
        "number": trial.number,
        "host": storable(trial.host),
        "gpus": str(trial.gpus),
        "port": trial.port,
        "config": document_of(trial.config),
        "workloads": [document_of(workload) for workload in trial.workloads],
        "repeats": trial.repeats,
        "state": (TrialState.NOT_RUN if trial.skipped else TrialState.PENDING).value,
        "ended_at": now if trial.skipped else "",
        "effective": {},
        "predicted": storable(trial.predicted),
        "member_ports": list(trial.member_ports),
        "gpu_name": storable(trial.gpu_name),
    }


def failure_columns(failure: Failure | None) -> dict[str, Any]:
    """Return the five failure columns of a trial; all NULL without a failure."""
    names = ("kind", "cause", "evidence", "advice", "retryable")
    return {
        f"failure_{name}": None if failure is None else storable(getattr(failure, name)) for name in names
    }


def result_columns(result: BenchResult) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the columns of a result, and what could not be stored: one sentence for each number."""
    columns: dict[str, Any] = {}
    refused: list[str] = []

    def number(name: str, value: Any) -> Any:
        if value is None or (_fits(value) and math.isfinite(value)):
            return value
        refused.append(f"{name} = {str(value)[:40]} is not a number that can be stored")
        return None

    for name in WHOLE_COLUMNS:
        columns[name] = number(name, getattr(result, name))
    for name in REAL_COLUMNS:
        value = getattr(result, name)
        columns[name] = (
            math.inf if name == "request_rate" and value in (ALL_AT_ONCE, math.inf) else number(name, value)
        )
    for name in TEXT_COLUMNS:
        columns[name] = storable(getattr(result, name))
    latencies = {storable(name): number(name, value) for name, value in result.latencies.items()}
    columns |= {name: latencies.pop(name, None) for name in LATENCY_COLUMNS}
    columns["latencies"] = {name: value for name, value in latencies.items() if value is not None}
    extra = {storable(name): number(name, value) for name, value in result.extra.items()}
    columns["extra"] = {name: value for name, value in extra.items() if value is not None}
    return columns, tuple(refused)


def as_stored(result: BenchResult) -> BenchResult:
    """Return a result as the store gives it back: without what it cannot keep."""
    columns, _ = result_columns(result)
    return _result_of(columns)


def run_of(record: Record) -> RunRow:
    """Return a run from its database row."""
    return RunRow(
        id=record["id"],
        kind=RunKind(record["kind"]),
        state=RunState(record["state"]),
        hosts=tuple(record["hosts"]),
        arguments=MappingProxyType(record["arguments"]),
        **_same(
            record,
            "model repo sweep fingerprint controller note fleetbench_version created_at updated_at ended_at"
            " origin",
        ),
    )


def trial_of(record: Record) -> TrialRow:
    """Return a trial from its database row."""
    failure = None
    if record["failure_kind"] is not None:
        failure = Failure(
            kind=record["failure_kind"],
            cause=record["failure_cause"] or "",
            evidence=record["failure_evidence"] or "",
            advice=record["failure_advice"] or "",
            retryable=bool(record["failure_retryable"]),
        )
    return TrialRow(
        gpus=GpuSet.parse(record["gpus"]),
        config=config_of(record["config"]),
        workloads=tuple(workload_of(document) for document in record["workloads"]),
        state=TrialState(record["state"]),
        failure=failure,
        effective=MappingProxyType(record["effective"]),
        predicted=MappingProxyType(record["predicted"]),
        packed_with=tuple(record["packed_with"]),
        member_ports=tuple(record["member_ports"]),
        **_same(
            record,
            "run_id number host port repeats unit_name unit_text spec_hash vllm_version ready_s"
            " started_at ended_at gpu_name",
        ),
    )


def measurement_of(record: Record) -> MeasurementRow:
    """Return a measurement from its database row."""
    state = MeasurementState(record["state"])
    return MeasurementRow(
        kind=MeasurementKind(record["kind"]),
        state=state,
        verdict=None if record["verdict"] is None else Verdict(record["verdict"]),
        findings=tuple(finding_of(found) for found in record["findings"]),
        reasons=tuple(record["reasons"]),
        telemetry=MappingProxyType(record["telemetry"]),
        ceiling=MappingProxyType(record["ceiling"]),
        result=_result_of(record) if state is MeasurementState.FINISHED else None,
        **_same(
            record,
            "run_id trial workload_index repeat seed unit_name client attempt started_at ended_at"
            " exit_status directory client_program client_version",
        ),
    )


def finding_of(document: Mapping[str, Any]) -> Finding:
    """Return the finding that `finding_document` wrote."""
    return Finding(
        rule=document["rule"],
        verdict=Verdict(document["verdict"]),
        text=document["text"],
        numbers=MappingProxyType(dict(document.get("numbers", {}))),
    )


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON-able mapping; a number that no database takes is left out."""
    numbers = {
        name: value for name, value in finding.numbers.items() if _fits(value) and math.isfinite(value)
    }
    document: dict[str, Any] = storable(
        {"rule": finding.rule, "verdict": finding.verdict.value, "text": finding.text, "numbers": numbers}
    )
    return document


def loan_of(record: Record) -> LoanRow:
    """Return a loan from its database row."""
    return LoanRow(**dict(record))


def _result_of(record: Record) -> BenchResult:
    latencies = {name: record[name] for name in LATENCY_COLUMNS if record[name] is not None}
    values = {name: record[name] for name in (*WHOLE_COLUMNS, *REAL_COLUMNS, *TEXT_COLUMNS)}
    if values["request_rate"] == math.inf:
        values["request_rate"] = ALL_AT_ONCE
    return BenchResult(
        latencies=MappingProxyType(latencies | record["latencies"]),
        extra=MappingProxyType(record["extra"]),
        **values,
    )


def _fits(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INTEGER)


def _known(kind: type[Config | Workload], document: Mapping[str, Any]) -> dict[str, Any]:
    names = kind.__dataclass_fields__
    return {
        name: tuple(item) if isinstance(item, list) else item
        for name, item in document.items()
        if name in names
    }


def _same(record: Record, names: str) -> dict[str, Any]:
    return {name: record[name] for name in names.split()}
