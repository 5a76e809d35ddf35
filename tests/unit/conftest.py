"""Fixtures shared by unit tests: databases to store into."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgresql_server import running_server, why_not

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[], str]]:
    """A function that makes an empty PostgreSQL database and returns its URL."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    import psycopg

    with running_server() as url:

        def new_database() -> str:
            name = f"test_{next(_numbers)}"
            with psycopg.connect(url.format(database="postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
            return url.format(database=name)

        yield new_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once for each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    new_database: Callable[[], str] = request.getfixturevalue("postgresql")
    return new_database()
