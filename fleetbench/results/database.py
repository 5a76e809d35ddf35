"""Opening the database and talking to it in transactions; every failure becomes one that can be acted on.

SQLite needs care that SQLAlchemy does not take: the driver's own transaction handling is switched off, and a
transaction that will write takes the write lock at its start (BEGIN IMMEDIATE). One that began as a reader
and then writes would fail at once with "database is locked", whatever the busy timeout says.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from fleetbench.errors import FleetbenchError, UsageError, one_line, without_secrets
from fleetbench.results.place import log_of, rests

BUSY_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_S = 10
WRITES = "fleetbench_writes"
_COPY = "copy the directory to where it can be written, and name the copy in FLEETBENCH_RUNS"
_MEND = "move the file away, or restore it from a copy; the raw files of each run are still there"
# What to do, by what the database says.
_NEXT_STEPS = {
    "already exists": "another program's tables are there: give fleetbench a database of its own"
    " (FLEETBENCH_DB)",
    "is not a database": _MEND,
    "malformed": _MEND,
    "locked": "another process holds the database; wait for it to end and run the command again",
    "full": "make room on the disk, then run the command again: it goes on where it stopped",
    "readonly": f"nothing can be written there: {_COPY}",
}


def parse_url(text: str) -> URL:
    """Given the text of FLEETBENCH_DB, return a URL with its driver, or say what can be given."""
    example = "sqlite:///runs/fleetbench.sqlite or postgresql://user@host/database"
    try:
        url = make_url(text)
    except ArgumentError:
        # The text may hold a password: it is not repeated.
        raise UsageError(
            "FLEETBENCH_DB is not a database URL", next_step=f"set it to something like {example}"
        ) from None
    backend = url.drivername.partition("+")[0]
    if backend == "sqlite":
        return url.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError(
        f"FLEETBENCH_DB names a database that is not supported: {one_line(backend, 40)}",
        next_step=f"use {example}",
    )


def describe(url: URL) -> str:
    """Return the URL as an operator may see it: without the password, which may stand among its options."""
    return without_secrets(url.render_as_string(hide_password=True))


def sqlite_file(url: URL) -> Path | None:
    """Return the file of a SQLite URL; None for PostgreSQL and for a database in memory."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(url.database or "")


def open_engine(url: URL) -> Engine:
    """Given a parsed URL, return an engine; nothing is connected yet."""
    sqlite = url.get_backend_name() == "sqlite"
    arguments: dict[str, Any] = (
        {"timeout": BUSY_TIMEOUT_MS / 1000} if sqlite else {"connect_timeout": CONNECT_TIMEOUT_S}
    )
    try:
        engine = create_engine(
            url,
            connect_args=arguments,
            # A sweep leaves its connection idle for longer than some firewalls keep one.
            pool_pre_ping=not sqlite,
            json_serializer=to_json,
        )
    except (ImportError, NoSuchModuleError) as error:
        raise FleetbenchError(
            f"cannot use {describe(url)}",
            cause=str(error),
            next_step="pip install 'fleetbench[postgresql]'",
        ) from error
    if sqlite:
        event.listen(engine, "do_connect", _read_at_rest)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def to_json(value: object) -> str:
    """Return JSON text that both databases take: no NaN or infinity, keys in order."""
    return json.dumps(_finite(value), sort_keys=True, allow_nan=False)


@contextmanager
def reading(engine: Engine, what: str) -> Iterator[Connection]:
    """Yield a connection for queries; `what` completes "cannot …" should it fail."""
    with _explained(engine, what), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine, what: str) -> Iterator[Connection]:
    """Yield a connection in a transaction that is committed at the end, or rolled back on any error."""
    with (
        _explained(engine, what),
        engine.connect().execution_options(**{WRITES: True}) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def _explained(engine: Engine, what: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OverflowError, UnicodeError) as error:
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        raise FleetbenchError(
            f"cannot {what} in {describe(engine.url)}", cause=cause, next_step=_next_step(engine, cause)
        ) from error


def _next_step(engine: Engine, cause: str) -> str:
    file = sqlite_file(engine.url)
    if "unable to open" in cause and file is not None and log_of(file).is_file():
        return f"its last writes are in {log_of(file).name}, which cannot be read there: {_COPY}"
    known = (what for words, what in _NEXT_STEPS.items() if words in cause)
    if engine.dialect.name == "postgresql":
        return next(
            known, "check that the server runs and FLEETBENCH_DB is right, then run the command again"
        )
    rights = "check path and rights of the file (FLEETBENCH_RUNS, FLEETBENCH_DB), then run the command again"
    return next(known, rights)


def _read_at_rest(_dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]) -> None:
    """Open a file as one that does not change where that is the only way to read it."""
    path = Path(arguments[0])
    if rests(path):
        arguments[0], options["uri"] = f"{path.absolute().as_uri()}?mode=ro&immutable=1", True


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions are ours, see _begin_sqlite
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA foreign_keys = ON")
    _use_wal(cursor)
    # A committed step must survive a power cut: it says what was started on a host.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Switch to write-ahead logging, so that a report can read while a sweep writes.

    SQLite does not wait (busy timeout or not) when two processes switch a new file at the same time; the
    mode is a property of the file, so it is enough that one of them gets through.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        if cursor.execute("PRAGMA journal_mode").fetchone()[0] in ("wal", "memory"):
            return
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "readonly" in str(error):
                return  # nothing will be written; a write that is tried says so itself
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return  # a file that is taken for unchanging keeps its mode, and that is no error


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
