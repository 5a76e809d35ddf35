"""From a run's report to entries: a configuration's valid rows together, each other row alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fleetbench.errors import one_line
from fleetbench.model import TrialState
from fleetbench.report import nearness
from fleetbench.report.entry import Entry, Status
from fleetbench.report.groups import Group, grouped, start_of
from fleetbench.report.loads import apart
from fleetbench.report.metrics import METRICS, PER_GPU, PER_JOULE, PER_USER
from fleetbench.report.per_request import Pooled
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import Finding, Json, MeasurementRow, Verdict
from fleetbench.results.statistics import nested_spread
from fleetbench.results.values import BenchResult
from fleetbench.telemetry.figures import figures, measures

_STATES = {
    TrialState.FAILED: Status.FAILED,
    TrialState.IMPLIED: Status.IMPLIED,
    TrialState.NOT_RUN: Status.NOT_RUN,
}
_OF_GPUS = "gpu_"  # how the figures that GPUs have begin (data/telemetry_figures.toml)
_WORST = (Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID)


def entries_of_run(report: Report) -> tuple[Entry, ...]:
    """Return the entries of a run, in the order of its trials."""
    found: list[tuple[int, int, Entry]] = []
    for workload in report.workloads:
        alike = [each for each in report.workloads if each.label == workload.label]
        load = one_line(apart(workload.label, workload, alike), 200)
        rows = report.of_workload(workload)
        groups = grouped(report, rows)
        together = [row for group in groups for row in group.rows]
        alone = [Group(name=row.name, rows=(row,), pooled=row.pooled) for row in rows if row not in together]
        for group in (*groups, *alone):
            first = group.rows[0]
            found.append((first.trial.number, first.workload_index, _entry(report, group, load)))
    return tuple(entry for *_, entry in sorted(found, key=lambda each: each[:2]))


def derived_values(result: BenchResult | None, telemetry: Mapping[str, Json], gpus: int) -> dict[str, float]:
    """Return the metrics of one measurement that no client reports, by key; what is unknown is left out.

    `gpus` is 0 where no GPU served. The second source's measures have its names
    (data/telemetry_figures.toml).
    """
    if result is None:
        return {}
    reported = dict(result.latencies) | {"failed": result.failed}
    found = {each.column: each.of(telemetry, reported) for each in measures()}
    output, tpot = result.output_throughput, result.latencies.get("median_tpot_ms")
    energy = telemetry.get("gpu_energy_j")
    tokens = telemetry.get("server_generation_tokens") or result.total_output_tokens
    found["mean_e2el_ms"] = result.latencies.get("mean_e2el_ms")
    found[PER_GPU.key] = output / gpus if output and gpus else None
    found[PER_USER.key] = 1000 / tpot if tpot else None
    if isinstance(energy, int | float) and energy > 0 and isinstance(tokens, int | float):
        found[PER_JOULE.key] = tokens / energy
    return {name: float(value) for name, value in found.items() if value is not None}


def _entry(report: Report, group: Group, load: str) -> Entry:
    first = group.rows[0]
    trial = first.trial
    repeats = [repeat for row in group.rows for repeat in row.repeats] or _left_out(report, first)
    gpus = len(trial.gpus.indices)
    gpu = trial.gpu_name or nearness.word(repeats, "gpu") or ""
    served_by = gpus if gpu else 0
    status, cause, advice = _standing(first, repeats)
    results = [repeat.result for repeat in repeats if repeat.result is not None]
    return Entry(
        source=report.run.id,
        run=report.run.id,
        place=f"trial {trial.number}, workload {first.workload_index}",
        name=group.name,
        model=report.run.repo or report.run.model,
        gpu=gpu,
        gpus=gpus,
        host=", ".join(dict.fromkeys(row.trial.host for row in group.rows)),
        config=trial.config,
        workload=first.workload,
        load=load,
        vllm_version=trial.vllm_version,
        client="; ".join(first.client_programs),
        status=status,
        cause=cause,
        advice=advice,
        repeats=len(repeats),
        completed=_sum(result.completed for result in results),
        failed=_sum(result.failed for result in results),
        values=_values(group, repeats, served_by),
        observations=_observations(repeats, group, served_by),
        pooled=_pooled(group) is not None,
        findings=_findings(repeats),
        warmup_output_tps=first.warmup_output_throughput,
        telemetry=_sampled(dict(_middles(repeats)), served_by),
        ceiling={
            key: value
            for key, value in zip(nearness.KEYS, nearness.together(repeats), strict=True)
            if value is not None
        },
        trial=trial.number,
        workload_index=first.workload_index,
        spec_hash=trial.spec_hash,
    )


def _left_out(report: Report, row: ReportRow) -> list[MeasurementRow]:
    """Return the measurements of a row none of which counts: shown, for what they are."""
    here = (row.trial.number, row.workload_index)
    return [
        found
        for found in report.measurements
        if (found.trial, found.workload_index) == here and found.kind.value == "measure" and found.finished
    ]


def _standing(row: ReportRow, repeats: Iterable[MeasurementRow]) -> tuple[Status, str, str]:
    state = _STATES.get(row.trial.state)
    failure = row.failure
    if row.verdict is not None and (state is None or row.valid):
        why = next((reason for repeat in repeats for reason in repeat.reasons), "")
        return Status(row.verdict.value), "" if row.valid else one_line(why, 300), ""
    cause = one_line(failure.cause, 300) if failure else ""
    return state or Status.UNMEASURED, cause, one_line(failure.advice, 300) if failure else ""


def _observations(
    repeats: Iterable[MeasurementRow], group: Group, gpus: int
) -> dict[str, tuple[Observation, ...]]:
    starts = {row.trial.number: start_of(row) for row in group.rows}
    found: dict[str, list[Observation]] = {}
    for repeat in repeats:
        for key, value in _of_repeat(repeat, gpus).items():
            start = starts.get(repeat.trial, "")
            found.setdefault(key, []).append(Observation(value=value, start=start, seed=repeat.seed))
    return {key: tuple(several) for key, several in found.items()}


def _of_repeat(repeat: MeasurementRow, gpus: int) -> dict[str, float]:
    reported = {metric.key: metric.of(repeat.result) for metric in METRICS}
    found = dict(repeat.result.latencies) if repeat.result is not None else {}
    found |= {key: value for key, value in reported.items() if value is not None}
    return found | derived_values(repeat.result, _sampled(repeat.telemetry, gpus), gpus)


def _sampled(telemetry: Mapping[str, Json], gpus: int) -> Mapping[str, Json]:
    """Leave out GPUs that had no part in it: a host's are sampled beside a server that its processors run."""
    return telemetry if gpus else {k: v for k, v in telemetry.items() if not k.startswith(_OF_GPUS)}


def _values(group: Group, repeats: Iterable[MeasurementRow], gpus: int) -> dict[str, float]:
    """Return the headlines: percentiles over all requests where they are to be had, else medians."""
    columns: dict[str, dict[int, list[float]]] = {}
    for repeat in repeats:
        for key, value in _of_repeat(repeat, gpus).items():
            columns.setdefault(key, {}).setdefault(repeat.trial, []).append(value)
    found = {key: nested_spread(list(starts.values())) for key, starts in columns.items()}
    medians = {key: spread.median for key, spread in found.items() if spread is not None}
    together = _pooled(group)
    return medians | dict(together.latencies if together is not None else {})


def _pooled(group: Group) -> Pooled | None:
    """Return the percentiles over all requests of a group; one of a single row has them in its row."""
    return group.rows[0].pooled if len(group.rows) == 1 else group.pooled


def _findings(repeats: Iterable[MeasurementRow]) -> tuple[Finding, ...]:
    """Return each rule's first finding at its worst, the worst first."""
    found: dict[tuple[str, Verdict], Finding] = {}
    for repeat in repeats:
        for finding in repeat.findings:
            found.setdefault((finding.rule, finding.verdict), finding)
    return tuple(sorted(found.values(), key=lambda finding: _WORST.index(finding.verdict)))


def _middles(repeats: Iterable[MeasurementRow]) -> Iterator[tuple[str, Json]]:
    rows = tuple(repeats)
    for name in figures():
        several = [value for row in rows if (value := row.telemetry.get(name)) is not None]
        numbers = [float(v) for v in several if isinstance(v, int | float) and not isinstance(v, bool)]
        if numbers:
            spread = nested_spread([numbers])
            yield name, spread.median if spread else None
        elif several:
            yield name, "; ".join(dict.fromkeys(one_line(str(value), 200) for value in several))


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
