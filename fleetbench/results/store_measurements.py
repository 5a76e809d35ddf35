"""Measurements in the store: written down before the client is started, and once more when it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, insert, select, update

from fleetbench.errors import FleetbenchError
from fleetbench.results.database import reading, writing
from fleetbench.results.records import finding_document, measurement_of, result_columns, storable
from fleetbench.results.rows import (
    NOTHING,
    Finding,
    Json,
    MeasurementKind,
    MeasurementRow,
    MeasurementState,
    Verdict,
)
from fleetbench.results.schema import MEASUREMENTS
from fleetbench.results.store_runs import RunTable
from fleetbench.results.summaries import refresh
from fleetbench.results.values import BenchResult

Key = tuple[str, int, int, int, MeasurementKind]


def measurement_directory(trial: int, workload_index: int, repeat: int, kind: MeasurementKind) -> str:
    """Return where a measurement's raw files belong, relative to its run's directory."""
    return f"trial-{trial:02d}/workload-{workload_index}/{kind.value}-{repeat}"


class MeasurementTable(RunTable):
    """Measurements: unique by run, trial, workload, repeat and kind."""

    def start_measurement(
        self,
        run_id: str,
        trial: int,
        workload_index: int,
        repeat: int,
        kind: MeasurementKind,
        *,
        seed: int,
        unit_name: str,
        client: str,
        again: bool = False,
    ) -> MeasurementRow:
        """Write down a measurement that is about to start, or return the one that is there.

        A resumed controller that starts the same one gets the first row back: finished, with nothing left
        to do, or running, with the unit name under which it may still be found on the client host. When it
        is found nowhere, `again=True` puts the new seed and unit name in its place and counts an attempt.
        """
        key: Key = (run_id, trial, workload_index, repeat, kind)
        fresh: dict[str, Any] = {
            "seed": seed,
            "unit_name": storable(unit_name),
            "client": storable(client),
            "state": MeasurementState.RUNNING.value,
            "started_at": self.now(),
            "ended_at": "",
            "directory": measurement_directory(trial, workload_index, repeat, kind),
            **no_result(),
        }
        with writing(self._engine, "record the measurement") as connection:
            self._lock_run(connection, run_id)
            statement = select(MEASUREMENTS).where(_is(key))
            found = connection.execute(statement).mappings().first()
            if found is not None and not again:
                return measurement_of(found)
            if found is None:
                row = {
                    "run_id": run_id,
                    "trial": trial,
                    "workload_index": workload_index,
                    "repeat": repeat,
                    "kind": kind.value,
                    "attempt": 1,
                }
                connection.execute(insert(MEASUREMENTS).values(**row, **fresh))
            else:
                change = {**fresh, "attempt": found["attempt"] + 1}
                connection.execute(update(MEASUREMENTS).where(_is(key)).values(**change))
                refresh(connection, run_id, trial, workload_index)
            return measurement_of(connection.execute(select(MEASUREMENTS).where(_is(key))).mappings().one())

    def finish_measurement(
        self,
        run_id: str,
        trial: int,
        workload_index: int,
        repeat: int,
        kind: MeasurementKind,
        *,
        result: BenchResult | None,
        verdict: Verdict,
        findings: Iterable[Finding] = (),
        reasons: Iterable[str] = (),
        exit_status: int | None = None,
        directory: str | None = None,
        client_program: str = "",
        client_version: str = "",
        telemetry: Mapping[str, Json] = NOTHING,
        ceiling: Mapping[str, Json] = NOTHING,
    ) -> MeasurementRow:
        """Write down what came of a measurement and return it; `result=None`: no report was readable.

        The sentences of the findings become reasons, before `reasons`, which are what else is said of it.
        Doing it twice is the same as once: the later result stands.
        """
        key: Key = (run_id, trial, workload_index, repeat, kind)
        columns, refused = result_columns(result or BenchResult())
        found = tuple(findings)
        change = {
            **columns,
            "state": MeasurementState.FINISHED.value,
            "ended_at": self.now(),
            "exit_status": exit_status,
            "client_program": storable(client_program),
            "client_version": storable(client_version),
            "verdict": verdict.value,
            "findings": [finding_document(finding) for finding in found],
            "reasons": storable([*(finding.text for finding in found), *reasons, *refused]),
            "telemetry": storable(telemetry),
            "ceiling": storable(ceiling),
        }
        if directory is not None:
            change["directory"] = storable(directory)
        with writing(self._engine, "record the result") as connection:
            self._lock_run(connection, run_id)  # two repeats that end at once make one summary
            if not connection.execute(update(MEASUREMENTS).where(_is(key)).values(**change)).rowcount:
                raise FleetbenchError(
                    f"run {run_id} has no {kind.value} {repeat} of trial {trial}, workload {workload_index}"
                )
            refresh(connection, run_id, trial, workload_index)
            return measurement_of(connection.execute(select(MEASUREMENTS).where(_is(key))).mappings().one())

    def measurements(self, run_id: str, trial: int | None = None) -> tuple[MeasurementRow, ...]:
        """Return the measurements of a run (or of one trial) by trial, workload, warm-ups first, repeat."""
        statement = select(MEASUREMENTS).where(MEASUREMENTS.c.run_id == run_id)
        if trial is not None:
            statement = statement.where(MEASUREMENTS.c.trial == trial)
        order = (
            MEASUREMENTS.c.trial,
            MEASUREMENTS.c.workload_index,
            MEASUREMENTS.c.kind == MeasurementKind.MEASURE.value,
            MEASUREMENTS.c.repeat,
        )
        with reading(self._engine, "read the measurements") as connection:
            found = connection.execute(statement.order_by(*order))
            return tuple(measurement_of(row) for row in found.mappings())


def _is(key: Key) -> ColumnElement[bool]:
    run_id, trial, workload_index, repeat, kind = key
    table = MEASUREMENTS.c
    return (
        (table.run_id == run_id)
        & (table.trial == trial)
        & (table.workload_index == workload_index)
        & (table.repeat == repeat)
        & (table.kind == kind.value)
    )


def no_result() -> dict[str, Any]:
    """Return the columns of a measurement that has no result yet."""
    columns, _ = result_columns(BenchResult())
    none: dict[str, Any] = {
        "exit_status": None,
        "client_program": "",
        "client_version": "",
        "verdict": None,
        "findings": [],
        "reasons": [],
        "telemetry": {},
        "ceiling": {},
    }
    return {**columns, **none}
