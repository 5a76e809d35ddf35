"""A report as files: text, two tables, charts. Each appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetbench.errors import FleetbenchError
from fleetbench.report.charts import draw_charts, file_name
from fleetbench.report.columns import measurement_table, summary_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.markdown import markdown
from fleetbench.report.metrics import METRICS
from fleetbench.report.summary import Report, summarise

if TYPE_CHECKING:
    from fleetbench.results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """Where the files of a report are. `charts` in the order of the metrics."""

    directory: Path
    markdown: Path
    summary: Path
    measurements: Path
    charts: tuple[Path, ...]


def read_report(store: Store, name: str) -> Report:
    """Given a run's id, its beginning or `latest`, return the run's report."""
    run = store.run(name)
    return summarise(run, store.trials(run.id), store.measurements(run.id))


def write_report(store: Store, run_id: str, directory: Path | None = None) -> ReportPaths:
    """Write a run's report and return its paths; `directory` None: `report/` in the run's directory."""
    report = read_report(store, run_id)
    return write_files(report, directory or store.directory(report.run.id) / "report")


def write_files(report: Report, directory: Path) -> ReportPaths:
    """Write a report's files into a directory, the text last, so that what it refers to is there.

    Charts of an earlier report that this one does not have are removed; other files are left alone.
    """
    charts = tuple(draw_charts(report))
    paths = ReportPaths(
        directory=directory,
        markdown=directory / "report.md",
        summary=directory / "summary.csv",
        measurements=directory / "measurements.csv",
        charts=tuple(directory / "charts" / chart.file_name for chart in charts),
    )
    text = markdown(report, [(f"charts/{chart.file_name}", chart.finding) for chart in charts])
    try:
        (directory / "charts").mkdir(parents=True, exist_ok=True)
        for path, chart in zip(paths.charts, charts, strict=True):
            _replace(path, chart.png)
        for stale in {directory / "charts" / file_name(metric) for metric in METRICS} - set(paths.charts):
            stale.unlink(missing_ok=True)
        _replace(paths.measurements, csv_text(measurement_table(report)).encode())
        _replace(paths.summary, csv_text(summary_table(report)).encode())
        _replace(paths.markdown, text.encode())
    except OSError as error:
        raise FleetbenchError(
            f"cannot write the report to {directory}",
            cause=error.strerror or str(error),
            next_step="make room or mend the rights, or give another directory with --output",
        ) from error
    return paths


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
