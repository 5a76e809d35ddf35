"""How a database reaches the schema of this code: an ordered list of migrations, each applied once.

A migration is frozen text: it says what version N was, whatever `schema` says today. The types used
(TEXT, INTEGER, BIGINT, DOUBLE PRECISION, BOOLEAN, JSON) mean the same on SQLite and PostgreSQL, and both
roll DDL back with the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, inspect, select, text

from fleetbench import __version__
from fleetbench.errors import FleetbenchError
from fleetbench.results.schema import SCHEMA_VERSION

# Any number that no other program uses: two controllers that open an empty PostgreSQL database at the same
# time take turns on it. (SQLite: the write transaction itself is the lock.)
ADVISORY_LOCK = 7_305_226_101


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: its version, what it is for, and its statements in order."""

    version: int
    description: str
    statements: tuple[str, ...]


_LATENCIES_V1 = "".join(
    f"  {statistic}_{name}_ms DOUBLE PRECISION,\n"
    for name in ("ttft", "tpot", "itl", "e2el")
    for statistic in ("mean", "median", "p90", "p95", "p99")
)

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "runs, trials, measurements, loans",
        (
            """
            CREATE TABLE runs (
              id TEXT PRIMARY KEY NOT NULL,
              kind TEXT NOT NULL,
              state TEXT NOT NULL,
              model TEXT NOT NULL,
              repo TEXT NOT NULL DEFAULT '',
              sweep TEXT NOT NULL DEFAULT '',
              hosts JSON NOT NULL,
              arguments JSON NOT NULL,
              fingerprint TEXT NOT NULL DEFAULT '',
              controller TEXT NOT NULL DEFAULT '',
              note TEXT NOT NULL DEFAULT '',
              fleetbench_version TEXT NOT NULL DEFAULT '',
              created_at TEXT NOT NULL,
              updated_at TEXT NOT NULL,
              ended_at TEXT NOT NULL DEFAULT ''
            )
            """,
            "CREATE INDEX runs_by_work ON runs (kind, model, fingerprint)",
            """
            CREATE TABLE trials (
              run_id TEXT NOT NULL REFERENCES runs (id),
              number INTEGER NOT NULL,
              host TEXT NOT NULL,
              gpus TEXT NOT NULL,
              port INTEGER NOT NULL,
              config JSON NOT NULL,
              workloads JSON NOT NULL,
              repeats INTEGER NOT NULL,
              state TEXT NOT NULL,
              failure_kind TEXT,
              failure_cause TEXT,
              failure_evidence TEXT,
              failure_advice TEXT,
              failure_retryable BOOLEAN,
              unit_name TEXT NOT NULL DEFAULT '',
              unit_text TEXT NOT NULL DEFAULT '',
              spec_hash TEXT NOT NULL DEFAULT '',
              vllm_version TEXT NOT NULL DEFAULT '',
              ready_s DOUBLE PRECISION,
              effective JSON NOT NULL,
              started_at TEXT NOT NULL DEFAULT '',
              ended_at TEXT NOT NULL DEFAULT '',
              PRIMARY KEY (run_id, number)
            )
            """,
            f"""
            CREATE TABLE measurements (
              run_id TEXT NOT NULL,
              trial INTEGER NOT NULL,
              workload_index INTEGER NOT NULL,
              repeat INTEGER NOT NULL,
              kind TEXT NOT NULL,
              seed BIGINT NOT NULL,
              unit_name TEXT NOT NULL,
              client TEXT NOT NULL,
              state TEXT NOT NULL,
              attempt INTEGER NOT NULL,
              started_at TEXT NOT NULL DEFAULT '',
              ended_at TEXT NOT NULL DEFAULT '',
              exit_status INTEGER,
              directory TEXT NOT NULL DEFAULT '',
              verdict TEXT,
              reasons JSON NOT NULL,
              completed BIGINT,
              failed BIGINT,
              num_prompts BIGINT,
              max_concurrency BIGINT,
              total_input_tokens BIGINT,
              total_output_tokens BIGINT,
              request_rate DOUBLE PRECISION,
              duration DOUBLE PRECISION,
              request_throughput DOUBLE PRECISION,
              request_goodput DOUBLE PRECISION,
              output_throughput DOUBLE PRECISION,
              total_token_throughput DOUBLE PRECISION,
              max_output_tokens_per_s DOUBLE PRECISION,
              max_concurrent_requests DOUBLE PRECISION,
              model_id TEXT,
              backend TEXT,
              date TEXT,
            {_LATENCIES_V1}
              latencies JSON NOT NULL,
              extra JSON NOT NULL,
              PRIMARY KEY (run_id, trial, workload_index, repeat, kind),
              FOREIGN KEY (run_id, trial) REFERENCES trials (run_id, number)
            )
            """,
            """
            CREATE TABLE loans (
              run_id TEXT NOT NULL REFERENCES runs (id),
              host TEXT NOT NULL,
              unit TEXT NOT NULL,
              active_state TEXT NOT NULL,
              enabled_state TEXT NOT NULL DEFAULT '',
              spec_hash TEXT NOT NULL DEFAULT '',
              taken_at TEXT NOT NULL,
              returned_at TEXT NOT NULL DEFAULT '',
              proof TEXT NOT NULL DEFAULT '',
              PRIMARY KEY (run_id, host, unit)
            )
            """,
        ),
    ),
    Migration(
        2,
        "which bench client measured",
        (
            "ALTER TABLE measurements ADD COLUMN client_program TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE measurements ADD COLUMN client_version TEXT NOT NULL DEFAULT ''",
        ),
    ),
    Migration(
        3,
        "what the planner predicts of a trial",
        ("ALTER TABLE trials ADD COLUMN predicted JSON NOT NULL DEFAULT '{}'",),
    ),
    Migration(
        4,
        "trials that were measured beside a trial",
        ("ALTER TABLE trials ADD COLUMN packed_with JSON NOT NULL DEFAULT '[]'",),
    ),
    Migration(
        5,
        "ports of the servers behind a trial's balancer",
        ("ALTER TABLE trials ADD COLUMN member_ports JSON NOT NULL DEFAULT '[]'",),
    ),
    Migration(
        6,
        "what a measurement's rules found, what was sampled while it ran, its share of the ceiling",
        (
            "ALTER TABLE measurements ADD COLUMN findings JSON NOT NULL DEFAULT '[]'",
            "ALTER TABLE measurements ADD COLUMN telemetry JSON NOT NULL DEFAULT '{}'",
            "ALTER TABLE measurements ADD COLUMN ceiling JSON NOT NULL DEFAULT '{}'",
        ),
    ),
    Migration(
        7,
        "figures that were imported, apart from own rows",
        (
            """
            CREATE TABLE imports (
              id TEXT PRIMARY KEY NOT NULL,
              name TEXT NOT NULL,
              sha256 TEXT NOT NULL,
              provenance JSON NOT NULL,
              imported_at TEXT NOT NULL,
              fleetbench_version TEXT NOT NULL
            )
            """,
            """
            CREATE TABLE imported_rows (
              source TEXT NOT NULL REFERENCES imports (id),
              position INTEGER NOT NULL,
              table_name TEXT NOT NULL DEFAULT '',
              label TEXT NOT NULL DEFAULT '',
              place TEXT NOT NULL DEFAULT '',
              form TEXT NOT NULL,
              complete BOOLEAN NOT NULL,
              problems JSON NOT NULL,
              conditions JSON NOT NULL,
              result JSON NOT NULL,
              derived JSON NOT NULL,
              verdict TEXT NOT NULL,
              findings JSON NOT NULL,
              ceiling JSON NOT NULL,
              PRIMARY KEY (source, position)
            )
            """,
        ),
    ),
    Migration(
        8,
        "what the GPUs of a trial's host are called",
        ("ALTER TABLE trials ADD COLUMN gpu_name TEXT NOT NULL DEFAULT ''",),
    ),
    Migration(
        9,
        "where a run comes from that was added from an archive",
        ("ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT ''",),
    ),
)

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
