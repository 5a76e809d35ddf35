"""Imported figures as a page of their own: each row beside its verdict, none ranked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench import __version__
from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.html.evidence import ceiling, reported, said
from fleetbench.report.html.table import results
from fleetbench.report.html.values import Answer, Evidence, Grid, Page, Pair
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.observations import observations
from fleetbench.results.imports.render import counted
from fleetbench.results.imports.values import Conditions, ImportedRow, ImportedSource
from fleetbench.results.rows import Verdict
from fleetbench.results.rules.table import thresholds

_CONDITIONS = tuple(Conditions.__dataclass_fields__)


def page_of_imported(
    found: Sequence[tuple[ImportedSource, Sequence[ImportedRow]]],
    *,
    tables: Sequence[Grid] = (),
) -> Page:
    """Return the page of what was imported; `tables` are its own ones and those
    made of several of them."""
    behind: dict[tuple[str, str], ImportedRow] = {}
    entries: list[Entry] = []
    for source, rows in found:
        made = entries_of_import(source, rows)
        behind |= {(entry.source, entry.place): row for entry, row in zip(made, rows, strict=True)}
        entries += made
    counts = [
        f"{one_line(source.provenance.title or source.name, 120)}: {counted(rows)}" for source, rows in found
    ]
    against = sum(row.verdict is not Verdict.VALID for row in behind.values())
    return Page(
        title="Imported figures",
        kind="what others measured",
        subtitle=" · ".join(f"{one_line(source.id, 60)}" for source, _ in found),
        about=tuple(pair for source, rows in found for pair in _about(source, rows)),
        answers=(
            Answer(
                headline=f"{len(entries)} rows of {_sources(len(found))}: "
                f"something speaks against {against} of them",
                reasons=(
                    "What others measured, judged by the rules for own rows and never ranked with them. "
                    "Valid means that nothing contradicts a row.",
                ),
            ),
        ),
        advised=False,
        findings=(*counts, *(one_line(said.text, 1000) for said in observations(entries))),
        results=results(
            entries,
            [f"row-{place}" for place in range(1, len(entries) + 1)],
            lambda entry: _evidence(entry, behind[(entry.source, entry.place)]),
            few=lambda entry, metric: entry.rests_on_few(metric),
            notes=(
                "A number with ? belongs to a suspect row: something speaks against it.",
                f"A p99 in brackets rests on fewer than {thresholds().p99_samples:,} requests.",
            ),
        ),
        grids=tuple(tables),
        version=__version__,
    )


def _sources(count: int) -> str:
    return "one source" if count == 1 else f"{count} sources"


def _about(source: ImportedSource, rows: Sequence[ImportedRow]) -> Iterator[Pair]:
    about = source.provenance
    yield Pair("source", one_line(f"{about.title or source.name} ({source.id})", 300))
    for name, value in (
        ("author", about.author),
        ("url", about.url),
        ("published, retrieved", ", ".join(filter(None, (about.published, about.retrieved)))),
        ("quoted by", about.quoted_by),
        ("note", about.note),
        ("imported", source.imported_at),
        ("sha256", source.sha256),
        ("rows", counted(rows)),
    ):
        if value:
            yield Pair(name, one_line(value, 2000))


def _evidence(entry: Entry, found: ImportedRow) -> Evidence:
    row = found.row
    return Evidence(
        cause=entry.cause,
        said=said(found.findings),
        notes=tuple(one_line(problem, 300) for problem in row.problems),
        reported=tuple(reported(entry)),
        figures=tuple(ceiling(entry.ceiling)),
        facts=tuple(_facts(entry, found)),
    )


def _facts(entry: Entry, found: ImportedRow) -> Iterator[Pair]:
    row = found.row
    yield Pair(
        "where", one_line(" · ".join(filter(None, (entry.place, row.table, row.label, row.place))), 400)
    )
    yield Pair("format", one_line(row.form))
    for name in _CONDITIONS:
        value = getattr(row.conditions, name)
        if value not in ("", None):
            yield Pair(name.replace("_", " "), one_line(str(value), 300))
    for name, how in row.derived.items():
        yield Pair(f"{one_line(name, 60)}, derived", one_line(how, 300))
