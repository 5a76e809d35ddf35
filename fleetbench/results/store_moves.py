"""Trials that change their host: taken by one before they begin, or moved away from one that is lost."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from sqlalchemy import select, update

from fleetbench.errors import FleetbenchError
from fleetbench.model import GpuSet, TrialState
from fleetbench.results.database import writing
from fleetbench.results.records import failure_columns, measurement_of, storable
from fleetbench.results.rows import MeasurementRow, MeasurementState
from fleetbench.results.schema import MEASUREMENTS, TRIALS
from fleetbench.results.store_measurements import no_result
from fleetbench.results.store_runs import RunTable
from fleetbench.results.summaries import refresh

_AGAIN = re.compile(r"-again-[0-9a-f]{4}$")


class MoveTable(RunTable):
    """Where a trial runs is decided when a host takes it, and written down before it begins."""

    def place_trial(
        self,
        run_id: str,
        number: int,
        *,
        host: str,
        gpus: GpuSet,
        port: int,
        member_ports: Sequence[int] = (),
    ) -> None:
        """Write down where a trial that has not begun is about to run."""
        where = (TRIALS.c.run_id == run_id) & (TRIALS.c.number == number)
        change = {
            "host": storable(host),
            "gpus": str(gpus),
            "port": port,
            "member_ports": list(member_ports),
        }
        with writing(self._engine, "record the trial's host") as connection:
            statement = update(TRIALS).where(where, TRIALS.c.state == TrialState.PENDING.value)
            if not connection.execute(statement.values(**change)).rowcount:
                raise FleetbenchError(f"run {run_id} has no trial {number} that has not begun", host=host)

    def begin_elsewhere(
        self,
        run_id: str,
        number: int,
        *,
        host: str,
        gpus: GpuSet,
        port: int,
        client: str,
        member_ports: Sequence[int] = (),
    ) -> tuple[MeasurementRow, ...]:
        """Give a trial that was begun to another host, as one that has not begun; all or nothing.

        What was measured of it counts no more: each measurement waits for another attempt, under a unit name
        that no host has seen, from `client`. Returns the measurements as they were.
        """
        trial = (TRIALS.c.run_id == run_id) & (TRIALS.c.number == number)
        measured = (MEASUREMENTS.c.run_id == run_id) & (MEASUREMENTS.c.trial == number)
        fresh = {
            "host": storable(host),
            "gpus": str(gpus),
            "port": port,
            "member_ports": list(member_ports),
            "state": TrialState.PENDING.value,
            "unit_name": "",
            "unit_text": "",
            "spec_hash": "",
            "vllm_version": "",
            "ready_s": None,
            "effective": {},
            "packed_with": [],
            "started_at": "",
            "ended_at": "",
            **failure_columns(None),
        }
        with writing(self._engine, "move the trial to another host") as connection:
            self._lock_run(connection, run_id)
            if not connection.execute(update(TRIALS).where(trial).values(**fresh)).rowcount:
                raise FleetbenchError(f"run {run_id} has no trial {number}", host=host)
            found = connection.execute(select(MEASUREMENTS).where(measured)).mappings().all()
            for row in found:
                one = measured & (
                    (MEASUREMENTS.c.workload_index == row["workload_index"])
                    & (MEASUREMENTS.c.repeat == row["repeat"])
                    & (MEASUREMENTS.c.kind == row["kind"])
                )
                change = {
                    **no_result(),
                    "state": MeasurementState.RUNNING.value,
                    "attempt": row["attempt"] + 1,
                    "unit_name": f"{_AGAIN.sub('', row['unit_name'])}-again-{secrets.token_hex(2)}",
                    "client": storable(client),
                    "started_at": self.now(),
                    "ended_at": "",
                }
                connection.execute(update(MEASUREMENTS).where(one).values(**change))
                refresh(connection, run_id, number, row["workload_index"])
            return tuple(measurement_of(row) for row in found)

    def take_up_again(self, run_id: str, kind: str) -> tuple[int, ...]:
        """Open the trials again that were not run for a reason that may have passed; return their numbers.

        One that had begun is running again: what it left on its host may still be there.
        """
        with writing(self._engine, "take trials up again") as connection:
            self._lock_run(connection, run_id)
            mine = (
                (TRIALS.c.run_id == run_id)
                & (TRIALS.c.state == TrialState.NOT_RUN.value)
                & (TRIALS.c.failure_kind == kind)
            )
            numbers = connection.scalars(select(TRIALS.c.number).where(mine).order_by(TRIALS.c.number)).all()
            open_again = {**failure_columns(None), "ended_at": ""}
            begun = {"state": TrialState.RUNNING.value, **open_again}
            connection.execute(update(TRIALS).where(mine, TRIALS.c.started_at != "").values(**begun))
            pending = {"state": TrialState.PENDING.value, **open_again}
            connection.execute(update(TRIALS).where(mine).values(**pending))
            return tuple(numbers)
