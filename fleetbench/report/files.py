"""A report as files: a page, text, two tables, charts. Each appears whole or not at all."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleetbench.errors import FleetbenchError, Unreadable, one_line
from fleetbench.report.charts import charts_of_run
from fleetbench.report.charts.written import write_charts
from fleetbench.report.columns import measurement_table, summary_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.html.galleries import with_charts
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.render import html
from fleetbench.report.html.run_page import page_of_run
from fleetbench.report.markdown import markdown
from fleetbench.report.per_request import Reader, nothing
from fleetbench.report.recommendation import Recommendation
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import MeasurementRow
from fleetbench.results.samples import LARGEST_BYTES, Samples, read_samples
from fleetbench.results.timeline import read_timeline
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.drawing.drawers import Drawers
    from fleetbench.results.store import Store

NO_LIMITS: Mapping[str, float] = MappingProxyType({})
MOST_BYTES = 8 * 1024**3  # of result files that a report reads; a minute's work for each


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """Where the files of a report are; `charts` are the PNG files, each of which has an SVG beside it.

    `page` is the whole report as one HTML file that needs none of the others.
    """

    directory: Path
    page: Path
    markdown: Path
    summary: Path
    measurements: Path
    charts: tuple[Path, ...]


def read_report(store: Store, name: str, *, requests: bool = True) -> Report:
    """Given a run's id, its beginning or `latest`, return the run's report.

    Without `requests` the raw files are not read: no pooled percentiles, no steady state, and a quick answer.
    """
    run = store.run(name)
    read = sample_reader(store.directory(run.id)) if requests else nothing
    report = summarise(run, store.trials(run.id), store.measurements(run.id), read)
    try:
        return replace(report, timeline=read_timeline(store.directory(run.id)))
    except Unreadable as exc:
        return replace(report, timeline_problem=one_line(f"{exc.what} ({exc.cause})"))


def sample_reader(directory: Path) -> Reader:
    """Return what reads the requests of a run's measurements from its directory, plain or compressed.

    What is not there, cannot be read or is more than `MOST_BYTES` in all gives None.
    """
    left = MOST_BYTES

    def read(row: MeasurementRow) -> Samples | None:
        nonlocal left
        for name in ("result.json", "result.json.gz"):
            try:
                path = directory / row.directory / name
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                    content = file.read(min(LARGEST_BYTES, left) + 1)
            except (OSError, EOFError, zlib.error):
                continue
            left -= len(content)
            return read_samples(content) if left >= 0 else None
        return None

    return read


def write_report(store: Store, run_id: str, directory: Path | None = None) -> ReportPaths:
    """Write a run's report and return its paths; `directory` None: `report/` in the run's directory."""
    report = read_report(store, run_id)
    raw = store.directory(report.run.id)
    return write_files(report, directory or raw / "report", raw)


def write_files(
    report: Report,
    directory: Path,
    raw: Path | None = None,
    recommendations: Sequence[Recommendation] = (),
    limits: Mapping[str, float] = NO_LIMITS,
    drawers: Drawers | None = None,
) -> ReportPaths:
    """Write a report's files into a directory, the text last, so that what it refers to is there.

    `raw` is the run's directory, for charts of what was sampled and for the evidence on the page, which leads
    with the recommendations. Charts of an earlier report that this one does not have are removed; other files
    are left alone. `limits`: of an SLO, by the key of the metric.
    """
    try:
        drawn = write_charts(charts_of_run(report, raw, slo=limits), directory / "charts", drawers)
        page = page_of_run(report, Kept(directory=raw, page=directory), recommendations=recommendations)
        page = with_charts(page, ((each.chart, each.text) for each in drawn))
        paths = ReportPaths(
            directory=directory,
            page=directory / "report.html",
            markdown=directory / "report.md",
            summary=directory / "summary.csv",
            measurements=directory / "measurements.csv",
            charts=tuple(each.png for each in drawn),
        )
        shown = [(f"charts/{each.png.name}", each.chart.finding) for each in drawn]
        text = markdown(report, shown, recommendations)
        write_whole(paths.measurements, csv_text(measurement_table(report)).encode())
        write_whole(paths.summary, csv_text(summary_table(report)).encode())
        write_whole(paths.page, html(page).encode())
        write_whole(paths.markdown, text.encode())
    except OSError as error:
        raise FleetbenchError(
            f"cannot write the report to {directory}",
            cause=error.strerror or str(error),
            next_step="make room or mend the rights, or give another directory with --output",
        ) from error
    return paths
