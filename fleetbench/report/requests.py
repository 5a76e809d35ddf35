"""Single requests of a report's measurements as rows, for programs."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.report.columns import Cell, Table
from fleetbench.report.per_request import Reader
from fleetbench.report.summary import Report
from fleetbench.results.rows import MeasurementKind
from fleetbench.results.samples import Request

REQUEST_COLUMNS = (
    *("run", "trial", "configuration", "host", "workload_index", "workload", "repeat", "verdict"),
    *("request", "started_s", "ttft_ms", "tpot_ms", "e2el_ms", "input_tokens", "output_tokens"),
)


def request_table(report: Report, read: Reader) -> Table:
    """Return each answered request of each finished repeat, in the order in which they were sent.

    `read` gives the requests of a measurement; one whose raw file is not there has no rows.
    """
    return Table(REQUEST_COLUMNS, tuple(_rows(report, read)))


def _rows(report: Report, read: Reader) -> Iterator[tuple[Cell, ...]]:
    trials = {trial.number: trial for trial in report.trials}
    for row in report.measurements:
        if row.kind is not MeasurementKind.MEASURE or not row.finished:
            continue
        samples = read(row)
        trial = trials[row.trial]
        about: tuple[Cell, ...] = (
            *(report.run.id, row.trial, trial.config.label, trial.host, row.workload_index),
            *(trial.workloads[row.workload_index].label, row.repeat, row.verdict and row.verdict.value),
        )
        for place, request in enumerate(samples.requests if samples else (), start=1):
            yield (*about, place, *_cells(request))


def _cells(request: Request) -> tuple[Cell, ...]:
    return (
        _rounded(request.started_s, 1),
        _rounded(request.ttft_s, 1000),
        _rounded(request.tpot_s, 1000),
        _rounded(request.e2el_s, 1000),
        request.input_tokens,
        request.output_tokens,
    )


def _rounded(seconds: float | None, factor: float) -> float | None:
    """Nanoseconds: the client's clock tells no more."""
    return None if seconds is None else round(seconds * factor, 6)
