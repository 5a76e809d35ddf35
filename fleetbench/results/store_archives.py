"""Whole runs in and out of the store: what an archive holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import insert, select

from fleetbench.results.database import reading, writing
from fleetbench.results.records import storable
from fleetbench.results.run_records import RunRecords
from fleetbench.results.schema import LOANS, MEASUREMENTS, RUNS, TRIALS
from fleetbench.results.store_runs import RunTable
from fleetbench.results.summaries import refresh


class ArchiveTable(RunTable):
    """All rows of a run at once."""

    def records(self, run_id: str) -> RunRecords | None:
        """Return all rows of the run of that very id; None when there is none."""
        with reading(self._engine, "read the run") as connection:
            run = connection.execute(select(RUNS).where(RUNS.c.id == storable(run_id))).mappings().first()
            if run is None:
                return None
            found = {
                table.name: tuple(
                    dict(row)
                    for row in connection.execute(
                        select(table).where(table.c.run_id == run_id).order_by(*table.primary_key.columns)
                    ).mappings()
                )
                for table in (TRIALS, MEASUREMENTS, LOANS)
            }
        return RunRecords(run=dict(run), **found)

    @contextmanager
    def adding(self, records: RunRecords, origin: str) -> Iterator[None]:
        """Write a run of another store down, all or nothing; `origin` says where it is from.

        It is there when the body, which brings its files to their place, has come to its end.
        """
        with writing(self._engine, "add the run") as connection:
            connection.execute(insert(RUNS).values(**records.run | {"origin": storable(origin)}))
            for table, rows in (
                (TRIALS, records.trials),
                (MEASUREMENTS, records.measurements),
                (LOANS, records.loans),
            ):
                if rows:
                    connection.execute(insert(table), list(rows))
            for trial, index in {(row["trial"], row["workload_index"]) for row in records.measurements}:
                refresh(connection, records.run_id, trial, index)
            yield
