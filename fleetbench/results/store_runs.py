"""Runs in the store: made, found again, moved from state to state."""

from __future__ import annotations

import difflib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select, update

from fleetbench import __version__
from fleetbench.errors import FleetbenchError, NotPossible, UsageError, one_line
from fleetbench.model import Trial
from fleetbench.results.controllers import lives_here, this_controller
from fleetbench.results.database import reading, writing
from fleetbench.results.records import planned, run_of, storable
from fleetbench.results.rows import NOTHING, UNFINISHED, Json, RunKind, RunRow, RunState
from fleetbench.results.schema import RUNS, TRIALS

RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9-]{1,40}-[0-9a-f]{4}")
SLUG_LENGTH = 32
LATEST = "latest"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def slug(name: str) -> str:
    """Given any model name, return the part of it that is safe in ids, paths and unit names.

    The last part of a path or repository counts: `Qwen/Qwen3-Coder` becomes `qwen3-coder`.
    """
    tail = name.rstrip("/").rpartition("/")[2]
    found = "-".join(re.findall(r"[a-z0-9]+", tail.lower()))[:SLUG_LENGTH].strip("-")
    return found or "model"


class RunTable:
    """Runs: one row and one directory each."""

    def __init__(self, engine: Engine, runs_directory: Path, clock: Clock = utc_now) -> None:
        self._engine = engine
        self.runs_directory = runs_directory
        self._clock = clock

    def now(self) -> str:
        """Return the time now as the store writes it."""
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def directory(self, run_id: str) -> Path:
        """Return the directory of a run's raw files; a run id that leads elsewhere is refused."""
        if RUN_ID.fullmatch(run_id) is None:
            raise FleetbenchError(
                f"not a run id: {one_line(run_id, 60)}", next_step="list them with `fleetbench runs`"
            )
        return self.runs_directory / run_id

    def create_run(
        self,
        *,
        kind: RunKind,
        model: str,
        hosts: Iterable[str],
        repo: str = "",
        sweep: str = "",
        arguments: Mapping[str, Json] = NOTHING,
        fingerprint: str = "",
        trials: Iterable[Trial] = (),
    ) -> RunRow:
        """Make a run in state `running`: its directory first, then its row and its trials, all or none.

        Returns the row.
        """
        run_id, directory = self._new_directory(model)
        now = self.now()
        row = {
            "id": run_id,
            "kind": kind.value,
            "state": RunState.RUNNING.value,
            "hosts": storable(list(hosts)),
            "arguments": storable(arguments),
            "model": storable(model),
            "repo": storable(repo),
            "sweep": storable(sweep),
            "fingerprint": fingerprint,
            "controller": this_controller(),
            "note": "",
            "fleetbench_version": __version__,
            "created_at": now,
            "updated_at": now,
            "ended_at": "",
            "origin": "",
        }
        try:
            with writing(self._engine, "record the run") as connection:
                connection.execute(insert(RUNS).values(**row))
                if rows := [planned(run_id, trial, now) for trial in trials]:
                    connection.execute(insert(TRIALS), rows)
        except BaseException:
            directory.rmdir()
            raise
        return run_of(row)

    def set_run_state(self, run_id: str, state: RunState, note: str = "") -> None:
        """Move a run to a state, with one sentence that says why; a final state gets an end time."""
        now = self.now()
        change = {
            "state": state.value,
            "note": storable(note),
            "updated_at": now,
            "ended_at": "" if state in UNFINISHED else now,
        }
        with writing(self._engine, "record the run's state") as connection:
            changed = connection.execute(
                update(RUNS).where(RUNS.c.id == storable(run_id)).values(**change)
            ).rowcount
        if not changed:
            self._unknown(run_id)

    def claim_run(self, run_id: str) -> RunRow:
        """Take over an unfinished run: it is running again, in this process; return its row.

        NotPossible when a process of this machine works on it. What one on another machine does is not
        known here; the leases of the hosts tell.
        """
        change = {
            "state": RunState.RUNNING.value,
            "controller": this_controller(),
            "updated_at": self.now(),
            "ended_at": "",
        }
        with writing(self._engine, "take over the run") as connection:
            self._lock_run(connection, run_id)
            where = RUNS.c.id == storable(run_id)
            before = run_of(connection.execute(select(RUNS).where(where)).mappings().one())
            if before.state is RunState.RUNNING and lives_here(before.controller):
                raise NotPossible(
                    f"run {run_id} is being worked on",
                    cause=f"by process {before.controller.split(':')[1]} of this machine",
                    next_step="wait for it, or end it with Ctrl-C: it gives back what it borrowed",
                )
            connection.execute(update(RUNS).where(where).values(**change))
        return self.run(run_id)

    def runs(self, most: int | None = None) -> tuple[RunRow, ...]:
        """Return all runs, or at most so many of them, the newest first."""
        statement = select(RUNS).order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc()).limit(most)
        with reading(self._engine, "list the runs") as connection:
            found = connection.execute(statement)
            return tuple(run_of(row) for row in found.mappings())

    def run(self, name: str) -> RunRow:
        """Given a run's id, the beginning of one that fits no other, or `latest`, return the run."""
        statement = select(RUNS).order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc())
        if name != LATEST:
            statement = statement.where(RUNS.c.id.startswith(storable(name), autoescape=True))
        with reading(self._engine, "find the run") as connection:
            found = [run_of(row) for row in connection.execute(statement.limit(6)).mappings()]
        exact = [row for row in found if row.id == name]
        if exact or (found and (name == LATEST or (name and len(found) == 1))):
            return (exact or found)[0]
        if not found or not name:
            self._unknown(name)
        more = ", …" if len(found) > 5 else ""
        raise UsageError(
            f"more than one run begins with {one_line(name, 60)!r}",
            cause="it fits " + ", ".join(row.id for row in found[:5]) + more,
            next_step="give more of the id",
        )

    def find_unfinished(
        self, *, kind: RunKind, hosts: Iterable[str], model: str, fingerprint: str
    ) -> RunRow | None:
        """Return the newest unfinished run of the same work on the same hosts (in any order), or None."""
        statement = (
            select(RUNS)
            .where(
                RUNS.c.kind == kind.value,
                RUNS.c.model == storable(model),
                RUNS.c.fingerprint == fingerprint,
                RUNS.c.state.in_([state.value for state in UNFINISHED]),
            )
            .order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc())
        )
        wanted = set(storable(list(hosts)))
        with reading(self._engine, "look for an unfinished run") as connection:
            found = (run_of(row) for row in connection.execute(statement).mappings())
            return next((row for row in found if set(row.hosts) == wanted), None)

    @staticmethod
    def _lock_run(connection: Connection, run_id: str) -> None:
        """Keep other writers off a run until the transaction ends (SQLite: it does so from its start)."""
        statement = select(RUNS.c.id).where(RUNS.c.id == storable(run_id)).with_for_update()
        if connection.scalar(statement) is None:
            raise UsageError(f"no run {one_line(run_id, 60)!r}", next_step="list them with `fleetbench runs`")

    def _new_directory(self, model: str) -> tuple[str, Path]:
        stamp = self._clock().strftime("%Y%m%d-%H%M%S")
        while True:
            run_id = f"{stamp}-{slug(model)}-{secrets.token_hex(2)}"
            directory = self.directory(run_id)
            try:
                directory.mkdir()
            except FileExistsError:
                continue  # two runs in one second and one of 65536 endings: draw again
            except OSError as error:
                raise FleetbenchError(
                    f"cannot make the run's directory {directory}",
                    cause=error.strerror or str(error),
                    next_step="make room or mend the rights, or set FLEETBENCH_RUNS to another directory",
                ) from error
            return run_id, directory

    def _unknown(self, name: str) -> None:
        ids = [row.id for row in self.runs()]
        if not ids:
            raise NotPossible(
                "there is no run yet",
                next_step="`invoke bench` makes one, `fleetbench runs add FILE` adds one",
            )
        near = [run_id for run_id in ids if name and name.lower() in run_id]
        near += difflib.get_close_matches(name[:100], [LATEST, *ids], n=3, cutoff=0.5)
        near = list(dict.fromkeys(near))[:3]
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(
            f"no run {one_line(name, 60)!r}",
            next_step=f"{meant}All are listed by `fleetbench runs`",
        )
