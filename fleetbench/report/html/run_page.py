"""A run as a page: what to deploy, the findings, every configuration with its evidence, charts. Pure but for
what `Kept` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fleetbench import __version__
from fleetbench.errors import one_line
from fleetbench.report.columns import Table
from fleetbench.report.entry import Entry, Status, of_load, ranked
from fleetbench.report.finding import about_workload, clear_winner, finding, headlines
from fleetbench.report.html.evidence import of_entry, of_trial, rows_of
from fleetbench.report.html.grids import grid, grid_of_entries
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.table import results
from fleetbench.report.html.values import Answer, Figure, Grid, Page, Pair
from fleetbench.report.metrics import METRICS, OUTPUT, PER_GPU
from fleetbench.report.observations import observations
from fleetbench.report.outcome import nothing_valid, unfinished
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.recommendation import Recommendation
from fleetbench.report.summary import Report
from fleetbench.report.tables import tables_of
from fleetbench.report.terminal import certainty_table, nearness_table, rests_on_few
from fleetbench.report.timeline import time_finding, time_table
from fleetbench.results import effective
from fleetbench.results.rules.table import thresholds

_TILES = (OUTPUT, PER_GPU, *(m for m in METRICS if m.key in ("p99_ttft_ms", "median_tpot_ms")))


def page_of_run(
    report: Report,
    kept: Kept,
    *,
    recommendations: Sequence[Recommendation] = (),
) -> Page:
    """Return the page of a run.

    Args:
        kept: the run's directory, and where the page will lie.
        recommendations: what to deploy; without a choice among several the page leads with what the
            numbers say.
    """
    planned = entries_of_run(report)
    entries = in_order(planned)
    advice = advised(recommendations, _row_id)
    few = _few(report, entries)
    trials = {entry.place: tuple(row.trial.number for row in rows_of(report, entry)) for entry in entries}
    best = _clear_best(report)
    answers = advice or (_said(report, entries),)
    said = observations(planned, report.run.state)
    found = [*_findings(report), *(one_line(each.text, 1000) for each in said)]
    return Page(
        title=one_line(report.run.model, 120),
        kind=f"{report.run.kind.value} report",
        subtitle=_subtitle(report, entries),
        about=tuple(_about(report)),
        answers=answers,
        advised=bool(advice),
        findings=tuple(text for text in found if text not in {answer.headline for answer in answers}),
        warning=f"{missing}." if (missing := unfinished(report.run)) else "",
        results=results(
            entries,
            [_row_id(entry) for entry in entries],
            lambda entry: of_entry(report, entry, kept),
            trials=lambda entry: trials[entry.place],
            best=lambda entry: entry.valid and (entry.trial, entry.workload_index) in best,
            few=lambda entry, metric: (entry.place, metric.key) in few,
            notes=tuple(notes(entries, any_few=bool(few))),
        ),
        grids=(*(grid_of_entries(found, found.title) for found in tables_of(planned)), *_grids(report)),
        trials=tuple(of_trial(report, trial, kept) for trial in report.trials),
        version=__version__,
    )


def _few(report: Report, entries: Sequence[Entry]) -> set[tuple[str, str]]:
    return {
        (entry.place, metric.key)
        for entry in entries
        for metric in METRICS
        if any(rests_on_few(row, metric) for row in rows_of(report, entry)[:1])
    }


def _clear_best(report: Report) -> set[tuple[int, int]]:
    found = set()
    for workload in report.workloads:
        winner = clear_winner(report, report.of_workload(workload), OUTPUT)
        found |= {(row.trial.number, row.workload_index) for row in winner.rows} if winner else set()
    return found


def _subtitle(report: Report, entries: Sequence[Entry]) -> str:
    gpus = Counter({entry.gpu: 0 for entry in entries if entry.gpu})
    for entry in entries:
        if entry.gpu and entry.gpus:
            gpus[entry.gpu] = max(gpus[entry.gpu], entry.gpus)
    versions = sorted({trial.vllm_version for trial in report.trials if trial.vllm_version})
    hosts = len(report.run.hosts)
    parts = [
        report.run.created_at[:10],
        report.run.hosts[0] if hosts == 1 else f"{hosts} hosts",
        *(f"up to {count}× {name}" for name, count in gpus.items()),
        f"vLLM {', '.join(versions)}" if versions else "",
        report.workloads[0].label if len(report.workloads) == 1 else f"{len(report.workloads)} workloads",
    ]
    return " · ".join(one_line(part, 120) for part in parts if part)


def _about(report: Report) -> Iterator[Pair]:
    run = report.run
    yield Pair("run", one_line(run.id))
    yield Pair("state", one_line(f"{run.state.value}: {run.note}" if run.note else run.state.value, 300))
    yield Pair("model", one_line(run.repo or run.model))
    if run.sweep:
        yield Pair("sweep", one_line(run.sweep))
    yield Pair("hosts", one_line(", ".join(run.hosts), 1000))
    yield Pair("started, ended (UTC)", one_line(f"{run.created_at}, {run.ended_at or 'not ended'}"))
    for workload in report.workloads:
        yield Pair("workload", one_line(workload.label, 300))
    if run.fleetbench_version:
        yield Pair("measured by", f"fleetbench {one_line(run.fleetbench_version)}")


def advised(recommendations: Sequence[Recommendation], row_id: Callable[[Entry], str]) -> tuple[Answer, ...]:
    """Return what a page leads with of its recommendations."""
    return tuple(_advice(found, row_id) for found in recommendations if found.leads)


def _advice(found: Recommendation, row_id: Callable[[Entry], str]) -> Answer:
    best = found.best.entry if found.best else None
    return Answer(
        question=found.question if found.slo else f"{found.question}, without an SLO",
        headline=found.sentence,
        reasons=found.reasons[1:],
        changes=found.sensitivity,
        figures_title=found.best.where if found.best else "",
        figures=tuple(_figures(best)) if best else (),
        row=row_id(best) if best and best.trial is not None else "",
    )


def _said(report: Report, entries: Sequence[Entry]) -> Answer:
    order = ranked(entries)
    if not order:
        each = "Each row below says what speaks against it, or why it was not measured."
        headline = nothing_valid(entries, report.run.state)
        return Answer(headline=headline, reasons=(each,) if entries else ())
    if len(of_load(entries)) > 1:
        return Answer(headline=finding(report, OUTPUT))
    return Answer(
        headline=finding(report, OUTPUT),
        figures_title=f"{order[0].name}, highest measured output throughput",
        figures=tuple(_figures(order[0])),
        row=_row_id(order[0]),
    )


def _findings(report: Report) -> Iterator[str]:
    metrics = headlines(report)
    for metric in metrics:
        yield finding(report, metric)
    ranks = any(sum(row.valid for row in report.of_workload(each)) > 1 for each in report.workloads)
    if metrics and len(report.workloads) > 1 and ranks:
        for workload in report.workloads:
            sentence = about_workload(report, report.of_workload(workload), OUTPUT)
            yield f"{one_line(workload.label)}: {sentence}"
    if report.timeline is not None:
        yield time_finding(report.timeline)
    elif report.timeline_problem:
        yield f"Where the time went is not known: {report.timeline_problem}"


def _figures(entry: Entry) -> Iterator[Figure]:
    for metric in _TILES:
        if (value := entry.value(metric)) is not None:
            yield Figure(label=_first_upper(metric.title), value=metric.shown(value), unit=metric.unit)


def in_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries load by load, in each the valid ones first, the best at the top."""
    found: list[Entry] = []
    for group in of_load(entries).values():
        best = ranked(group)
        others = [entry for entry in group if entry not in best]
        found += (*best, *sorted(others, key=lambda entry: list(Status).index(entry.status)))
    return tuple(found)


def _row_id(entry: Entry) -> str:
    return f"row-{entry.trial}-{entry.workload_index}"


def notes(entries: Sequence[Entry], *, any_few: bool) -> Iterator[str]:
    """Yield what has to be known to read the table of rows."""
    yield (
        "Each throughput is the median of the repeats. Only valid rows are ranked or recommended; "
        "charts draw suspect ones hollow."
    )
    if any(not entry.valid and entry.values for entry in entries):
        yield "A number with ? belongs to a suspect row: something speaks against it, and it is not ranked."
    if any_few:
        yield f"A p99 in brackets rests on fewer than {thresholds().p99_samples:,} requests."


def _grids(report: Report) -> Iterator[Grid]:
    sure = certainty_table(report)
    if sure.rows:
        yield grid(
            "How sure the numbers are",
            sure,
            "±% repeats is the noise within one server's life, ±% starts that between lives.",
        )
    near = nearness_table(report)
    if near.rows:
        yield grid("How near it came to what the hardware can do", near)
    names = {row.trial.number: row.name for row in report.rows}
    ran = [trial for trial in report.trials if effective.known(trial.effective)]
    if ran:
        columns = ("configuration", *(name for name, _ in effective.COLUMNS))
        rows = tuple((names.get(trial.number, ""), *effective.cells(trial.effective)) for trial in ran)
        yield grid("What the servers ran with", Table(columns, rows), "Read back when each was ready.")
    if report.timeline is not None:
        yield grid("Where the time went", time_table(report.timeline))


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
