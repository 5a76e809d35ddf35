"""The store: what was measured, of what, on what, and what it is worth.

One database (SQLite beside the raw files by default, PostgreSQL by URL) and one directory of raw files. Each
step is committed before it is taken, so that a controller killed at any instant can be started again and
finds out what was going on. Reading order: `rows` (values), `schema` (tables), then the tables' own modules.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import text

from fleetbench.errors import FleetbenchError
from fleetbench.results.database import (
    describe,
    open_engine,
    parse_url,
    reading,
    sqlite_file,
    writing,
)
from fleetbench.results.migrations import check_version, migrate
from fleetbench.results.place import DATABASE_FILE, DATABASE_VARIABLE
from fleetbench.results.place import runs_directory as default_directory
from fleetbench.results.schema_history import MIGRATIONS
from fleetbench.results.store_archives import ArchiveTable
from fleetbench.results.store_imports import ImportTable
from fleetbench.results.store_measurements import MeasurementTable
from fleetbench.results.store_moves import MoveTable
from fleetbench.results.store_runs import Clock, utc_now
from fleetbench.results.store_trials import LoanTable, TrialTable


class Store(TrialTable, MoveTable, MeasurementTable, LoanTable, ImportTable, ArchiveTable):
    """Runs, trials, measurements and loans; and apart from them what was imported.

    Safe to use from several threads and several processes.
    """

    @property
    def location(self) -> str:
        """Where the database is, without its password."""
        return describe(self._engine.url)

    def close(self) -> None:
        """Close the connections; what was written stays."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    url: str | None = None,
    runs_directory: Path | None = None,
    *,
    create: bool = True,
    clock: Clock = utc_now,
) -> Store:
    """Open the store and bring its schema up to date.

    Args:
        url: database; None: FLEETBENCH_DB, else SQLite in the runs directory.
        runs_directory: of the raw files; None: FLEETBENCH_RUNS, else `runs` in the working directory.
        create: make what is missing; False (for commands that only read) refuses where there is no store.
        clock: gives the time; tests set it.

    Errors: FleetbenchError when the directory cannot be written, the database cannot be reached or is newer
    than this code. Nothing is left behind then.
    """
    directory = (runs_directory or default_directory()).absolute()
    location = url or os.environ.get(DATABASE_VARIABLE) or f"sqlite:///{directory / DATABASE_FILE}"
    parsed = parse_url(location)
    file = sqlite_file(parsed)
    if not create:
        if file is not None and not file.is_file():
            raise FleetbenchError(
                f"there is no store at {file}",
                next_step="`invoke bench` or `invoke sweep` makes one, as do `fleetbench runs add FILE` and"
                " `fleetbench import FILE`; FLEETBENCH_RUNS names another place",
            )
        return _opened(location, directory, clock)
    if file is None:
        _reach(location)  # first, so that a wrong URL leaves no directory behind
    made = _make_writable(directory)
    try:
        if file is not None and file.parent != directory:
            made += _make_writable(file.parent)
        return _opened(location, directory, clock)
    except BaseException:
        for path in reversed(made):
            if not any(path.iterdir()):
                path.rmdir()
        raise


def _opened(location: str, directory: Path, clock: Clock) -> Store:
    engine = open_engine(parse_url(location))
    try:
        with reading(engine, "read the store") as connection:
            current = check_version(connection) == MIGRATIONS[-1].version
        if not current:
            with writing(engine, "bring the schema up to date") as connection:
                migrate(connection)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, directory, clock)


def _reach(location: str) -> None:
    engine = open_engine(parse_url(location))
    try:
        with reading(engine, "open the store") as connection:
            connection.execute(text("SELECT 1"))
    finally:
        engine.dispose()


def _make_writable(directory: Path) -> list[Path]:
    """Make a directory and prove that it can be written; return what was made, outermost first."""
    made = [path for path in (directory, *directory.parents) if not path.exists()][::-1]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".fleetbench-"):
            pass
    except OSError as error:
        for path in reversed(made):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise FleetbenchError(
            f"cannot write to {directory}",
            cause=error.strerror or str(error),
            next_step="mend its rights, or set FLEETBENCH_RUNS to a directory that can be written",
        ) from error
    return made
