"""From the store's rows to the rows of a report. Pure.

One row for each workload of each trial, whatever became of it: a trial that failed, was implied by another
failure or was never run has a row like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fleetbench.errors import one_line
from fleetbench.model import Config, Failure, TrialState, Workload
from fleetbench.report.metrics import METRICS, OUTPUT, Metric
from fleetbench.report.per_request import Pooled, Reader, Steady, nothing, pooled, steady
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunRow, TrialRow, Verdict
from fleetbench.results.rules.table import thresholds
from fleetbench.results.statistics import Spread, spread
from fleetbench.results.timeline import RunTimeline

_NUMBER = re.compile(r"\d[\d,.]*")
Served = tuple[str, Config]  # what the GPUs are called, and how the model is served on them


def served(trial: TrialRow) -> Served:
    """Return what starts of a server have in common that may be taken together: GPU and configuration."""
    return trial.gpu_name, trial.config


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """What one workload of one trial came to.

    Attributes:
        name: short and unique among the trials of the report.
        verdict: of the numbers shown; None when nothing was measured.
        repeats: the measurements that count: the valid ones, or, when there is none, the suspect ones.
        spreads: by metric key, over the repeats that count.
        pooled: percentiles over all their requests together; None where these are not to be had.
        steady: the same without filling up and draining; None where there is no steady state.
        client_programs: which clients measured the repeats that count, with their versions.
        warmup_output_throughput: tokens/s of the warm-up, shown but never counted.
        notes: each reason of a verdict and each repeat left out, one sentence each.
    """

    name: str
    trial: TrialRow
    workload_index: int
    workload: Workload
    verdict: Verdict | None
    repeats: tuple[MeasurementRow, ...] = ()
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    pooled: Pooled | None = None
    steady: Steady | None = None
    client_programs: tuple[str, ...] = ()
    warmup_output_throughput: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        """How many measurements count."""
        return len(self.repeats)

    def value(self, metric: Metric) -> float | None:
        """Return a metric's headline: a percentile over all requests, anything else the median repeat."""
        if self.pooled is not None and metric.key in self.pooled.latencies:
            return self.pooled.latencies[metric.key]
        found = self.spreads.get(metric.key)
        return found.median if found else None

    @property
    def failure(self) -> Failure | None:
        """Why the trial failed; None when it did not."""
        return self.trial.failure

    @property
    def valid(self) -> bool:
        """Whether the row may be ranked and drawn."""
        return self.verdict is Verdict.VALID

    @property
    def status(self) -> str:
        """What became of it, in a few words: `valid 3/3`, `failed: out of memory`, `suspect 3/3` …"""
        measured = f"{self.verdict.value} {self.counted}/{self.trial.repeats}" if self.verdict else ""
        if self.verdict is Verdict.INVALID:
            measured = "invalid"
        if self.trial.state is TrialState.MEASURED:
            return measured or "not measured"
        state = self.trial.state.value
        if self.failure is not None:
            state += f": {one_line(self.failure.cause, 80)}"
        return f"{measured}, then {state}" if measured else state


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run, ready to be printed, written and drawn.

    `pooled` are the percentiles of configurations that were started more than once, over all their requests.
    `timeline` is None for a run without one; `timeline_problem` says why it could not be read.
    """

    run: RunRow
    rows: tuple[ReportRow, ...]
    trials: tuple[TrialRow, ...]
    measurements: tuple[MeasurementRow, ...]
    pooled: Mapping[tuple[Served, Workload], Pooled] = field(default_factory=dict)
    timeline: RunTimeline | None = None
    timeline_problem: str = ""

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The different workloads, in the order in which they first appear."""
        return tuple(dict.fromkeys(row.workload for row in self.rows))

    def of_workload(self, workload: Workload) -> tuple[ReportRow, ...]:
        """Return the rows of one workload: only these can be compared with each other."""
        return tuple(row for row in self.rows if row.workload == workload)


def summarise(
    run: RunRow, trials: Iterable[TrialRow], measurements: Iterable[MeasurementRow], read: Reader = nothing
) -> Report:
    """Given a run and all that belongs to it, return its report.

    `read` gives the requests of a measurement, None where they are not to be had.
    """
    trials, measurements = tuple(trials), tuple(measurements)
    names = trial_names(trials)
    rows = tuple(
        _row(names[trial.number], trial, index, measurements, read)
        for trial in trials
        for index in range(len(trial.workloads))
    )
    together = dict(_pooled_starts(rows, read))
    return Report(run=run, rows=rows, trials=trials, measurements=measurements, pooled=together)


def _pooled_starts(
    rows: Iterable[ReportRow], read: Reader
) -> Iterator[tuple[tuple[Served, Workload], Pooled]]:
    """Yield the pooled percentiles of each configuration that several valid rows are about.

    There are none where the requests of one row are missing: the others alone are not the configuration.
    """
    groups: dict[tuple[Served, Workload], list[ReportRow]] = {}
    for row in rows:
        if row.valid:
            groups.setdefault((served(row.trial), row.workload), []).append(row)
    for key, group in groups.items():
        if len(group) > 1 and all(row.pooled is not None for row in group):
            found = pooled([read(repeat) for row in group for repeat in row.repeats])
            if found is not None:
                yield key, found


def trial_names(trials: Iterable[TrialRow]) -> dict[int, str]:
    """Return a name for each trial number: the configuration, with host, GPUs or number where needed."""
    trials = tuple(trials)
    hosts = {trial.host for trial in trials}
    names = {
        trial.number: f"{trial.host} {trial.config.label}" if len(hosts) > 1 else trial.config.label
        for trial in trials
    }
    for trial in trials:
        base = names[trial.number]
        same = [number for number, name in names.items() if name == base]
        if len(same) > 1:
            names |= {number: f"#{number} {base}" for number in same}
    return {number: one_line(name) for number, name in names.items()}


def _row(
    name: str, trial: TrialRow, index: int, measurements: tuple[MeasurementRow, ...], read: Reader
) -> ReportRow:
    here = (trial.number, index)
    own = [
        row
        for row in measurements
        if (row.trial, row.workload_index) == here and row.kind is not MeasurementKind.CONTROL
    ]
    finished = [row for row in own if row.kind is MeasurementKind.MEASURE and row.finished]
    warmups = [row for row in own if row.kind is MeasurementKind.WARMUP and row.finished]
    by_verdict = {verdict: [row for row in finished if row.verdict is verdict] for verdict in Verdict}
    verdict = next((verdict for verdict in Verdict if by_verdict[verdict]), None)
    counted = by_verdict[verdict] if verdict in (Verdict.VALID, Verdict.SUSPECT) else []
    samples = [read(row) for row in counted]
    together = pooled(samples)
    spreads = {}
    for metric in METRICS:
        values = (metric.of(row.result) for row in counted)
        found = spread(value for value in values if value is not None)
        if found is not None:
            spreads[metric.key] = found
    return ReportRow(
        name=name,
        trial=trial,
        workload_index=index,
        workload=trial.workloads[index],
        verdict=verdict,
        repeats=tuple(counted),
        spreads=spreads,
        pooled=together,
        steady=steady(samples, trial.workloads[index]),
        client_programs=client_programs(counted),
        warmup_output_throughput=OUTPUT.of(warmups[-1].result) if warmups else None,
        notes=_notes(own, counted, together) + _beside(trial),
    )


def client_programs(rows: Iterable[MeasurementRow]) -> tuple[str, ...]:
    """Return each client that measured some of the rows once: `rust 0.33.0`, `python 0.32.0, preloaded`."""
    words = ((*row.client_program.partition(", "), row.client_version) for row in rows if row.client_program)
    return tuple(
        dict.fromkeys(one_line(f"{name} {version}{comma}{how}") for name, comma, how, version in words)
    )


def _beside(trial: TrialRow) -> tuple[str, ...]:
    if not trial.packed_with:
        return ()
    numbers = ", ".join(map(str, trial.packed_with))
    return (f"measured while trial {numbers} ran on other GPUs of {one_line(trial.host, 60)} (--pack)",)


def _notes(
    own: list[MeasurementRow], counted: list[MeasurementRow], together: Pooled | None
) -> tuple[str, ...]:
    """Return each different reason once, with the measurements that it is about.

    What is said of several repeats and differs by its numbers only is said of the first, for all.
    """
    about: dict[str, list[str]] = {}
    texts: dict[str, dict[str, None]] = {}
    enough = together is not None and together.requests >= thresholds().p99_samples
    for row in own:
        which = f"repeat {row.repeat}" if row.kind is MeasurementKind.MEASURE else "warm-up"
        if not row.finished:
            about.setdefault("no result yet", []).append(which)
            texts.setdefault("no result yet", {"no result yet": None})
            continue
        left_out = row.kind is MeasurementKind.MEASURE and row not in counted
        # A warm-up is short on purpose: only that it failed is worth a word.
        if row.kind is MeasurementKind.WARMUP and row.verdict is not Verdict.INVALID:
            continue
        settled = [found.text for found in row.findings if found.rule == "percentile-samples" and enough]
        for reason in (reason for reason in row.reasons if reason not in settled):
            text = one_line(f"{reason} ({row.verdict}, left out)" if left_out else reason, 200)
            key = _NUMBER.sub("#", text)
            about.setdefault(key, []).append(which)
            texts.setdefault(key, {}).setdefault(text)
    return tuple(_note(list(texts[key]), which) for key, which in about.items())


def _note(texts: list[str], which: list[str]) -> str:
    which = list(dict.fromkeys(which))
    if len(texts) == 1:
        return f"{', '.join(which)}: {texts[0]}"
    return f"{which[0]} (and likewise {', '.join(which[1:])}): {texts[0]}"
