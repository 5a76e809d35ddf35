"""`fleetbench report`: a run, or several, as tables on the terminal, and as files with charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import not_empty
from fleetbench.errors import UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleetbench.drawing.drawers import Drawers
    from fleetbench.report.observations import Said
    from fleetbench.report.recommendation import Recommendation
    from fleetbench.report.summary import Report
    from fleetbench.report.tables import EntryTable

FORMATS = ("table", "markdown", "json", "csv")
IMPORTED = "imported"
# Tables that a terminal has room for; the others are in report.md.
_ON_TERMINAL = ("matrix", "strategies", "concurrency", "scaling")


@click.command()
@click.argument("runs", metavar="[RUN|latest|imported[/SOURCE]]...", nargs=-1)
@click.option(
    "--model",
    metavar="NAME",
    default="",
    callback=not_empty,
    help="All finished runs of a model, instead of RUN.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for the files; default: report/ in the run's; of several runs, reports/NAME beside them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="What is printed; the files are the same.",
)
@click.option(
    "--slo",
    default="",
    metavar="LIMITS",
    callback=not_empty,
    help="Latencies not to exceed, as in `recommend --slo`: for the recommendation, and drawn in the curves.",
)
def report(runs: tuple[str, ...], model: str, output: Path | None, form: str, slo: str) -> None:
    """Report on a run, or on several: every configuration, measured or failed, with its verdict.

    Prints the report and writes report.html, report.md, summary.csv, measurements.csv and charts/*.png.
    report.html is one file that needs no network and no other file: open it, or send it to somebody. RUN is
    an id, the beginning of one, or `latest` (the default). --format json and csv print one row for each
    workload of each configuration, as in summary.csv.

    Several runs are one report: models and kinds of GPU side by side, splits and versions of vLLM against
    each other, each row named by what tells it apart. Rows are ranked where they are of one model and were
    sent the same requests by the same client. --model takes all finished runs of a model.

    `imported` reports on what `fleetbench import` brought in, table by table with each source's own ranking
    and what the verdicts leave of it, as report.html, report.md and imported.csv; `imported/SOURCE` on one
    source. Beside runs they have sections of their own, and are never ranked with them. docs/reports.md has
    every table and sentence.
    """
    own = tuple(run for run in runs if run.partition("/")[0] != IMPORTED)
    sources = tuple(run.partition("/")[2] for run in runs if run not in own)
    _refuse_misspelt(own)
    if model:
        own = _of_model(model, own)
    from fleetbench.drawing.drawers import Drawers

    with Drawers() as drawers:
        drawers.start()  # they come up while the rest is imported and the rows are read
        if sources and not own:
            _report_imported(sources, output, form, drawers)
        elif sources or len(own) > 1:
            from fleetbench.commands.report_several import report_several

            report_several(own, sources, output, form, slo, drawers)
        else:
            _report_run(own[0] if own else "latest", output, form, slo, drawers)


def _refuse_misspelt(runs: Iterable[str]) -> None:
    from fleetbench.commands.nearest import refuse_misspelt

    for run in runs:
        refuse_misspelt(run)


def _of_model(model: str, runs: Sequence[str]) -> tuple[str, ...]:
    from fleetbench.report.together.files import runs_of_model
    from fleetbench.results.store import open_store

    if runs:
        raise UsageError("--model and RUN exclude each other", next_step="give one of them")
    with open_store(create=False) as store:
        return runs_of_model(store, model)


def _report_run(run: str, output: Path | None, form: str, slo: str, drawers: Drawers) -> None:
    from fleetbench.choice.recommend import recommendations
    from fleetbench.choice.slo import parse_slo
    from fleetbench.report.columns import summary_table
    from fleetbench.report.csv_text import csv_text
    from fleetbench.report.files import read_report, write_files
    from fleetbench.report.own_entries import entries_of_run
    from fleetbench.results.store import open_store

    with open_store(create=False) as store:
        found = read_report(store, run)
        raw = store.directory(found.run.id)
    bounds = parse_slo(slo)
    advice = recommendations(entries_of_run(found), bounds)
    limits = {bound.key: bound.limit_ms for bound in bounds.bounds}
    paths = write_files(found, output or raw / "report", raw, advice, limits, drawers)
    if form == "json":
        console.print_json(summary_table(found).objects())
    elif form == "csv":
        console.write(csv_text(summary_table(found)))
    elif form == "markdown":
        console.write(paths.markdown.read_text())
    else:
        print_report(found, advice)
    charts = f", {len(paths.charts)} charts" if paths.charts else ""
    console.progress(f"report: {paths.page} (with report.md, summary.csv, measurements.csv{charts})")


def _report_imported(sources: Sequence[str], output: Path | None, form: str, drawers: Drawers) -> None:
    from fleetbench.commands.report_several import each_once
    from fleetbench.report.csv_text import csv_text
    from fleetbench.report.imported import (
        heading,
        imported_markdown,
        imported_table,
        imported_tables,
        read_imported,
        write_imported,
    )
    from fleetbench.report.imported_entries import entries_of_import
    from fleetbench.report.observations import observations
    from fleetbench.results.imports.render import COLUMNS, counted, documents, table_rows
    from fleetbench.results.store import open_store

    with open_store(create=False) as store:
        found = each_once(read_imported(store, source) for source in sources)
        path = write_imported(store, found, output, drawers, chosen="" not in sources)
    if form == "json":
        console.print_json([row for about, rows in found for row in documents(about, rows)])
    elif form == "csv":
        console.write(csv_text(imported_table(found)))
    elif form == "markdown":
        console.write(imported_markdown(found))
    else:
        for about, rows in found:
            console.write(f"{about.id}: {counted(rows)}\n")
            console.print_table(COLUMNS, table_rows(rows))
            entries = entries_of_import(about, rows)
            for table in imported_tables(entries):
                _print_entry_table(table, heading(table))
            _print_said(observations(entries))
            console.write("")
    console.progress(f"report: {path} (with report.md, imported.csv, charts)")


def _print_entry_table(table: EntryTable, heading: str) -> None:
    from fleetbench.report.observations import table_observations

    console.write(f"\n{one_line(heading, 200)}\n")
    console.print_table(table.table.columns, table.table.rows)
    for note in table.notes:
        console.write(f"  {one_line(note, 1000)}")
    _print_said(table_observations(table))


def _print_said(said: Iterable[Said]) -> None:
    for each in said:
        console.write(f"- {one_line(each.text, 1000)}")


def _print_failures(found: Report) -> None:
    for trial in found.trials:
        failure = trial.failure
        if failure is not None:
            name = next((row.name for row in found.rows if row.trial is trial), f"#{trial.number}")
            console.write(f"\n{name}, {trial.state.value}: {one_line(failure.cause)}")
            if failure.evidence:
                console.write(f"  evidence: {one_line(failure.evidence)}")
            if failure.advice:
                console.write(f"  next:     {one_line(failure.advice)}")


def print_report(found: Report, recommendations: Sequence[Recommendation] = ()) -> None:
    """Write a report to the terminal: what to deploy, table, splits, causes of failures, notes, findings."""
    from fleetbench.report.finding import finding, headlines
    from fleetbench.report.observations import observations
    from fleetbench.report.outcome import nothing_valid, unfinished
    from fleetbench.report.own_entries import entries_of_run
    from fleetbench.report.recommendation import leading
    from fleetbench.report.tables import tables_of
    from fleetbench.report.terminal import terminal_table
    from fleetbench.report.timeline import time_finding, time_table

    run = found.run
    workload = f", {found.workloads[0].label}" if len(found.workloads) == 1 else ""
    console.write(f"{run.id}: {one_line(run.repo or run.model)}{one_line(workload)} ({run.state.value})\n")
    entries = entries_of_run(found)
    for sentence in leading(recommendations):
        console.write(f"{one_line(sentence, 1000)}\n")
    if missing := unfinished(run):
        console.write(f"{missing}.\n")
    if not found.rows:
        console.write(f"{nothing_valid(entries, run.state)}.")
        return
    table = terminal_table(found)
    console.print_table(table.columns, table.rows)
    for each in filter(lambda each: each.kind in _ON_TERMINAL, tables_of(entries)):
        _print_entry_table(each, each.title)
    _print_failures(found)
    for row in found.rows:
        where = f"{row.name}, {row.workload.label}" if len(found.workloads) > 1 else row.name
        if row.notes:
            console.write("\n".join([f"\n{one_line(where)}", *(f"  {note}" for note in row.notes)]))
    console.write("")
    for metric in headlines(found):
        console.write(f"- {finding(found, metric)}")
    _print_said(observations(entries, run.state))
    if found.timeline is not None:
        console.write(f"- {time_finding(found.timeline)}\n")
        times = time_table(found.timeline)
        console.print_table(times.columns, times.rows)
    elif found.timeline_problem:
        console.write(f"- where the time went is not known: {found.timeline_problem}")
