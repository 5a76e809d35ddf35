"""The tables as they stand today. How a database gets there is in `migrations`; a test compares both.

Keys are natural (a run's id, a trial's number …), so that the same statements work on SQLite and PostgreSQL
and a row can be named without asking the database first.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()

STATISTICS = ("mean", "median", "p90", "p95", "p99")
LATENCIES = ("ttft", "tpot", "itl", "e2el")
LATENCY_COLUMNS = tuple(f"{statistic}_{name}_ms" for name in LATENCIES for statistic in STATISTICS)
WHOLE_COLUMNS = (
    "completed",
    "failed",
    "num_prompts",
    "max_concurrency",
    "total_input_tokens",
    "total_output_tokens",
)
REAL_COLUMNS = (
    "request_rate",
    "duration",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
)
TEXT_COLUMNS = ("model_id", "backend", "date")
# What a summary has the median of: the metrics of the report.
SUMMARY_METRICS = (
    "output_throughput",
    "total_token_throughput",
    "request_throughput",
    *(f"{statistic}_{name}_ms" for name in LATENCIES for statistic in ("median", "p99")),
)


def required_text(name: str) -> Column[str]:
    """Return a text column that is empty rather than NULL."""
    return Column(name, Text, nullable=False, server_default="")


SCHEMA_VERSION = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("description", Text, nullable=False),
    Column("applied_at", Text, nullable=False),
    Column("fleetbench_version", Text, nullable=False),
)

RUNS = Table(
    "runs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("model", Text, nullable=False),
    required_text("repo"),
    required_text("sweep"),
    Column("hosts", JSON, nullable=False),
    Column("arguments", JSON, nullable=False),
    required_text("fingerprint"),
    required_text("controller"),
    required_text("note"),
    required_text("fleetbench_version"),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    required_text("ended_at"),
    required_text("origin"),
    Index("runs_by_work", "kind", "model", "fingerprint"),
    Index("runs_by_time", "created_at", "id"),
)

TRIALS = Table(
    "trials",
    METADATA,
    Column("run_id", Text, ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("gpus", Text, nullable=False),
    Column("port", Integer, nullable=False),
    Column("config", JSON, nullable=False),
    Column("workloads", JSON, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("failure_kind", Text),
    Column("failure_cause", Text),
    Column("failure_evidence", Text),
    Column("failure_advice", Text),
    Column("failure_retryable", Boolean),
    required_text("unit_name"),
    required_text("unit_text"),
    required_text("spec_hash"),
    required_text("vllm_version"),
    Column("ready_s", Double),
    Column("effective", JSON, nullable=False),
    required_text("started_at"),
    required_text("ended_at"),
    Column("predicted", JSON, nullable=False, server_default="{}"),
    Column("packed_with", JSON, nullable=False, server_default="[]"),
    Column("member_ports", JSON, nullable=False, server_default="[]"),
    required_text("gpu_name"),
    Index("trials_by_state", "run_id", "state"),
)

MEASUREMENTS = Table(
    "measurements",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("trial", Integer, primary_key=True, autoincrement=False),
    Column("workload_index", Integer, primary_key=True, autoincrement=False),
    Column("repeat", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("seed", BigInteger, nullable=False),
    Column("unit_name", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    required_text("started_at"),
    required_text("ended_at"),
    Column("exit_status", Integer),
    required_text("directory"),
    Column("verdict", Text),
    Column("reasons", JSON, nullable=False),
    *(Column(name, BigInteger) for name in WHOLE_COLUMNS),
    *(Column(name, Double) for name in REAL_COLUMNS),
    *(Column(name, Text) for name in TEXT_COLUMNS),
    *(Column(name, Double) for name in LATENCY_COLUMNS),
    Column("latencies", JSON, nullable=False),
    Column("extra", JSON, nullable=False),
    required_text("client_program"),
    required_text("client_version"),
    Column("findings", JSON, nullable=False, server_default="[]"),
    Column("telemetry", JSON, nullable=False, server_default="{}"),
    Column("ceiling", JSON, nullable=False, server_default="{}"),
    ForeignKeyConstraint(["run_id", "trial"], ["trials.run_id", "trials.number"]),
    Index("measurements_by_verdict", "kind", "verdict", "output_throughput"),
)

# Follows from the measurements: see `summaries`.
SUMMARIES = Table(
    "summaries",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("trial", Integer, primary_key=True, autoincrement=False),
    Column("workload_index", Integer, primary_key=True, autoincrement=False),
    Column("verdict", Text, nullable=False),
    Column("repeats_counted", Integer, nullable=False),
    *(Column(name, Double) for name in SUMMARY_METRICS),
    Column("output_throughput_min", Double),
    Column("output_throughput_max", Double),
    ForeignKeyConstraint(["run_id", "trial"], ["trials.run_id", "trials.number"]),
)

LOANS = Table(
    "loans",
    METADATA,
    Column("run_id", Text, ForeignKey("runs.id"), primary_key=True),
    Column("host", Text, primary_key=True),
    Column("unit", Text, primary_key=True),
    Column("active_state", Text, nullable=False),
    required_text("enabled_state"),
    required_text("spec_hash"),
    Column("taken_at", Text, nullable=False),
    required_text("returned_at"),
    required_text("proof"),
)

# What others measured. No foreign key leads to or from the tables of own rows.
IMPORTS = Table(
    "imports",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("provenance", JSON, nullable=False),
    Column("imported_at", Text, nullable=False),
    Column("fleetbench_version", Text, nullable=False),
)

IMPORTED_ROWS = Table(
    "imported_rows",
    METADATA,
    Column("source", Text, ForeignKey("imports.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    required_text("table_name"),
    required_text("label"),
    required_text("place"),
    Column("form", Text, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("problems", JSON, nullable=False),
    Column("conditions", JSON, nullable=False),
    Column("result", JSON, nullable=False),
    Column("derived", JSON, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("findings", JSON, nullable=False),
    Column("ceiling", JSON, nullable=False),
)
