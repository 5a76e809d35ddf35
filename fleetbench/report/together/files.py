"""A report on several runs as files: page, text, two tables, charts; and which runs are meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetbench.errors import FleetbenchError, UsageError, one_line
from fleetbench.report.charts import charts_of_entries
from fleetbench.report.charts.written import write_charts
from fleetbench.report.columns import Table, measurement_table, summary_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.files import NO_LIMITS, ReportPaths, read_report
from fleetbench.report.html.galleries import with_charts
from fleetbench.report.html.grids import grid_of_entries
from fleetbench.report.html.joined_page import page_of_several
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.render import html
from fleetbench.report.imported import Found, heading, imported_table, imported_tables
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.recommendation import Recommendation
from fleetbench.report.together.joined import Joined, joined
from fleetbench.report.together.text import text_of_several
from fleetbench.results.rows import RunState
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.drawing.drawers import Drawers
    from fleetbench.results.store import Store

DIRECTORY = "reports"  # below the runs' directory, beside that of each run
MOST_RUNS = 50


def runs_named(store: Store, names: Sequence[str]) -> tuple[str, ...]:
    """Given what was typed for each run, return their ids; UsageError for one that is named twice."""
    if len(names) > MOST_RUNS:
        raise UsageError(f"{len(names)} runs are more than the {MOST_RUNS} that one report holds")
    found: dict[str, str] = {}
    for name in names:
        run = store.run(name)
        if run.id in found:
            both = " and ".join(dict.fromkeys(one_line(each, 60) for each in (found[run.id], name)))
            raise UsageError(f"run {run.id} is named twice", cause=f"by {both}", next_step="name it once")
        found[run.id] = name
    return tuple(found)


def runs_of_model(store: Store, model: str) -> tuple[str, ...]:
    """Return the finished runs of a model, by its name in the inventory or that of its repository.

    The oldest is first. UsageError where there is none, or there are too many.
    """
    every = store.runs()
    here = [run for run in every if model in (run.model, run.repo)]
    done = [run.id for run in reversed(here) if run.state is RunState.DONE]
    if len(done) > MOST_RUNS:
        raise UsageError(
            f"{one_line(model, 80)} has {len(done)} finished runs, more than the {MOST_RUNS} of one report",
            next_step="name some of them: fleetbench report RUN RUN",
        )
    if done:
        return tuple(done)
    if here:
        raise UsageError(
            f"no run of {one_line(model, 80)} is finished",
            cause=f"there is {here[0].id} ({here[0].state.value})",
            next_step=f"fleetbench report {here[0].id}",
        )
    models = list(dict.fromkeys(name for run in every for name in (run.model, run.repo) if name))
    near = [name for name in models if model.lower() in name.lower()]
    near += difflib.get_close_matches(model, models, n=3, cutoff=0.5)
    shown = ", ".join(one_line(name, 60) for name in list(dict.fromkeys(near or models))[:4])
    raise UsageError(
        f"no run of a model {one_line(model, 80)!r}",
        next_step=f"{'did you mean' if near else 'there is'} {shown}" if shown else "fleetbench runs",
    )


def read_several(store: Store, runs: Iterable[str]) -> Joined:
    """Return the report on runs that are there, given their ids."""
    return joined(read_report(store, run) for run in runs)


def joined_tables(found: Joined) -> tuple[Table, Table]:
    """Return the rows of all runs, and all measurements, for programs; `run` is the first column."""
    summaries = [summary_table(report) for report in found.reports]
    measurements = [measurement_table(report) for report in found.reports]
    return _together(summaries), _together(measurements)


def write_several(
    store: Store,
    found: Joined,
    directory: Path | None = None,
    imported: Found = (),
    recommendations: Sequence[Recommendation] = (),
    limits: Mapping[str, float] = NO_LIMITS,
    drawers: Drawers | None = None,
) -> ReportPaths:
    """Write the files and return their paths; `directory` None: `reports/NAME` beside the runs.

    Text and page lead with the recommendations. `limits`: of an SLO, by the key of the metric.
    """
    place = directory or store.runs_directory / DIRECTORY / found.name
    own = {report.run.id: store.directory(report.run.id) for report in found.reports}
    foreign = [
        grid_of_entries(each, f"Imported, not ranked with the runs: {source.id}, {heading(each)}")
        for source, rows in imported
        for each in imported_tables(entries_of_import(source, rows))
    ]
    try:
        drawn = write_charts(charts_of_entries(found.entries, slo=limits), place / "charts", drawers)
        kept = {run: Kept(directory=raw, page=place) for run, raw in own.items()}
        page = page_of_several(found, kept, grids=foreign, recommendations=recommendations)
        page = with_charts(page, ((each.chart, each.text) for each in drawn))
        paths = ReportPaths(
            directory=place,
            page=place / "report.html",
            markdown=place / "report.md",
            summary=place / "summary.csv",
            measurements=place / "measurements.csv",
            charts=tuple(each.png for each in drawn),
        )
        summary, measurements = joined_tables(found)
        shown = [(f"charts/{each.png.name}", each.chart.finding) for each in drawn]
        write_whole(paths.measurements, csv_text(measurements).encode())
        write_whole(paths.summary, csv_text(summary).encode())
        if imported:
            write_whole(place / "imported.csv", csv_text(imported_table(imported)).encode())
        write_whole(paths.page, html(page).encode())
        text = text_of_several(found, shown, imported, recommendations)
        write_whole(paths.markdown, text.encode())
    except OSError as error:
        raise FleetbenchError(
            f"cannot write the report to {place}",
            cause=error.strerror or str(error),
            next_step="make room or mend the rights, or give another directory with --output",
        ) from error
    return paths


def _together(tables: Sequence[Table]) -> Table:
    return Table(tables[0].columns, tuple(row for table in tables for row in table.rows))
