"""All charts of a set of entries, and of a run: each kind says itself whether there is something to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fleetbench.report.charts.bars import bar_charts
from fleetbench.report.charts.frame import Chart
from fleetbench.report.charts.populations import populations
from fleetbench.report.charts.timeline import timeline_chart
from fleetbench.report.entry import Entry
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report


def charts_of_entries(entries: Iterable[Entry], *, slo: Mapping[str, float] | None = None) -> Iterator[Chart]:
    """Yield every chart that entries can show.

    Args:
        entries: of one source or several; each source and model has charts of its own.
        slo: the most that a metric may be, by its key: `{"p99_ttft_ms": 2000}`.
    """
    for population in populations(entries):
        yield from bar_charts(population)


def charts_of_run(
    report: Report, directory: Path | None, *, slo: Mapping[str, float] | None = None
) -> Iterator[Chart]:
    """Yield the charts of a run's entries, its timeline, and what was sampled.

    `directory` is the run's; None: nothing sampled is drawn.
    """
    yield from charts_of_entries(entries_of_run(report), slo=slo)
    if report.timeline is not None and any(period.seconds for period in report.timeline.periods):
        yield timeline_chart(report.timeline, report.run.id)
