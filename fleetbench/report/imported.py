"""Imported figures as a report of their own: each row beside its verdict, none beside an own one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetbench.errors import FleetbenchError, NotPossible
from fleetbench.report.charts import charts_of_entries
from fleetbench.report.charts.written import write_charts
from fleetbench.report.columns import LATENCY_KEYS, RESULT_KEYS, Cell, Table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.entry import Entry
from fleetbench.report.entry_markdown import said_lines, table_parts
from fleetbench.report.html.galleries import with_charts
from fleetbench.report.html.grids import grid_of_entries
from fleetbench.report.html.imported_page import page_of_imported
from fleetbench.report.html.render import html
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.markdown_text import escaped, table
from fleetbench.report.observations import observations
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.results.imports.fields import EXTRA
from fleetbench.results.imports.render import COLUMNS, counted, table_rows
from fleetbench.results.imports.values import (
    IMPORTED_DIRECTORY,
    Conditions,
    ImportedRow,
    ImportedSource,
)
from fleetbench.results.rows import Json, Verdict
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.drawing.drawers import Drawers
    from fleetbench.results.store import Store

Found = Sequence[tuple[ImportedSource, Sequence[ImportedRow]]]
_CONDITIONS = tuple(Conditions.__dataclass_fields__)


def read_imported(store: Store, source: str = "") -> Found:
    """Return each imported source with its rows; `source`: only that one. NotPossible where there is none."""
    sources = (store.imported(source),) if source else store.imports()
    if not sources:
        raise NotPossible(
            "nothing was imported",
            next_step="fleetbench import FILE…, for instance inventory/published/*.toml",
        )
    return tuple((found, store.imported_rows(found.id)) for found in sources)


def place_of(found: Found, *, chosen: bool) -> Path:
    """Return where a report on imported sources is, below the directory of runs.

    `chosen`: on these alone; else on all that there are.
    """
    place = Path(IMPORTED_DIRECTORY)
    if not chosen:
        return place
    if len(found) == 1:
        return place / found[0][0].id / "report"
    ids = " ".join(sorted(source.id for source, _ in found))
    return place / "reports" / f"{len(found)}-sources-{hashlib.sha256(ids.encode()).hexdigest()[:8]}"


def write_imported(
    store: Store,
    found: Found,
    directory: Path | None = None,
    drawers: Drawers | None = None,
    *,
    chosen: bool = False,
) -> Path:
    """Write report.html, report.md, imported.csv and the charts, and return the path of the first.

    `directory`: instead of `place_of`.
    """
    place = directory or store.runs_directory / place_of(found, chosen=chosen)
    entries = [entry for source, rows in found for entry in entries_of_import(source, rows)]
    tables = [
        grid_of_entries(each, heading(each))
        for source, rows in found
        for each in imported_tables(entries_of_import(source, rows))
    ]
    try:
        drawn = write_charts(charts_of_entries(entries), place / "charts", drawers)
        page = with_charts(
            page_of_imported(found, tables=tables), ((each.chart, each.text) for each in drawn)
        )
        shown = [(f"charts/{each.png.name}", each.chart.finding) for each in drawn]
        write_whole(place / "imported.csv", csv_text(imported_table(found)).encode())
        write_whole(place / "report.md", imported_markdown(found, shown).encode())
        write_whole(place / "report.html", html(page).encode())
    except OSError as error:
        raise FleetbenchError(
            f"cannot write the report to {place}",
            cause=error.strerror or str(error),
            next_step="make room or mend the rights, or give another directory with --output",
        ) from error
    return place / "report.html"


def imported_columns() -> tuple[str, ...]:
    """Return the columns of `imported_table`, in order; what own rows have, too, is called as there."""
    called = {"gpus": "gpu_count", "engine_version": "vllm_version"}
    return (
        *("source", "position", "table", "label", "format", "verdict", "rules", "reasons"),
        *(called.get(name, name) for name in _CONDITIONS),
        *("num_prompts", "max_concurrency", *RESULT_KEYS, *LATENCY_KEYS, *EXTRA),
        *("of_strict_percent", "of_ceiling_percent", "ceiling_binds"),
        *("derived", "title", "author", "url", "published", "retrieved", "sha256", "imported_at"),
    )


def imported_table(found: Found) -> Table:
    """Return every row for programs, with its findings as sentences."""
    columns = imported_columns()
    return Table(columns, tuple(tuple(_cells(source, row)) for source, rows in found for row in rows))


def _cells(source: ImportedSource, found: ImportedRow) -> Iterator[Cell]:
    row, result, about = found.row, found.row.result, source.provenance
    yield from (source.id, found.position, row.table or None, row.label or None, row.form)
    yield found.verdict.value
    yield " ".join(dict.fromkeys(finding.rule for finding in found.findings)) or None
    yield "; ".join(finding.text for finding in found.findings) or None
    yield from (_said(getattr(row.conditions, name)) for name in _CONDITIONS)
    yield from (result.num_prompts, result.max_concurrency)
    yield from (getattr(result, key) for key in RESULT_KEYS)
    yield from (result.latencies.get(key) for key in LATENCY_KEYS)
    yield from (result.extra.get(key) for key in EXTRA)
    yield from (_cell(found.ceiling.get(key)) for key in ("of_strict_percent", "of_ceiling_percent", "binds"))
    yield "; ".join(f"{name} = {how}" for name, how in row.derived.items()) or None
    yield from (_said(getattr(about, name)) for name in ("title", "author", "url", "published", "retrieved"))
    yield from (source.sha256, source.imported_at)


def _cell(value: Json) -> Cell:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _said(value: Cell) -> Cell:
    return None if value == "" else value


def imported_markdown(found: Found, charts: Sequence[tuple[str, str]] = ()) -> str:
    """Return the report as text: for each source where it is from, its rows, and what is said of them.

    `charts`: the path of each, relative to the text, and its finding.
    """
    parts = [
        "# Imported figures",
        "What others measured, judged by the rules for own rows and never ranked with them. "
        "`valid` means that nothing contradicts a row.",
    ]
    for source, rows in found:
        parts += source_parts(source, rows)
    parts += ["## Charts"] if charts else []
    parts += [f"![{escaped(sentence)}]({path})" for path, sentence in charts]
    return "\n\n".join(parts) + "\n"


def source_parts(source: ImportedSource, rows: Sequence[ImportedRow]) -> Iterator[str]:
    """Yield the parts of a report's text that are about one source, under a heading of their own."""
    about = source.provenance
    yield f"## {escaped(about.title or source.name)}"
    facts = {
        "source": f"{source.id} (sha256 {source.sha256})",
        "author": about.author,
        "url": about.url,
        "published, retrieved": ", ".join(filter(None, (about.published, about.retrieved))),
        "quoted by": about.quoted_by,
        "imported": source.imported_at,
        "rows": counted(rows),
    }
    yield table(("what", "value"), [(name, value) for name, value in facts.items() if value])
    if about.note:
        yield escaped(about.note, 2000)
    entries = entries_of_import(source, rows)
    said = said_lines(observations(entries))
    if said:
        yield "### What the figures say"
        yield "\n".join(said)
    for each in imported_tables(entries):
        yield from table_parts(each, f"### {escaped(heading(each))}")
    yield "### Every row with its verdict"
    yield table(COLUMNS, [_plain(cells) for cells in table_rows(rows)])
    yield "\n".join(_reasons(rows)) or "Nothing is said of any row."


def imported_tables(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return what a source's entries come to: its own tables in its order, then those made of several."""
    place = {id(entry): position for position, entry in enumerate(entries)}
    found = tables_of(entries)
    return tuple(
        sorted(found, key=lambda each: (each.kind in ("lengths", "scaling"), place[id(each.entries[0])]))
    )


def heading(found: EntryTable) -> str:
    """Return the title of the source's table where one is shown again, else what is shown."""
    if found.kind in ("context", "concurrency") and found.source_table:
        return found.source_table
    return f"{found.source_table} {found.title}" if found.kind == "strategies" else found.title


def _plain(cells: tuple[object, ...]) -> tuple[Cell, ...]:
    kept = (cell if cell is None or isinstance(cell, int | float | str) else str(cell) for cell in cells)
    return tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in kept)


def _reasons(rows: Sequence[ImportedRow]) -> Iterator[str]:
    """Each reason once, with the rows that it is about; remarks are left to the table for programs."""
    about: dict[tuple[str, str], list[str]] = {}
    for found in rows:
        for finding in found.findings:
            if finding.verdict is not Verdict.VALID:
                key = finding.verdict.value, finding.text
                about.setdefault(key, []).append(str(found.position))
    for (verdict, text), positions in about.items():
        which = ", ".join(positions[:12]) + (
            f" and {len(positions) - 12} more" if len(positions) > 12 else ""
        )
        yield f"- {verdict}: {escaped(text)} (row {which})"
