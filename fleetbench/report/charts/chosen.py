"""All charts of a set of entries, and of a run: each kind says itself whether there is something to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fleetbench.errors import one_line
from fleetbench.report.charts.bars import bar_charts
from fleetbench.report.charts.concurrency import concurrency_charts
from fleetbench.report.charts.context import context_charts
from fleetbench.report.charts.frame import Chart
from fleetbench.report.charts.matrix import matrix_charts
from fleetbench.report.charts.outcomes import outcome_charts
from fleetbench.report.charts.pareto import pareto_charts
from fleetbench.report.charts.populations import populations
from fleetbench.report.charts.roofline import roofline_charts
from fleetbench.report.charts.scaling import scaling_charts
from fleetbench.report.charts.series import FILES, FILES_WITHOUT_GPUS, series_chart
from fleetbench.report.charts.timeline import timeline_chart
from fleetbench.report.entry import Entry, ranked
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report
from fleetbench.results.rows import MeasurementKind, MeasurementRow, Verdict

LARGEST_BYTES = 64 * 1024 * 1024  # of a file of samples, packed


def charts_of_entries(entries: Iterable[Entry], *, slo: Mapping[str, float] | None = None) -> Iterator[Chart]:
    """Yield every chart that entries can show; of own ones without a valid row, what became of each.

    Args:
        entries: of one source or several; each source and model has charts of its own.
        slo: the most that a metric may be, by its key: `{"p99_ttft_ms": 2000}`.
    """
    for population in populations(entries):
        if not any(entry.valid or entry.imported for entry in population.entries):
            yield from outcome_charts(population)
            continue
        yield from matrix_charts(population)
        yield from scaling_charts(population)
        yield from pareto_charts(population, slo or {})
        yield from concurrency_charts(population, slo or {})
        yield from context_charts(population)
        yield from roofline_charts(population)
        yield from bar_charts(population)


def charts_of_run(
    report: Report, directory: Path | None, *, slo: Mapping[str, float] | None = None
) -> Iterator[Chart]:
    """Yield the charts of a run's entries, what was sampled of two measurements, and the run's timeline.

    `directory` is the run's; None: nothing sampled is drawn.
    """
    entries = entries_of_run(report)
    yield from charts_of_entries(entries, slo=slo)
    if directory is not None:
        for key, name, entry, row in _telling(report, entries):
            chart = series_of(row, directory, name=name, key=key, on_gpus=entry.on_gpus)
            if chart is not None:
                yield chart
    if report.timeline is not None and any(period.seconds for period in report.timeline.periods):
        yield timeline_chart(report.timeline, report.run.id)


def series_of(
    row: MeasurementRow, directory: Path, *, name: str, key: str, on_gpus: bool = True
) -> Chart | None:
    """Return the time series of one measurement of a run, `directory`; None where nothing was sampled.

    `on_gpus`: whether the GPUs of the host had a part in it.
    """
    place = f"trial {row.trial}, workload {row.workload_index}, {row.kind.value} {row.repeat}"
    verdict = row.verdict.value if row.verdict else "not judged"
    return series_chart(
        dict(_content(directory / row.directory, FILES if on_gpus else FILES_WITHOUT_GPUS)),
        duration_s=row.result.duration if row.result else None,
        output_tps=row.result.output_throughput if row.result else None,
        name=name,
        about=f"run {one_line(row.run_id, 60)}, {place}, {verdict}",
        key=key,
    )


def _telling(report: Report, entries: Iterable[Entry]) -> Iterator[tuple[str, str, Entry, MeasurementRow]]:
    """Yield the measurement in the middle of the best entry's, and the first that is not valid."""
    found = tuple(entries)
    measured = [row for row in report.measurements if row.kind is MeasurementKind.MEASURE and row.finished]
    for best in ranked(found)[:1]:
        own = [
            row
            for row in measured
            if (row.trial, row.workload_index) == (best.trial, best.workload_index)
            and row.verdict is Verdict.VALID
        ]
        own.sort(key=lambda row: (row.result.output_throughput or 0) if row.result else 0)
        if own:
            yield "time-best", f"{best.name}, {best.load}, the best", best, own[len(own) // 2]
    names = {(entry.trial, entry.workload_index): entry for entry in found}
    for row in measured:
        entry = names.get((row.trial, row.workload_index))
        if entry is not None and row.verdict is not Verdict.VALID:
            yield "time-not-valid", f"{entry.name}, {entry.load}, {row.verdict}", entry, row
            return


def _content(directory: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        try:
            with (directory / name).open("rb") as file:
                content = file.read(LARGEST_BYTES + 1)
        except OSError:
            continue
        if len(content) <= LARGEST_BYTES:
            yield name, content
