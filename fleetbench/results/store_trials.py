"""Trials and loans in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import case, func, insert, select, update

from fleetbench.errors import FleetbenchError
from fleetbench.model import Failure, Trial, TrialState
from fleetbench.results.database import reading, writing
from fleetbench.results.records import failure_columns, loan_of, planned, storable, trial_of
from fleetbench.results.rows import Json, LoanRow, TrialCount, TrialRow
from fleetbench.results.schema import LOANS, TRIALS
from fleetbench.results.store_runs import RunTable

OPEN_STATES = (TrialState.PENDING, TrialState.RUNNING)


class TrialTable(RunTable):
    """Trials: planned all at once, then each moved from `pending` to one of four ends."""

    def add_trials(self, run_id: str, trials: Iterable[Trial]) -> None:
        """Record the trials of a run, all or none; those that are there already stay as they are.

        One that is skipped has its end at once: not run, with the reason.
        """
        with writing(self._engine, "record the trials") as connection:
            self._lock_run(connection, run_id)
            known = set(connection.scalars(select(TRIALS.c.number).where(TRIALS.c.run_id == run_id)))
            now = self.now()
            fresh = [planned(run_id, trial, now) for trial in trials if trial.number not in known]
            if fresh:
                connection.execute(insert(TRIALS), fresh)

    def trials(self, run_id: str) -> tuple[TrialRow, ...]:
        """Return the trials of a run in the order of their numbers."""
        with reading(self._engine, "read the trials") as connection:
            statement = select(TRIALS).where(TRIALS.c.run_id == run_id).order_by(TRIALS.c.number)
            return tuple(trial_of(row) for row in connection.execute(statement).mappings())

    def trial_counts(self, run_ids: Sequence[str] | None = None) -> tuple[TrialCount, ...]:
        """Return for each run, or each of those given, how many of its trials are in each state."""
        statement = select(TRIALS.c.run_id, TRIALS.c.state, func.count()).group_by(
            TRIALS.c.run_id, TRIALS.c.state
        )
        if run_ids is not None:
            statement = statement.where(TRIALS.c.run_id.in_(run_ids))
        with reading(self._engine, "count the trials") as connection:
            return tuple(
                TrialCount(run_id, TrialState(state), count)
                for run_id, state, count in connection.execute(statement)
            )

    def set_trial(
        self,
        run_id: str,
        number: int,
        *,
        state: TrialState | None = None,
        failure: Failure | None = None,
        port: int | None = None,
        member_ports: Sequence[int] | None = None,
        unit_name: str | None = None,
        unit_text: str | None = None,
        spec_hash: str | None = None,
        vllm_version: str | None = None,
        ready_s: float | None = None,
        effective: Mapping[str, Json] | None = None,
        packed_with: Iterable[int] | None = None,
    ) -> None:
        """Change what is given and leave the rest.

        A trial that is (again) pending or running has no failure and no end; a final state gets its time. One
        that goes on keeps the time of its start; one that had ended and is tried again has a new one.
        """
        given = {
            "port": port,
            "member_ports": None if member_ports is None else list(member_ports),
            "unit_name": unit_name,
            "unit_text": unit_text,
            "spec_hash": spec_hash,
            "vllm_version": vllm_version,
            "ready_s": ready_s,
            "effective": effective,
            "packed_with": None if packed_with is None else sorted(packed_with),
        }
        change: dict[str, Any] = {name: storable(item) for name, item in given.items() if item is not None}
        if state is not None:
            change["state"] = state.value
            if state is TrialState.RUNNING:
                # A sweep that goes on finds it begun: measurements of it are older than this moment.
                begun = TRIALS.c.state.in_([one.value for one in OPEN_STATES]) & (TRIALS.c.started_at != "")
                change["started_at"] = case((begun, TRIALS.c.started_at), else_=self.now())
            if state in OPEN_STATES:
                change |= failure_columns(None) | {"ended_at": ""}
            else:
                change["ended_at"] = self.now()
        if failure is not None:
            change |= failure_columns(failure)
        if not change:
            return
        with writing(self._engine, "record the trial") as connection:
            where = (TRIALS.c.run_id == run_id) & (TRIALS.c.number == number)
            if not connection.execute(update(TRIALS).where(where).values(**change)).rowcount:
                raise FleetbenchError(f"run {run_id} has no trial {number}")


class LoanTable(RunTable):
    """Loans: which persistent units gave up their GPUs, and whether they are back."""

    def add_loans(self, run_id: str, loans: Iterable[LoanRow]) -> None:
        """Record units before they are stopped, all or none.

        A unit that is on loan already keeps the state in which it was first found: a resumed run sees it
        stopped, and that is our own doing. One that was given back and is taken again is on loan again.
        """
        with writing(self._engine, "record the loan") as connection:
            self._lock_run(connection, run_id)
            statement = select(LOANS.c.host, LOANS.c.unit).where(LOANS.c.run_id == run_id)
            loans = tuple(loans)
            known = {tuple(row) for row in connection.execute(statement)}
            fresh = [
                {
                    "run_id": run_id,
                    "host": loan.host,
                    "unit": storable(loan.unit),
                    "active_state": storable(loan.active_state),
                    "enabled_state": storable(loan.enabled_state),
                    "spec_hash": storable(loan.spec_hash),
                    "taken_at": self.now(),
                    "returned_at": "",
                    "proof": "",
                }
                for loan in loans
                if (loan.host, loan.unit) not in known
            ]
            if fresh:
                connection.execute(insert(LOANS), fresh)
            for loan in loans:
                where = (LOANS.c.run_id == run_id) & (LOANS.c.host == loan.host) & (LOANS.c.unit == loan.unit)
                again = {"taken_at": self.now(), "returned_at": "", "proof": ""}
                again["active_state"] = storable(loan.active_state)
                connection.execute(update(LOANS).where(where, LOANS.c.returned_at != "").values(**again))

    def return_loan(self, run_id: str, host: str, unit: str, proof: str = "") -> None:
        """Mark a unit as given back; `proof` says what showed that it serves again."""
        where = (LOANS.c.run_id == run_id) & (LOANS.c.host == host) & (LOANS.c.unit == unit)
        change = {"returned_at": self.now(), "proof": storable(proof)}
        with writing(self._engine, "record the loan's return") as connection:
            if not connection.execute(update(LOANS).where(where).values(**change)).rowcount:
                raise FleetbenchError(f"run {run_id} has no loan of {unit}", host=host)

    def loans(self, run_id: str, *, only_open: bool = False) -> tuple[LoanRow, ...]:
        """Return the loans of a run by host and unit; with `only_open` those not yet given back."""
        statement = select(LOANS).where(LOANS.c.run_id == run_id).order_by(LOANS.c.host, LOANS.c.unit)
        if only_open:
            statement = statement.where(LOANS.c.returned_at == "")
        with reading(self._engine, "read the loans") as connection:
            return tuple(loan_of(row) for row in connection.execute(statement).mappings())

    def open_loans(self, host: str) -> tuple[LoanRow, ...]:
        """Return what is on loan from a host over all runs: what a crashed controller left behind."""
        statement = select(LOANS).where(LOANS.c.host == host, LOANS.c.returned_at == "")
        with reading(self._engine, "read the loans") as connection:
            found = connection.execute(statement.order_by(LOANS.c.taken_at, LOANS.c.unit))
            return tuple(loan_of(row) for row in found.mappings())
