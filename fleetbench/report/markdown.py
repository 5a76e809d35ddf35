"""A report as Markdown: readable as text, rendered by any forge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.model import TrialState
from fleetbench.report.columns import Cell
from fleetbench.report.entry_markdown import said_lines, table_parts
from fleetbench.report.finding import finding, headlines
from fleetbench.report.markdown_text import code, escaped, table
from fleetbench.report.observations import observations
from fleetbench.report.outcome import nothing_valid, unfinished
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.recommendation import Recommendation, leading
from fleetbench.report.summary import Report, ReportRow
from fleetbench.report.tables import tables_of
from fleetbench.report.terminal import certainty_table, nearness_table, terminal_table
from fleetbench.report.timeline import time_finding, time_table
from fleetbench.results import effective
from fleetbench.results.rows import TrialRow
from fleetbench.results.rules.table import thresholds

__all__ = ["code", "escaped", "markdown", "table"]


def markdown(
    report: Report,
    charts: Sequence[tuple[str, str]] = (),
    recommendations: Sequence[Recommendation] = (),
) -> str:
    """Given a report and its charts (path relative to the text, and finding), return the whole text.

    It begins with the recommendations that are a choice among several configurations.
    """
    return "\n\n".join(filter(None, _parts(report, charts, recommendations))) + "\n"


def _parts(
    report: Report, charts: Sequence[tuple[str, str]], recommendations: Sequence[Recommendation]
) -> Iterator[str]:
    run = report.run
    yield f"# {escaped(run.model)}: {run.kind.value} {escaped(run.id)}"
    yield table(("what", "value"), list(_about(report)))
    if note := unfinished(run):
        yield f"{note}."
    yield "\n\n".join(f"**{escaped(sentence, 1000)}**" for sentence in leading(recommendations))
    yield "## What the numbers say"
    entries = entries_of_run(report)
    lines = [f"- {escaped(finding(report, metric))}" for metric in headlines(report)]
    said = said_lines(observations(entries, run.state))
    yield "\n".join([*lines, *said]) or f"{nothing_valid(entries, run.state)}."
    yield "## Results"
    wide = terminal_table(report)
    yield table(wide.columns, wide.rows) if wide.rows else "There is no row."
    if any(row.spreads for row in report.rows):
        yield _legend(report)
    for found in tables_of(entries):
        yield from table_parts(found, f"## {escaped(found.title)}")
    yield from _certainty(report)
    yield from _nearness(report)
    yield from _time(report)
    yield from _effective(report)
    yield from _failures(report)
    yield from _notes(report)
    if charts:
        yield "## Charts"
    yield from (f"![{escaped(sentence)}]({path})" for path, sentence in charts)


def _about(report: Report) -> Iterator[tuple[str, Cell]]:
    run = report.run
    yield "run", run.id
    yield "state", f"{run.state.value}: {run.note}" if run.note else run.state.value
    yield "model", run.repo or run.model
    yield "hosts", ", ".join(run.hosts)
    yield "started, ended (UTC)", f"{run.created_at}, {run.ended_at or 'not ended'}"
    versions = sorted({trial.vllm_version for trial in report.trials if trial.vllm_version})
    yield "vLLM", ", ".join(versions) or "unknown"
    if len(report.workloads) == 1:
        yield "workload", report.workloads[0].label
    counted = sum(row.valid for row in report.rows)
    yield "rows", f"{len(report.rows)}, of which {counted} valid"
    yield "fleetbench", run.fleetbench_version


def _legend(report: Report) -> str:
    suspect = any(row.spreads and not row.valid for row in report.rows)
    return (
        f"{'Numbers with ? are of suspect rows, and never ranked. ' if suspect else ''}"
        "Each throughput is the median of the repeats that count. "
        f"{_percentiles(report)} "
        f"A p99 in brackets rests on fewer than {thresholds().p99_samples:,} requests. "
        "The interval holds the typical output tok/s with 95 % confidence, "
        "±% is the coefficient of variation. "
        "Steady is the output tok/s without filling up and draining, "
        "warm-up that of the warm-up, which never counts. "
        "Minimum, maximum and more are in `summary.csv`, each measurement in `measurements.csv`."
    )


def _percentiles(report: Report) -> str:
    """Say what the percentiles are over: not every run has kept its requests."""
    counted = [row for row in report.rows if row.spreads]
    together = sum(row.pooled is not None for row in counted)
    if together == len(counted):
        return "p50 and p99 are over the requests of all these repeats together."
    if not together:
        return "p50 and p99 are medians of each repeat's own: the single requests are not to be had."
    return (
        f"p50 and p99 are over the requests of all these repeats together in {together} rows, and medians of "
        "each repeat's own in the others."
    )


def _certainty(report: Report) -> Iterator[str]:
    found = certainty_table(report)
    if not found.rows:
        return
    yield "## How sure the numbers are"
    yield table(found.columns, found.rows)
    starts = found.columns.index("starts")
    restarts = (
        "Each configuration was started once, so the noise between starts is not in these intervals."
        if all(row[starts] == 1 for row in found.rows)
        else "Where a configuration was started several times, its interval is made of the starts: "
        "repeats of one start share what that start happened to be."
    )
    yield (
        "±% repeats is the noise within one server's life, ±% starts that between lives, that of the repeats "
        f"taken off. {restarts} How intervals and comparisons are made is in docs/statistics.md."
    )


def _nearness(report: Report) -> Iterator[str]:
    found = nearness_table(report)
    if found.rows:
        yield "## How near it came to what the hardware can do"
        yield table(found.columns, found.rows)
        yield (
            "Of ceiling is the output tok/s against all reading, arithmetic and sending overlapped, "
            "of strict against what nothing can exceed. "
            "Decode and prefill are shares of what each alone would come to. "
            "What is assumed, and what binds when, is in docs/ceiling.md."
        )


def _time(report: Report) -> Iterator[str]:
    if report.timeline is None and not report.timeline_problem:
        return
    yield "## Where the time went"
    if report.timeline is None:
        yield f"Not known: {escaped(report.timeline_problem)}"
        return
    found = time_table(report.timeline)
    yield f"{escaped(time_finding(report.timeline))}."
    yield table(found.columns, found.rows)


def _effective(report: Report) -> Iterator[str]:
    names = {row.trial.number: row.name for row in report.rows}
    ran = [trial for trial in report.trials if effective.known(trial.effective)]
    if ran:
        yield "## What the servers ran with"
        yield table(
            ("configuration", *(name for name, _ in effective.COLUMNS)),
            [(names.get(trial.number, ""), *effective.cells(trial.effective)) for trial in ran],
        )
        yield (
            "Read back from each server when it was ready: its log, /v1/models, /version and /metrics. "
            "KV tokens and full-length requests are those of all its engines together."
        )


def _failures(report: Report) -> Iterator[str]:
    """What failed, and apart from it what was never started: that is no error of a server."""
    there = [trial for trial in report.trials if trial.failure is not None]
    untried = [trial for trial in there if trial.state in (TrialState.NOT_RUN, TrialState.IMPLIED)]
    failed = [trial for trial in there if trial not in untried]
    names = {row.trial.number: row.name for row in report.rows}
    for heading, trials in (("What did not work", failed), ("What was not tried", untried)):
        if trials:
            yield f"## {heading}"
        for trial in trials:
            yield from failure_lines(names.get(trial.number, ""), trial)


def failure_lines(name: str, trial: TrialRow) -> Iterator[str]:
    """Yield what became of a trial, the line that tells and what to do, where it failed."""
    failure = trial.failure
    if failure is None:
        return
    lines = [f"- **{escaped(name)}** ({trial.state.value}): {escaped(failure.cause)}"]
    if failure.evidence:
        lines.append(f"  - evidence: {code(failure.evidence)}")
    if failure.advice:
        lines.append(f"  - next: {escaped(failure.advice)}")
    yield "\n".join(lines)


def _notes(report: Report) -> Iterator[str]:
    noted: list[ReportRow] = [row for row in report.rows if row.notes]
    if noted:
        yield "## Notes"
    several = len(report.workloads) > 1
    for row in noted:
        where = f"{row.name}, {row.workload.label}" if several else row.name
        yield "\n".join([f"- {escaped(where)}", *(f"  - {escaped(note)}" for note in row.notes)])
