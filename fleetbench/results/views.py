"""The views that `fleetbench query` offers: names and columns that stay while the tables behind them change.

A view is SQL for both databases. Its columns mean what `dictionary` says, under the same names as in CSV.
Pure: this module makes text, `query` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleetbench.results.dictionary import Kind, meaning


class Dialect(StrEnum):
    """A database, by SQLAlchemy's name for it."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view: what a row of it is, its columns as SQL in order, and what it selects from."""

    name: str
    text: str
    columns: Mapping[str, str]
    source: str


def views(dialect: Dialect) -> tuple[View, ...]:
    """Return the views as a database takes them."""
    return (_runs(dialect), _results(dialect), _measurements(dialect), _imported(dialect))


def statement(view: View) -> str:
    """Return the view as a temporary one of a connection, which hides the table of the same name."""
    columns = ", ".join(f"{sql} AS {name}" for name, sql in view.columns.items())
    return f"CREATE TEMPORARY VIEW {view.name} AS SELECT {columns} FROM {view.source}"  # noqa: S608


def _runs(dialect: Dialect) -> View:
    hosts = _joined(dialect, "r.hosts")
    counted = f"(SELECT count(*) FROM {_table(dialect, 'trials')} t WHERE t.run_id = r.id"  # noqa: S608
    return View(
        name="runs",
        text="a run: one `invoke bench` or `invoke sweep`",
        columns={
            "run": "r.id",
            **_plain("r", "kind", "state", "model", "repo", "sweep"),
            "hosts": hosts,
            "trials": f"{counted})",
            "measured": f"{counted} AND t.state = 'measured')",
            **_plain("r", "created_at", "ended_at", "note", "origin", "fleetbench_version"),
        },
        source=f"{_table(dialect, 'runs')} r",
    )


_CONFIG = ("tp", "dp", "pp", "ep", "units", "max_model_len", "build")
_WORKLOAD = (
    *("dataset", "input_len", "output_len", "num_prompts", "max_concurrency", "request_rate"),
    "temperature",
)
# Of documents that are older than the key.
_DEFAULTS = {"tp": "1", "dp": "1", "pp": "1", "units": "1"}


def _settings(dialect: Dialect) -> dict[str, str]:
    """Return what a trial was asked to serve, from its configuration."""
    return {
        **_plain("t", "host", "gpu_name"),
        "configuration": _label(dialect),
        **{name: _key(dialect, "t.config", name) for name in _CONFIG},
        "serve_args": _joined(dialect, "t.config", "serve_args"),
        "gpu_count": " * ".join(_key(dialect, "t.config", name) for name in ("tp", "dp", "pp", "units")),
        "gpus": "t.gpus",
    }


def _results(dialect: Dialect) -> View:
    settings = _settings(dialect)
    settings["gpu"] = settings.pop("gpu_name")
    value, index = _workload_of(dialect)
    metrics = _plain(
        "s",
        *("output_throughput", "output_throughput_min", "output_throughput_max"),
        *("total_token_throughput", "request_throughput"),
        *(f"{p}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for p in ("median", "p99")),
    )
    return View(
        name="results",
        text="a configuration under a workload: one workload of one trial, whatever became of it",
        columns={
            **{"run": "t.run_id", "trial": "t.number", "workload_index": index},
            **_plain("r", "model", "repo"),
            **{name: settings[name] for name in ("host", "gpu", "gpus", "gpu_count", "configuration")},
            **{name: settings[name] for name in (*_CONFIG, "serve_args")},
            **{name: _key(dialect, value, name) for name in _WORKLOAD},
            **_plain("t", "state"),
            **_plain("s", "verdict"),
            "repeats_counted": "coalesce(s.repeats_counted, 0)",
            "repeats_asked": "t.repeats",
            **metrics,
            "output_throughput_per_gpu": f"s.output_throughput / ({settings['gpu_count']})",
            **_plain("t", "failure_kind", "failure_cause", "failure_evidence", "failure_advice"),
            **_plain("t", "vllm_version", "ready_s", "spec_hash", "started_at", "ended_at"),
        },
        source=(
            f"{_table(dialect, 'trials')} t JOIN {_table(dialect, 'runs')} r ON r.id = t.run_id"
            f" {_workloads(dialect)}"
            f" LEFT JOIN {_table(dialect, 'summaries')} s"
            f" ON s.run_id = t.run_id AND s.trial = t.number AND s.workload_index = {index}"
        ),
    )


def _measurements(dialect: Dialect) -> View:
    key = ("trial", "workload_index", "repeat", "kind", "attempt", "seed", "state", "verdict")
    reported = (
        *("completed", "failed", "num_prompts", "max_concurrency", "duration"),
        *("total_input_tokens", "total_output_tokens"),
        *("request_throughput", "request_goodput", "output_throughput", "total_token_throughput"),
        *(
            f"{statistic}_{name}_ms"
            for name in ("ttft", "tpot", "itl", "e2el")
            for statistic in ("mean", "median", "p90", "p95", "p99")
        ),
    )
    return View(
        name="measurements",
        text="one execution of the bench client: repeats, warm-ups and controls, good and bad",
        columns={
            "run": "m.run_id",
            **_plain("m", *key),
            "reasons": _joined(dialect, "m.reasons", between="; "),
            **_plain("m", *reported, "client", "client_program", "client_version", "exit_status"),
            **_plain("m", "started_at", "ended_at", "directory"),
        },
        source=f"{_table(dialect, 'measurements')} m",
    )


def _imported(dialect: Dialect) -> View:
    about = ("tp", "dp", "pp", "units", "max_model_len", "dataset", "input_len", "output_len", "engine")
    result = ("num_prompts", "max_concurrency", "completed", "failed", "duration", "request_throughput")
    latencies = ("median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "mean_e2el_ms")
    return View(
        name="imported",
        text="a row of figures that others measured, judged by the same rules",
        columns={
            "source": "i.source",
            **_plain("i", "position", "table_name", "label", "verdict"),
            **{name: _key(dialect, "i.conditions", name) for name in ("model", "gpu")},
            "gpu_count": _key(dialect, "i.conditions", "gpus", Kind.WHOLE),
            **{name: _key(dialect, "i.conditions", name) for name in about},
            "vllm_version": _key(dialect, "i.conditions", "engine_version", Kind.TEXT),
            **{name: _key(dialect, "i.result", name) for name in result},
            **{
                name: _key(dialect, "i.result", name)
                for name in ("output_throughput", "total_token_throughput")
            },
            **{name: _key(dialect, "i.result", f"latencies.{name}", Kind.REAL) for name in latencies},
            **{name: _key(dialect, "o.provenance", name) for name in ("title", "author", "url")},
            "imported_at": "o.imported_at",
        },
        source=(
            f"{_table(dialect, 'imported_rows')} i JOIN {_table(dialect, 'imports')} o ON o.id = i.source"
        ),
    )


def _table(dialect: Dialect, name: str) -> str:
    """Return a table by the name that still means it where views hide tables of the same name.

    PostgreSQL looks the name up when the view is made, and is told to look among the tables first.
    """
    return f"main.{name}" if dialect is Dialect.SQLITE else name


def _plain(table: str, *names: str) -> dict[str, str]:
    return {name: f"{table}.{name}" for name in names}


def _key(dialect: Dialect, document: str, name: str, kind: Kind | None = None) -> str:
    """Return a value of a JSON document as SQL of its kind; `a.b` is within `a`."""
    known = meaning(name)
    kind = kind or (known.kind if known else Kind.TEXT)
    if dialect is Dialect.SQLITE:
        found = f"json_extract({document}, '$.{name}')"
    else:
        path = name.replace(".", ",")
        cast = {
            Kind.WHOLE: "numeric::bigint",  # what others report may be 100.0
            Kind.REAL: "double precision",
            Kind.FLAG: "boolean",
        }.get(kind, "text")
        found = f"(({document})::json #>> '{{{path}}}')::{cast}"
    if kind is Kind.FLAG:  # SQLite has no yes and no of its own
        return f"CASE WHEN {found} THEN 'yes' ELSE 'no' END"
    default = _DEFAULTS.get(name) if document == "t.config" else None
    return f"coalesce({found}, {default})" if default else found


def _joined(dialect: Dialect, document: str, key: str = "", between: str = " ") -> str:
    """Return a list of texts of a JSON document as one text."""
    if dialect is Dialect.SQLITE:
        place = f"{document}, '$.{key}'" if key else document
        return f"(SELECT coalesce(group_concat(e.value, '{between}'), '') FROM json_each({place}) e)"  # noqa: S608
    place = f"{document}::json -> '{key}'" if key else f"{document}::json"
    found = f"json_array_elements_text({place}) WITH ORDINALITY AS e(value, place)"
    return f"(SELECT coalesce(string_agg(e.value, '{between}' ORDER BY e.place), '') FROM {found})"  # noqa: S608


def _workloads(dialect: Dialect) -> str:
    """Return the join that gives a row for each workload of a trial."""
    if dialect is Dialect.SQLITE:
        return "JOIN json_each(t.workloads) w"
    return "CROSS JOIN LATERAL json_array_elements(t.workloads::json) WITH ORDINALITY AS w(value, place)"


def _workload_of(dialect: Dialect) -> tuple[str, str]:
    """Return the document of a workload and its place, from 0."""
    return ("w.value", "w.key") if dialect is Dialect.SQLITE else ("w.value", "(w.place - 1)")


def _label(dialect: Dialect) -> str:
    """Return `Config.label` as SQL; a test compares both."""
    of = {name: _key(dialect, "t.config", name) for name in (*_CONFIG, "variant")}
    arguments = _joined(dialect, "t.config", "serve_args")
    length = f"CASE WHEN {of['max_model_len']} IS NOT NULL THEN ' len=' || {of['max_model_len']} ELSE '' END"
    named = f"coalesce(nullif({of['variant']}, ''), {arguments})"
    parts = [
        f"'tp=' || {of['tp']}",
        f"' dp=' || {of['dp']}",
        f"CASE WHEN {of['pp']} <> 1 THEN ' pp=' || {of['pp']} ELSE '' END",
        f"CASE WHEN {of['ep']} = 'yes' THEN ' ep' ELSE '' END",
        f"CASE WHEN {of['units']} <> 1 THEN ' units=' || {of['units']} ELSE '' END",
        length,
        f"CASE WHEN {of['build']} <> '' THEN ' build=' || {of['build']} ELSE '' END",
        f"CASE WHEN {named} <> '' THEN ' ' || {named} ELSE '' END",
    ]
    return "(" + " || ".join(parts) + ")"
