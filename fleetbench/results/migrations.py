"""How a database reaches the schema of this code: the migrations of `schema_history`, each applied once.

Both databases roll DDL back with the transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, inspect, select, text

from fleetbench import __version__
from fleetbench.errors import FleetbenchError
from fleetbench.results.schema import SCHEMA_VERSION
from fleetbench.results.schema_history import MIGRATIONS, Migration

# Any number that no other program uses: two controllers that open an empty PostgreSQL database at the same
# time take turns on it. (SQLite: the write transaction itself is the lock.)
ADVISORY_LOCK = 7_305_226_101


_VERSION_TABLE = """
CREATE TABLE schema_version (
  version INTEGER PRIMARY KEY NOT NULL,
  description TEXT NOT NULL,
  applied_at TEXT NOT NULL,
  fleetbench_version TEXT NOT NULL
)
"""


def current_version(connection: Connection) -> int:
    """Return the schema version of the database; 0 for one that fleetbench never wrote to."""
    if not inspect(connection).has_table(SCHEMA_VERSION.name):
        return 0
    return connection.scalar(select(func.max(SCHEMA_VERSION.c.version))) or 0


def check_version(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Return the database's schema version, or refuse one that is newer than this code."""
    found, known = current_version(connection), migrations[-1].version
    if found > known:
        raise FleetbenchError(
            f"the store has schema version {found}, this fleetbench knows versions up to {known}",
            cause="a newer fleetbench has written to it",
            next_step="use that newer fleetbench; nothing was changed",
        )
    return found


def migrate(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> tuple[int, ...]:
    """Given a connection in a write transaction, apply what is missing; return the versions applied.

    The caller commits: either every missing migration is in, or none.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    found = check_version(connection, migrations)
    missing = [migration for migration in migrations if migration.version > found]
    if missing and not inspect(connection).has_table(SCHEMA_VERSION.name):
        connection.exec_driver_sql(_VERSION_TABLE)
    for migration in missing:
        for statement in migration.statements:
            connection.exec_driver_sql(statement)
        connection.execute(
            insert(SCHEMA_VERSION).values(
                version=migration.version,
                description=migration.description,
                applied_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                fleetbench_version=__version__,
            )
        )
    return tuple(migration.version for migration in missing)
