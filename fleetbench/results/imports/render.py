"""Imported rows for people and programs: one object for each row, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetbench.errors import one_line
from fleetbench.results.imports.values import (
    Conditions,
    ForeignRow,
    ImportedRow,
    ImportedSource,
    Provenance,
    Source,
)
from fleetbench.results.rows import Finding, Json, Verdict, as_json
from fleetbench.results.rules.table import rule_table

SOURCE_COLUMNS = ("source", "rows", "valid", "suspect", "invalid", "title", "author", "imported", "sha256")
COLUMNS = (
    "table",
    "row",
    "split",
    "c",
    "out tok/s",
    "of ceiling %",
    "E2EL s",
    "ok",
    "failed",
    "verdict",
    "rules",
    "first reason",
)


def documents(source: Source | ImportedSource, rows: Iterable[ImportedRow]) -> list[dict[str, Json]]:
    """Given a source and its rows, return one object for each row, ready for JSON."""
    about = _said(source.provenance)
    return [
        {
            "source": source.id,
            "sha256": source.sha256,
            "position": found.position,
            "provenance": about,
            "table": found.row.table,
            "label": found.row.label,
            "place": found.row.place,
            "format": found.row.form,
            "conditions": _said(found.row.conditions),
            "result": as_json(found.row.result),
            "derived": as_json(found.row.derived),
            "complete": found.row.complete,
            "problems": as_json(found.row.problems),
            "ceiling": as_json(found.ceiling),
            "verdict": found.verdict.value,
            "findings": [finding_object(finding) for finding in found.findings],
        }
        for found in rows
    ]


def finding_object(finding: Finding) -> dict[str, Json]:
    """Return a finding with what the table of rules says of its rule."""
    try:
        rule = rule_table().rule(finding.rule)
    except KeyError:  # kept by a later or earlier fleetbench
        rule = None
    return {
        "rule": finding.rule,
        "severity": finding.verdict.value,
        "text": finding.text,
        "title": rule.title if rule else "",
        "explanation": rule.explanation if rule else "",
        "action": rule.action if rule else "",
        "numbers": as_json(finding.numbers),
    }


def _said(value: Provenance | Conditions) -> Json:
    """Only what is said: the rest would be a page of nothing."""
    document = as_json(value)
    if not isinstance(document, dict):
        return document
    return {name: item for name, item in document.items() if item not in ("", None)}


def table_rows(rows: Iterable[ImportedRow]) -> list[tuple[object, ...]]:
    """Given rows, return their cells under `COLUMNS`."""
    return [_cells(found) for found in rows]


def source_rows(sources: Iterable[ImportedSource]) -> list[tuple[object, ...]]:
    """Given sources, return their cells under `SOURCE_COLUMNS`."""
    return [
        (
            *(source.id, source.rows),
            *(source.verdicts.get(name, 0) for name in ("valid", "suspect", "invalid")),
            *(one_line(source.provenance.title, 80) or None, one_line(source.provenance.author, 60) or None),
            *(source.imported_at, source.sha256[:12]),
        )
        for source in sources
    ]


def _cells(found: ImportedRow) -> tuple[object, ...]:
    result = found.row.result
    latency = result.latencies.get("mean_e2el_ms")
    concurrency = result.max_concurrency
    return (
        one_line(found.row.table, 60) or None,
        one_line(found.row.label, 40) or one_line(found.row.place, 60),
        split(found.row),
        concurrency,
        result.output_throughput,
        found.ceiling.get("of_ceiling_percent"),
        None if latency is None else latency / 1000,
        result.completed,
        result.failed,
        found.verdict.value,
        " ".join(rules_of(found)) or None,
        one_line(found.findings[0].text, 160) if found.findings else None,
    )


def rules_of(found: ImportedRow) -> tuple[str, ...]:
    """Return the rules that speak against a row, the worst first; remarks are not among them."""
    against = (finding.rule for finding in found.findings if finding.verdict is not Verdict.VALID)
    return tuple(dict.fromkeys(against))


def split(row: ForeignRow) -> str | None:
    """Return how the model is split, as far as it is said: `tp=2 pp=1`."""
    sizes = ((name, getattr(row.conditions, name)) for name in ("tp", "dp", "pp", "units"))
    return " ".join(f"{name}={size}" for name, size in sizes if size is not None) or None


def counted(rows: Sequence[ImportedRow]) -> str:
    """Return how many rows are what: `88 rows: 12 valid, 60 suspect, 16 invalid`."""
    verdicts = [found.verdict.value for found in rows]
    parts = [f"{verdicts.count(name)} {name}" for name in ("valid", "suspect", "invalid") if name in verdicts]
    return f"{len(rows)} rows: {', '.join(parts)}" if rows else "no rows"
