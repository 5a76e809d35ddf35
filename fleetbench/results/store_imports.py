"""Imported figures in the store: tables of their own, so that no query over own rows ever meets one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from sqlalchemy import delete, func, insert, select

from fleetbench import __version__
from fleetbench.errors import UsageError, one_line
from fleetbench.results.database import reading, writing
from fleetbench.results.imports.values import (
    Conditions,
    ForeignRow,
    ImportedRow,
    ImportedSource,
    Provenance,
    Source,
)
from fleetbench.results.records import Record, finding_document, finding_of, storable
from fleetbench.results.rows import Verdict, as_json
from fleetbench.results.schema import IMPORTED_ROWS, IMPORTS
from fleetbench.results.store_runs import RunTable
from fleetbench.results.values import BenchResult


class ImportTable(RunTable):
    """Sources and their rows; the same content is there once, however often it is imported."""

    def keep_import(self, source: Source, judged: Iterable[ImportedRow]) -> bool:
        """Write a source with its judged rows down; return whether it was new.

        A source that is there is judged anew: its rows take the findings of today's rules.
        """
        rows = [_record(found) for found in judged]
        about = {
            "id": source.id,
            "name": storable(source.name),
            "sha256": source.sha256,
            "provenance": storable(as_json(source.provenance)),
            "imported_at": self.now(),
            "fleetbench_version": __version__,
        }
        with writing(self._engine, "keep what was imported") as connection:
            of_source = IMPORTED_ROWS.c.source == source.id
            is_source = IMPORTS.c.id == source.id
            known = connection.scalar(select(func.count()).select_from(IMPORTS).where(is_source))
            connection.execute(delete(IMPORTED_ROWS).where(of_source))
            connection.execute(delete(IMPORTS).where(is_source))
            connection.execute(insert(IMPORTS).values(**about))
            if rows:
                connection.execute(insert(IMPORTED_ROWS), rows)
        return not known

    def imports(self) -> tuple[ImportedSource, ...]:
        """Return the sources, the latest first, with the number of their rows by verdict."""
        counted = select(IMPORTED_ROWS.c.source, IMPORTED_ROWS.c.verdict, func.count()).group_by(
            IMPORTED_ROWS.c.source, IMPORTED_ROWS.c.verdict
        )
        order = (IMPORTS.c.imported_at.desc(), IMPORTS.c.id)
        with reading(self._engine, "list what was imported") as connection:
            verdicts: dict[str, dict[str, int]] = {}
            for source, verdict, number in connection.execute(counted):
                verdicts.setdefault(source, {})[verdict] = number
            return tuple(
                _source_of(record, verdicts.get(record["id"], {}))
                for record in connection.execute(select(IMPORTS).order_by(*order)).mappings()
            )

    def imported(self, name: str) -> ImportedSource:
        """Return the source of that id, or the only one whose id begins so; UsageError when there is none."""
        there = self.imports()
        found = [source for source in there if source.id == name] or [
            source for source in there if source.id.startswith(name)
        ]
        if len(found) == 1:
            return found[0]
        raise UsageError(
            f"{len(found) or 'no'} imported sources are called {one_line(name, 60)}",
            cause=f"there are: {one_line(', '.join(source.id for source in found or there), 300) or 'none'}",
            next_step="fleetbench runs imported",
        )

    def imported_rows(self, source: str) -> tuple[ImportedRow, ...]:
        """Return the rows of a source in its own order."""
        statement = select(IMPORTED_ROWS).where(IMPORTED_ROWS.c.source == source)
        with reading(self._engine, "read what was imported") as connection:
            found = connection.execute(statement.order_by(IMPORTED_ROWS.c.position)).mappings()
            return tuple(_row_of(record) for record in found)


def _record(found: ImportedRow) -> dict[str, Any]:
    row = found.row
    return {
        "source": found.source,
        "position": found.position,
        "table_name": storable(row.table),
        "label": storable(row.label),
        "place": storable(row.place),
        "form": storable(row.form),
        "complete": row.complete,
        "problems": storable(list(row.problems)),
        "conditions": storable(as_json(row.conditions)),
        "result": storable(as_json(row.result)),
        "derived": storable(dict(row.derived)),
        "verdict": found.verdict.value,
        "findings": [finding_document(finding) for finding in found.findings],
        "ceiling": storable(dict(found.ceiling)),
    }


def _row_of(record: Record) -> ImportedRow:
    result = dict(_known(BenchResult, record["result"]))
    for name in ("latencies", "extra"):
        result[name] = MappingProxyType(dict(result.get(name) or {}))
    return ImportedRow(
        source=record["source"],
        position=record["position"],
        row=ForeignRow(
            table=record["table_name"],
            label=record["label"],
            place=record["place"],
            form=record["form"],
            complete=bool(record["complete"]),
            problems=tuple(record["problems"]),
            conditions=Conditions(**_known(Conditions, record["conditions"])),
            result=BenchResult(**result),
            derived=MappingProxyType(dict(record["derived"])),
        ),
        verdict=Verdict(record["verdict"]),
        findings=tuple(finding_of(found) for found in record["findings"]),
        ceiling=MappingProxyType(dict(record["ceiling"])),
    )


def _source_of(record: Record, verdicts: Mapping[str, int]) -> ImportedSource:
    return ImportedSource(
        id=record["id"],
        name=record["name"],
        sha256=record["sha256"],
        provenance=Provenance(**_known(Provenance, record["provenance"])),
        imported_at=record["imported_at"],
        fleetbench_version=record["fleetbench_version"],
        rows=sum(verdicts.values()),
        verdicts=MappingProxyType(dict(verdicts)),
    )


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a later version are passed over."""
    names = {entry.name for entry in fields(kind)}
    return {name: value for name, value in document.items() if name in names}
