"""What is behind the rows of a run: verdicts, repeats, commands, units, journals, versions. Pure, but for
what `Kept` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleetbench.errors import one_line, without_secrets
from fleetbench.report.entry import Entry, Status
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.values import Evidence, Grid, Link, Pair, Said, TrialEvidence
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.report.nearness import column
from fleetbench.report.summary import Report, ReportRow, served
from fleetbench.results import effective
from fleetbench.results.imports.render import finding_object
from fleetbench.results.rows import Finding, Json, MeasurementKind, MeasurementRow, TrialRow, Verdict
from fleetbench.telemetry.figures import figures

_SHOWN = ("output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms")
_REPEAT_METRICS = tuple(metric for metric in METRICS if metric.key in _SHOWN)
_PACKAGES = ("vllm", "torch", "flashinfer-python", "transformers")


def rows_of(report: Report, entry: Entry) -> tuple[ReportRow, ...]:
    """Return the rows that an entry was made of: of several starts of a configuration, all valid ones."""
    own = [
        row
        for row in report.rows
        if (row.trial.number, row.workload_index) == (entry.trial, entry.workload_index)
    ]
    if not entry.valid or not own:
        return tuple(own)
    alike = served(own[0].trial)
    return tuple(
        row
        for row in report.rows
        if row.valid and row.workload == own[0].workload and served(row.trial) == alike
    )


def of_entry(report: Report, entry: Entry, kept: Kept) -> Evidence:
    """Return what is behind an entry of a run."""
    rows = rows_of(report, entry)
    failure = rows[0].failure if rows else None
    here = {(row.trial.number, row.workload_index) for row in rows}
    measured = [row for row in report.measurements if (row.trial, row.workload_index) in here]
    return Evidence(
        cause=entry.cause,
        decisive=without_secrets(one_line(failure.evidence, 1000)) if failure else "",
        advice=entry.advice,
        said=said(entry.findings),
        notes=tuple(dict.fromkeys(note for row in rows for note in row.notes)),
        repeats=_repeats(measured, several=len(rows) > 1),
        reported=tuple(reported(entry)),
        figures=(*telemetry(entry.telemetry), *ceiling(entry.ceiling)),
        command=_command(measured, kept),
    )


def of_trial(report: Report, trial: TrialRow, kept: Kept) -> TrialEvidence:
    """Return what the rows of a trial have in common."""
    place = f"trial-{trial.number:02d}"
    failure = trial.failure
    journal_name, journal = kept.journal(place, failure.evidence if failure else "")
    return TrialEvidence(
        number=trial.number,
        title=f"Trial {trial.number}: {one_line(trial.config.label)} on {one_line(trial.host)}",
        facts=tuple(_facts(trial)),
        versions=_versions(kept.document(place, "versions.json")),
        unit_name=one_line(trial.unit_name),
        unit=_text(trial.unit_text),
        journal_name=journal_name,
        journal=journal,
        files=(*kept.files(place), *_directories(report, trial, kept)),
    )


def said(findings: Iterable[Finding]) -> tuple[Said, ...]:
    """Return findings as the page shows them, with what to do about those that speak against a row."""
    return tuple(_said(finding) for finding in findings)


def reported(entry: Entry) -> Iterator[Pair]:
    """Yield what was reported of an invalid entry, and says nothing about the configuration."""
    if entry.status is Status.INVALID:
        for metric in METRICS:
            if (value := entry.value(metric)) is not None:
                yield Pair(metric.title, f"{metric.shown(value)} {metric.unit}")


def telemetry(found: Mapping[str, Json]) -> Iterator[Pair]:
    """Yield the figures of the telemetry, in their order."""
    for name in figures():
        if (value := found.get(name)) is not None:
            yield Pair(name, _cell(value))


def ceiling(found: Mapping[str, Json]) -> Iterator[Pair]:
    """Yield how near an entry came to what its hardware can do."""
    for name, value in found.items():
        if value is not None:
            yield Pair(column(name), _cell(value))


def _said(finding: Finding) -> Said:
    rule = finding_object(finding)
    numbers = ", ".join(f"{name} = {value:,.6g}" for name, value in finding.numbers.items())
    return Said(
        rule=one_line(finding.rule, 60),
        verdict="remark" if finding.verdict is Verdict.VALID else finding.verdict.value,
        text=one_line(finding.text, 500),
        numbers=one_line(numbers, 500),
        action="" if finding.verdict is Verdict.VALID else one_line(str(rule["action"]), 500),
    )


def _repeats(measured: Sequence[MeasurementRow], *, several: bool) -> Grid | None:
    if not measured:
        return None
    columns = (
        "measurement",
        "verdict",
        *(metric.heading for metric in _REPEAT_METRICS),
        "answered",
        "failed",
    )
    columns = (*columns, "seed", "client", "raw files")
    rows = tuple(tuple(_repeat(row, several=several)) for row in measured)
    numeric = (False, False, *(True for _ in _REPEAT_METRICS), True, True, True, False, False)
    return Grid(title="Repeats", columns=columns, rows=rows, numeric=numeric)


def _repeat(row: MeasurementRow, *, several: bool) -> Iterator[str]:
    kind = "repeat" if row.kind is MeasurementKind.MEASURE else row.kind.value
    yield f"trial {row.trial}, {kind} {row.repeat}" if several else f"{kind} {row.repeat}"
    counts = row.kind is MeasurementKind.MEASURE
    verdict = row.verdict.value if row.verdict else "no result yet"
    yield verdict if counts else f"{verdict}, never counts"
    yield from (_number(metric, row) for metric in _REPEAT_METRICS)
    result = row.result
    yield from (_cell(result.completed if result else None), _cell(result.failed if result else None))
    yield str(row.seed)
    yield one_line(f"{row.client_program} {row.client_version} on {row.client}", 100)
    yield one_line(row.directory, 200)


def _number(metric: Metric, row: MeasurementRow) -> str:
    return metric.shown(metric.of(row.result))


def _command(measured: Sequence[MeasurementRow], kept: Kept) -> str:
    """Return the client's command of the first repeat; the others have another seed."""
    counted = [row for row in measured if row.kind is MeasurementKind.MEASURE]
    for row in counted:
        command = kept.document(row.directory, "client.json").get("command")
        if isinstance(command, str) and command:
            return without_secrets(one_line(command, 4000))
    return ""


def _facts(trial: TrialRow) -> Iterator[Pair]:
    yield Pair("host", one_line(trial.host))
    names = f" ({one_line(trial.gpu_name)})" if trial.gpu_name else ""
    yield Pair("GPUs" if names else "devices", f"{trial.gpus or 'none'}{names}")
    yield Pair("state", trial.state.value)
    if trial.vllm_version:
        yield Pair("vLLM", one_line(trial.vllm_version))
    if trial.ready_s is not None:
        yield Pair("ready after", f"{trial.ready_s:,.1f} s")
    if trial.started_at:
        yield Pair("started, ended (UTC)", one_line(f"{trial.started_at}, {trial.ended_at or 'not ended'}"))
    if trial.spec_hash:
        yield Pair("spec hash", one_line(trial.spec_hash))
    if effective.known(trial.effective):
        yield Pair("ran with", effective.sentence(trial.effective))


def _versions(document: Mapping[str, Json]) -> Grid | None:
    sides = {name: side for name in ("server", "client") if isinstance(side := document.get(name), dict)}
    if not sides:
        return None
    told = {name: dict(_versions_of(side)) for name, side in sides.items()}
    rows = tuple(
        (what, *(told[name].get(what, "–") for name in sides))
        for what in dict.fromkeys(what for side in told.values() for what in side)
    )
    return Grid(title="Versions", columns=("what", *sides), rows=rows, numeric=(False,) * (1 + len(sides)))


def _versions_of(side: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key in ("host", "os", "kernel", "driver", "cuda", "python", "glibc"):
        if side.get(key):
            yield {"os": "system", "cuda": "CUDA"}.get(key, key), _cell(side[key])
    gpus = side.get("gpus")
    if isinstance(gpus, list) and gpus:
        yield (
            "GPUs",
            ", ".join(f"{count}× {one_line(str(name), 80)}" for name, count in Counter(gpus).items()),
        )
    packages = side.get("packages")
    if isinstance(packages, dict):
        yield from ((name, _cell(packages[name])) for name in _PACKAGES if packages.get(name))


def _text(text: str) -> str:
    lines = ("".join(c if c.isprintable() else " " for c in line) for line in text.splitlines())
    return without_secrets("\n".join(lines))


def _directories(report: Report, trial: TrialRow, kept: Kept) -> Iterator[Link]:
    for row in report.measurements:
        if row.trial == trial.number and row.directory:
            yield from kept.directory_link(row.directory)


def _cell(value: Json) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return one_line(str(value), 300)
