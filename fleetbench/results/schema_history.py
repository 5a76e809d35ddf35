"""What each version of the schema brought, in order. Frozen text: whatever `schema` says today, version N was
this. The types used (TEXT, INTEGER, BIGINT, DOUBLE PRECISION, BOOLEAN, JSON) mean the same on SQLite and
PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass


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

_METRICS_V10 = (
    *("output_throughput", "total_token_throughput", "request_throughput"),
    *(
        f"{statistic}_{name}_ms"
        for name in ("ttft", "tpot", "itl", "e2el")
        for statistic in ("median", "p99")
    ),
)


def _median_v10(metric: str) -> str:
    """Return the median of the repeats that count, for the row `s` of the outer query."""
    return (
        f"(SELECT avg(x) FROM (SELECT m.{metric} AS x, row_number() OVER (ORDER BY m.{metric}) AS place,"  # noqa: S608
        " count(*) OVER () AS n FROM measurements m WHERE m.run_id = s.run_id AND m.trial = s.trial"
        " AND m.workload_index = s.workload_index AND m.kind = 'measure' AND m.state = 'finished'"
        f" AND m.verdict = s.verdict AND m.{metric} IS NOT NULL) AS counted"
        " WHERE place IN ((n + 1) / 2, (n + 2) / 2))"
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
    Migration(
        10,
        "what the repeats of a workload came to, and indexes, for queries over many runs",
        (
            f"""
            CREATE TABLE summaries (
              run_id TEXT NOT NULL,
              trial INTEGER NOT NULL,
              workload_index INTEGER NOT NULL,
              verdict TEXT NOT NULL,
              repeats_counted INTEGER NOT NULL,
              {"".join(f"{metric} DOUBLE PRECISION, " for metric in _METRICS_V10)}
              output_throughput_min DOUBLE PRECISION,
              output_throughput_max DOUBLE PRECISION,
              PRIMARY KEY (run_id, trial, workload_index),
              FOREIGN KEY (run_id, trial) REFERENCES trials (run_id, number)
            )
            """,
            """
            INSERT INTO summaries (run_id, trial, workload_index, verdict, repeats_counted,
              output_throughput_min, output_throughput_max)
            SELECT run_id, trial, workload_index, verdict,
              sum(CASE WHEN verdict <> 'invalid' THEN 1 ELSE 0 END),
              min(CASE WHEN verdict <> 'invalid' THEN output_throughput END),
              max(CASE WHEN verdict <> 'invalid' THEN output_throughput END)
            FROM measurements m
            WHERE kind = 'measure' AND state = 'finished'
              AND NOT EXISTS (
                SELECT 1 FROM measurements o WHERE o.run_id = m.run_id AND o.trial = m.trial
                  AND o.workload_index = m.workload_index AND o.kind = 'measure' AND o.state = 'finished'
                  AND (o.verdict = 'valid' AND m.verdict <> 'valid'
                    OR o.verdict = 'suspect' AND m.verdict = 'invalid')
              )
            GROUP BY run_id, trial, workload_index, verdict
            """,
            "UPDATE summaries AS s SET "  # noqa: S608  names from above
            + ", ".join(f"{metric} = {_median_v10(metric)}" for metric in _METRICS_V10)
            + " WHERE verdict <> 'invalid'",
            "CREATE INDEX runs_by_time ON runs (created_at, id)",
            "CREATE INDEX trials_by_state ON trials (run_id, state)",
            "CREATE INDEX measurements_by_verdict ON measurements (kind, verdict, output_throughput)",
        ),
    ),
)
