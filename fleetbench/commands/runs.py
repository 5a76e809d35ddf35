"""`fleetbench runs`: what was measured so far, and one run in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.errors import FleetbenchError, Unreadable, one_line
from fleetbench.model import TrialState

if TYPE_CHECKING:
    from fleetbench.report.columns import Cell
    from fleetbench.results.rows import RunRow
    from fleetbench.results.store import Store

MOST_LISTED = 100  # rows that somebody looks through
# Columns that a narrow terminal does without, the first one first: an id says when, and which model.
_SPARE = ("ended", "started", "kind", "hosts", "measured", "model", "note")

_form = click.option(
    "--format",
    "form",
    type=click.Choice(console.FORMATS),
    default="table",
    show_default=True,
    help="A table for people, JSON or CSV for programs.",
)


_all = click.option(
    "--all", "every", is_flag=True, help=f"All runs; a table has the newest {MOST_LISTED} else."
)


@click.group(invoke_without_command=True)
@_form
@_all
@click.pass_context
def runs(ctx: click.Context, form: str, every: bool) -> None:
    """List the stored runs, the newest first; `runs show RUN` shows one, `runs add FILE` takes one in.

    The store is in ./runs, or where FLEETBENCH_RUNS (directory) and FLEETBENCH_DB (database URL) say.
    """
    if ctx.invoked_subcommand is None:
        _list(form, every)


@runs.command("list")
@_form
@_all
def list_runs(form: str, every: bool) -> None:
    """List the stored runs, the newest first."""
    _list(form, every)


def _list(form: str, every: bool) -> None:
    from fleetbench.results.store import open_store

    columns = ("run", "kind", "state", "model", "hosts", "trials", "measured", "started", "ended", "note")
    most = None if every or form != "table" else MOST_LISTED
    with open_store(create=False) as store:
        listed = store.runs(most)
        total: dict[str, int] = {}
        measured: dict[str, int] = {}
        for found in store.trial_counts(None if most is None else [run.id for run in listed]):
            total[found.run_id] = total.get(found.run_id, 0) + found.count
            if found.state is TrialState.MEASURED:
                measured[found.run_id] = found.count
        rows = [_run_cells(run, total, measured) for run in listed]
        imports = store.imports()
    if rows or form != "table":
        _print(columns, rows, form)
    else:
        console.write("no runs yet: `invoke bench` or `invoke sweep` makes one")
    if len(rows) == most:
        console.progress(f"runs: the newest {most}; --all lists all")
    if imports and form == "table":
        number = sum(source.rows for source in imports)
        console.write(f"\napart from them, {number} imported rows: fleetbench runs imported")


def _print(columns: tuple[str, ...], rows: list[tuple[Cell, ...]], form: str) -> None:
    from fleetbench.report.columns import Table
    from fleetbench.report.csv_text import csv_text

    if form == "csv":
        console.write(csv_text(Table(columns, tuple(rows))))
    else:
        console.print_rows(columns, rows, form=form, spare=_SPARE)


def _run_cells(run: RunRow, total: Mapping[str, int], measured: Mapping[str, int]) -> tuple[Cell, ...]:
    return (
        *(run.id, run.kind.value, run.state.value, one_line(run.model), one_line(" ".join(run.hosts))),
        *(total.get(run.id, 0), measured.get(run.id, 0)),
        *(one_line(run.created_at), one_line(run.ended_at) or None, one_line(run.note) or None),
    )


@runs.command("imported")
@click.argument("source", default="")
@_form
def list_imported(source: str, form: str) -> None:
    """List what `fleetbench import` brought in; with SOURCE (an id or its beginning), its rows."""
    from fleetbench.results.imports.render import COLUMNS, SOURCE_COLUMNS, documents, source_rows, table_rows
    from fleetbench.results.store import open_store

    with open_store(create=False) as store:
        if not source:
            console.print_rows(SOURCE_COLUMNS, source_rows(store.imports()), form=form, spare=("sha256",))
            return
        found = store.imported(source)
        rows = store.imported_rows(found.id)
    if form == "json":
        console.print_json(documents(found, rows))
    else:
        console.print_rows(COLUMNS, table_rows(rows), form=form)


@runs.command()
@click.argument("archives", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--unfinished",
    is_flag=True,
    help="Also a run that is not over: only from an own archive, its rows say what a resume does on hosts.",
)
def add(archives: tuple[Path, ...], unfinished: bool) -> None:
    """Add runs that `fleetbench export RUN --format archive` wrote, with their raw files.

    Every file is compared with the hash in the archive, every row with what a store can hold. A run that is
    there already stays as it is; one that is there with other content is refused. A FILE that cannot be added
    does not keep the others out; the exit status is 1 then.
    """
    from fleetbench.export.adding import add_archive
    from fleetbench.results.store import open_store

    refused: list[FleetbenchError] = []
    with open_store() as store:
        for path in archives:
            try:
                found = add_archive(store, path, unfinished=unfinished)
            except FleetbenchError as exc:
                refused.append(_of_file(path, exc))
                continue
            console.write(found.run_id)
            without = f", {found.left_out:,} large ones left out" if found.left_out else ""
            what = "added" if found.new else "was there"
            console.progress(f"{found.run_id}: {what}, {found.files:,} raw files{without}")
    if len(archives) > 1:
        for each in refused:
            console.error(each)
    if refused:
        number = f"{len(refused):,} of {len(archives):,} files were not added"
        raise FleetbenchError(number) if len(archives) > 1 else refused[0]


def _of_file(path: Path, exc: FleetbenchError) -> FleetbenchError:
    """Return an error that says which file it is about, and what to do."""
    name = one_line(path.name, 80)
    return FleetbenchError(
        exc.what if name in exc.what else f"{name}: {exc.what}",
        cause=exc.cause,
        next_step=exc.next_step or "give files that `fleetbench export RUN --format archive` wrote",
    )


@runs.command()
@click.argument("run", metavar="RUN|latest")
@_form
def show(run: str, form: str) -> None:
    """Show one run: its trials, what became of them, and what is on loan.

    RUN is an id, the beginning of one, or `latest`.
    """
    from fleetbench.results.store import open_store

    with open_store(create=False) as store:
        row = store.run(run)
        if form == "json":
            console.print_json(_document(store, row))
            return
        columns, trials = _trials(store, row)
        if form == "csv":
            _print(columns, trials, form)
            return
        for name, value in _facts(store, row):
            console.write(f"{name:<12}{one_line(value)}")
        console.write("")
        console.print_table(columns, trials)
        for line in _effective(store, row):
            console.write(line)
        open_loans = store.loans(row.id, only_open=True)
        for loan in open_loans:
            console.write(
                f"on loan     {one_line(loan.unit)} on {one_line(loan.host)}, since {one_line(loan.taken_at)}"
            )
        _print_time(store, row)
        console.write(f"\nnext: fleetbench report {row.id}")


def _print_time(store: Store, row: RunRow) -> None:
    from fleetbench.report.timeline import time_finding, time_table
    from fleetbench.results.timeline import read_timeline

    try:
        timeline = read_timeline(store.directory(row.id))
    except Unreadable as exc:
        console.write(f"\nwhere the time went is not known: {one_line(exc.what)}")
        return
    if timeline is not None:
        console.write(f"\n{time_finding(timeline)}")
        found = time_table(timeline)
        console.print_table(found.columns, found.rows)


def _facts(store: Store, row: RunRow) -> Iterator[tuple[str, str]]:
    yield "run", row.id
    yield "state", f"{row.state.value}: {row.note}" if row.note else row.state.value
    yield "model", f"{row.model} ({row.repo})" if row.repo else row.model
    if row.sweep:
        yield "sweep", row.sweep
    yield "hosts", " ".join(row.hosts)
    yield "started", row.created_at
    yield "ended", row.ended_at or "not yet"
    yield "controller", row.controller
    yield "files", str(store.directory(row.id))
    if row.origin:
        yield "origin", row.origin


def _trials(store: Store, row: RunRow) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    from fleetbench.report.summary import client_programs

    columns = (
        *("trial", "host", "configuration", "gpus", "state", "ready_s", "vllm", "measurements", "client"),
        "cause",
    )
    measurements = store.measurements(row.id)
    cells: list[tuple[Cell, ...]] = []
    for trial in store.trials(row.id):
        finished = sum(found.finished for found in measurements if found.trial == trial.number)
        failure = trial.failure
        cells.append(
            (
                *(trial.number, one_line(trial.host), one_line(trial.config.label)),
                *(
                    "+".join(f"gpu{index}" for index in trial.gpus.indices) or None,
                    trial.state.value,
                    trial.ready_s,
                ),
                *(one_line(trial.vllm_version) or None, finished),
                "; ".join(client_programs(f for f in measurements if f.trial == trial.number)) or None,
                one_line(f"{failure.cause}: {failure.evidence}", 200) if failure else None,
            )
        )
    return columns, cells


def _effective(store: Store, row: RunRow) -> Iterator[str]:
    """What each server ran with, as it was read back from itself."""
    from fleetbench.results.effective import known, sentence

    for trial in store.trials(row.id):
        if known(trial.effective):
            yield f"trial {trial.number} ran with {sentence(trial.effective)}"


def _document(store: Store, row: RunRow) -> dict[str, object]:
    from fleetbench.report.timeline import seconds_of_hosts
    from fleetbench.results.rows import as_json
    from fleetbench.results.timeline import read_timeline

    try:
        timeline = read_timeline(store.directory(row.id))
    except Unreadable:
        timeline = None  # the table says why
    return {
        "run": as_json(row),
        "directory": str(store.directory(row.id)),
        "trials": as_json(store.trials(row.id)),
        "measurements": as_json(store.measurements(row.id)),
        "loans": as_json(store.loans(row.id)),
        "seconds": seconds_of_hosts(timeline) if timeline is not None else None,
    }
