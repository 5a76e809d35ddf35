"""`fleetbench report RUN RUN …`: several runs as one report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetbench import console
from fleetbench.errors import UsageError, one_line

if TYPE_CHECKING:
    from fleetbench.drawing.drawers import Drawers
    from fleetbench.report.imported import Found
    from fleetbench.report.recommendation import Recommendation
    from fleetbench.report.together.joined import Joined


def report_several(
    runs: Sequence[str], imported: Sequence[str], output: Path | None, form: str, slo: str, drawers: Drawers
) -> None:
    """Report on runs together, and in sections of their own on imported sources (`""`: all of them)."""
    from fleetbench.choice.recommend import recommendations
    from fleetbench.choice.slo import parse_slo
    from fleetbench.report.csv_text import csv_text
    from fleetbench.report.imported import read_imported
    from fleetbench.report.together.files import joined_tables, read_several, runs_named, write_several
    from fleetbench.results.store import open_store

    with open_store(create=False) as store:
        ids = runs_named(store, runs)
        sources = each_once(read_imported(store, source) for source in imported)
        found = read_several(store, ids)
        bounds = parse_slo(slo)
        advice = recommendations(found.entries, bounds)
        limits = {bound.key: bound.limit_ms for bound in bounds.bounds}
        paths = write_several(store, found, output, sources, advice, limits, drawers)
    if form == "json":
        console.print_json(joined_tables(found)[0].objects())
    elif form == "csv":
        console.write(csv_text(joined_tables(found)[0]))
    elif form == "markdown":
        console.write(paths.markdown.read_text())
    else:
        print_several(found, sources, advice)
    more = ", imported.csv" if sources else ""
    charts = f", {len(paths.charts)} charts" if paths.charts else ""
    console.progress(f"report: {paths.page} (with report.md, summary.csv, measurements.csv{more}{charts})")


def print_several(
    found: Joined, imported: Found = (), recommendations: Sequence[Recommendation] = ()
) -> None:
    """Write a report on several runs to the terminal: what to deploy, the runs, each model's rows."""
    from fleetbench.report.recommendation import leading
    from fleetbench.report.together.results import result_table, run_table
    from fleetbench.report.together.said import said_of_model, said_of_runs
    from fleetbench.report.together.text import heading
    from fleetbench.results.imports.render import counted

    console.write(f"{one_line(heading(found), 300)}\n")
    for sentence in leading(recommendations):
        console.write(f"{one_line(sentence, 1000)}\n")
    runs = run_table(found)
    console.print_table(runs.columns, runs.rows)
    for said in said_of_runs(found):
        console.write(f"- {one_line(said, 1000)}")
    for model, entries in found.models.items():
        console.write(f"\n{one_line(model, 120) or 'model unknown'}\n")
        results = result_table(entries)
        console.print_table(results.columns, results.rows)
        for said in said_of_model(entries):
            console.write(f"- {one_line(said, 1000)}")
    for source, rows in imported:
        console.write(f"\nimported, in a section of its own: {source.id}, {counted(rows)}")


def each_once(given: Iterable[Found]) -> Found:
    """Return the sources of several selections; UsageError for one that is in two of them."""
    found = [each for sources in given for each in sources]
    ids = [source.id for source, _ in found]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"source {twice} is named twice", next_step="name it once")
    return found
