"""SQL of a user over the views of the store: one statement, read only, in bounded time.

SQLAlchemy is left out on purpose: loading it takes longer than most queries.
"""

from __future__ import annotations

import difflib
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetbench.errors import FleetbenchError, UsageError, one_line
from fleetbench.results.place import DATABASE_VARIABLE, rests, store_place
from fleetbench.results.schema_history import MIGRATIONS
from fleetbench.results.views import Dialect, View, statement, views

DEFAULT_LIMIT_S = 60.0
MOST_ROWS = 1_000_000
_TICK = 10_000  # steps of SQLite's machine between two looks at the clock
# What a statement may do, by SQLite's authorizer: read, and call functions. Everything else is refused when
# the statement is compiled: ATTACH and PRAGMA are no writing and would pass query_only.
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
_NO_COLUMN = re.compile(r"no such column: (\S+)|column \"?([\w.]+)\"? does not exist")
_NO_TABLE = re.compile(r"no such table: (\S+)|relation \"([\w.]+)\" does not exist")


@dataclass(frozen=True, slots=True)
class Answer:
    """Column names and rows of a query, in its order; `cut` when there were more rows than asked for."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool = False


def ask(sql: str, *, limit_s: float = DEFAULT_LIMIT_S, most_rows: int = MOST_ROWS) -> Answer:
    """Given one SELECT over the views, return its answer, from the store that the environment names.

    Errors: UsageError for SQL that is wrong (with the nearest right name), writes, or is more than one
    statement; FleetbenchError where the store cannot be read or the time is over.
    """
    if not sql.strip().rstrip(";"):
        raise UsageError("the query is empty", next_step='fleetbench query "select * from results limit 5"')
    if (path := sqlite_store()) is not None:
        return _ask_sqlite(path, sql, limit_s, most_rows)
    return _ask_postgresql(sql, limit_s, most_rows)


def sqlite_store() -> Path | None:
    """Return the file of the store that the environment names; None when it is on PostgreSQL.

    A store of an older schema is brought up to date first, as every command does.
    """
    url, directory = store_place()
    if url and not url.startswith("sqlite:///"):
        return None
    path = Path(url.removeprefix("sqlite:///")) if url else directory
    if not path.is_file() or not _is_current(path):
        from fleetbench.results.store import open_store

        open_store(create=False).close()  # says what is wrong with a store that is not there
    return path


def _is_current(path: Path) -> bool:
    try:
        with closing(_read_only(path)) as connection:
            found = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    except sqlite3.Error:
        return False
    return bool(found[0] == MIGRATIONS[-1].version)


def _read_only(path: Path) -> sqlite3.Connection:
    options = "mode=ro&immutable=1" if rests(path) else "mode=ro"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)


def _ask_sqlite(path: Path, sql: str, limit_s: float, most_rows: int) -> Answer:
    deadline = time.monotonic() + limit_s
    known = views(Dialect.SQLITE)
    try:
        with closing(_read_only(path)) as connection:
            for view in known:
                connection.execute(statement(view))
            # SQLite makes these tables when they are first used, which the authorizer would refuse.
            connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
            connection.execute("PRAGMA query_only = ON")
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _TICK)
            connection.set_authorizer(_authorized)
            with _explained(known, limit_s, sqlite3.Error, sqlite3.Warning, ValueError):
                cursor = connection.execute(sql)
                return _answer(cursor, most_rows)
    except sqlite3.Error as exc:
        raise FleetbenchError(
            f"cannot read the store {path}", cause=str(exc), next_step="check the file and its rights"
        ) from exc


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    loads = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if action in _ALLOWED and not loads else sqlite3.SQLITE_DENY


def _ask_postgresql(sql: str, limit_s: float, most_rows: int) -> Answer:
    from sqlalchemy.exc import SQLAlchemyError

    from fleetbench.results.database import parse_url
    from fleetbench.results.store import open_store

    open_store(create=False).close()  # brings the schema up to date, and says what is wrong with the URL
    import psycopg

    try:
        url = parse_url(os.environ[DATABASE_VARIABLE]).set(drivername="postgresql")
    except SQLAlchemyError as exc:
        raise UsageError(f"{DATABASE_VARIABLE} cannot be used", cause=str(exc)) from exc
    known = views(Dialect.POSTGRESQL)
    with closing(psycopg.connect(url.render_as_string(hide_password=False))) as connection:
        look_up = "SELECT set_config('search_path', %s, true)"
        found = connection.execute("SHOW search_path").fetchone()
        path = str(found[0]) if found else "public"
        connection.execute(look_up, (f"{path}, pg_temp",))  # the tables first, while views are made of them
        for view in known:
            connection.execute(statement(view).encode())
        connection.execute(look_up, (path,))
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (str(int(limit_s * 1000)),))
        connection.execute("SET TRANSACTION READ ONLY")
        with _explained(known, limit_s, psycopg.Error):
            # Prepared: the server takes one statement then, whatever stands behind a semicolon.
            cursor = connection.execute(sql.encode(), prepare=True)
            return _answer(cursor, most_rows)


def _answer(cursor: Any, most_rows: int) -> Answer:
    if cursor.description is None:
        raise UsageError("the query returns no rows", next_step="begin it with select")
    rows = cursor.fetchmany(most_rows + 1)
    columns = tuple(str(each[0]) for each in cursor.description)
    return Answer(columns, tuple(map(tuple, rows[:most_rows])), cut=len(rows) > most_rows)


@contextmanager
def _explained(known: tuple[View, ...], limit_s: float, *kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kinds as exc:
        said = one_line(str(exc), 300)
        if re.search(r"interrupted|statement timeout|canceling statement", said):
            raise FleetbenchError(
                f"the query took longer than {limit_s:g} s and was ended",
                next_step="narrow it with where, or give more time with --timeout",
            ) from exc
        raise UsageError("the query cannot be run", cause=_cause(said), next_step=_next(said, known)) from exc


def _cause(said: str) -> str:
    if re.search(r"not authorized|prohibited|readonly|read-only|cannot modify", said):
        return "it does more than read, and a query only reads"
    if re.search(r"one statement|multiple commands", said):
        return "it is more than one statement"
    return said


def _next(said: str, known: tuple[View, ...]) -> str:
    columns = list(dict.fromkeys(name for view in known for name in view.columns))
    schema = "all columns: fleetbench query --schema"
    for pattern, names, noun in (
        (_NO_COLUMN, columns, "column"),
        (_NO_TABLE, [view.name for view in known], "view"),
    ):
        if match := pattern.search(said):
            asked = next(filter(None, match.groups())).rpartition(".")[2].strip('"')
            near = difflib.get_close_matches(asked.lower(), names, n=2, cutoff=0.5)
            where = [f"{name} ({', '.join(v.name for v in known if name in v.columns)})" for name in near]
            shown = where if noun == "column" else near
            return f"did you mean {' or '.join(shown)}? {schema}" if shown else schema
    return schema
