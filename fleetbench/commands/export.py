"""`fleetbench export`: stored runs as text, tables and files for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import not_imported
from fleetbench.errors import FleetbenchError, NotPossible, UsageError, one_line
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.report.columns import Table
    from fleetbench.report.per_request import Reader
    from fleetbench.results.rows import MeasurementRow
    from fleetbench.results.samples import Samples
    from fleetbench.results.store import Store

FORMATS = ("markdown", "csv", "parquet", "json", "vllm", "archive", "prometheus")
ROWS = ("summary", "measurements", "requests")
_TABLES = ("csv", "parquet", "json")
_TO_SCREEN = ("markdown", "csv", "json", "prometheus")


@click.command()
@click.argument("runs", metavar="[RUN|latest]...", nargs=-1)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), required=True, help="What is written; see above."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Where to; default: the screen for text, else the working directory, called after the run.",
)
@click.option(
    "--rows",
    type=click.Choice(ROWS),
    default="summary",
    show_default=True,
    help="Of csv, parquet and json: a row for each workload of a trial, each measurement, or each request.",
)
@click.option("--small", is_flag=True, help="An archive without raw files larger than 64 KiB.")
@click.pass_context
def export(
    ctx: click.Context, runs: tuple[str, ...], form: str, output: Path | None, rows: str, small: bool
) -> None:
    """Write stored runs for other programs. RUN is an id, the beginning of one, or `latest` (the default).

    markdown: table and findings, short, for a pull request. csv, parquet, json: all columns, as described in
    docs/schema.md. vllm: a directory as `vllm bench sweep` leaves it, which its `plot` and `plot_pareto`
    read. prometheus: the newest valid result of each host, model and configuration for node_exporter's
    textfile collector, of all runs unless some are named. archive: one .tar.xz (or .tar.gz, by the name
    given) for each run, with its rows, raw files and their hashes; `fleetbench runs add FILE` puts it into
    another store.

    \b
    fleetbench export latest --format vllm -o sweep && vllm bench sweep plot sweep
    fleetbench export --format prometheus -o /var/lib/node_exporter/textfile/fleetbench.prom
    """
    from fleetbench.results.store import open_store

    _refuse_misnamed(output, form)
    if small and form != "archive":
        raise UsageError("--small is for --format archive")
    if form not in _TABLES and ctx.get_parameter_source("rows") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("--rows is for csv, parquet and json")
    with open_store(create=False) as store:
        named = runs or (() if form == "prometheus" else ("latest",))
        for name in named:
            not_imported(name, "runs are exported")
        ids = list(dict.fromkeys(store.run(name).id for name in named))
        if form == "archive":
            _archives(store, ids, output, small)
        elif form == "vllm":
            _sweeps(store, ids, output)
        else:
            content = _prometheus(ids) if form == "prometheus" else _content(store, ids, form, rows)
            _write(content, form, output, ids)


def _refuse_misnamed(output: Path | None, form: str) -> None:
    """Refuse a file whose name says another format, or that lies nowhere: mostly a slip."""
    if output is None or output.is_dir():
        return
    called = next((each for each, ending in _ENDINGS.items() if output.suffix == f".{ending}"), form)
    if called != form and form in _ENDINGS:
        raise UsageError(
            f"{one_line(output.name, 80)} is called {called}, and --format is {form}",
            next_step=f"call it .{_ENDINGS[form]}, or give --format {called}",
        )
    if form != "vllm" and not output.parent.is_dir():
        raise UsageError(
            f"there is no directory {one_line(str(output.parent), 200)}", next_step="make it, or correct -o"
        )


def _content(store: Store, ids: Sequence[str], form: str, rows: str) -> bytes:
    if form == "markdown":
        from fleetbench.export.short import short_markdown
        from fleetbench.report.files import read_report

        return "\n".join(short_markdown(read_report(store, run_id)) for run_id in ids).encode()
    table = _table(store, ids, rows)
    if form == "parquet":
        from fleetbench.export.parquet import parquet_bytes

        return parquet_bytes(table, rows)
    if form == "csv":
        from fleetbench.report.csv_text import csv_text

        return csv_text(table).encode()
    from fleetbench.export.document import json_document

    return json_document(table, rows, ids).encode()


def _table(store: Store, ids: Sequence[str], rows: str) -> Table:
    """Return the rows of all runs in one table: the columns are the same."""
    from fleetbench.report.columns import Table, measurement_table, summary_table
    from fleetbench.report.files import read_report, sample_reader
    from fleetbench.report.requests import request_table

    def tables() -> Iterator[Table]:
        for run_id in ids:
            report = read_report(store, run_id, requests=rows == "summary")
            if rows == "requests":
                read = _Reading(sample_reader(store.directory(run_id)))
                yield request_table(report, read)
                read.say(run_id)
            else:
                yield summary_table(report) if rows == "summary" else measurement_table(report)

    found = list(tables())
    return Table(found[0].columns, tuple(row for table in found for row in table.rows))


class _Reading:
    """Reads the requests of measurements, and counts those whose requests are not to be had."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self.asked = self.lacking = 0

    def __call__(self, row: MeasurementRow) -> Samples | None:
        samples = self._read(row)
        self.asked += 1
        self.lacking += samples is None
        return samples

    def say(self, run_id: str) -> None:
        """Warn that rows are missing."""
        if self.lacking:
            console.progress(
                f"{run_id}: without the requests of {self.lacking:,} of {self.asked:,} measurements: "
                "their result.json is not there, or holds none"
            )


def _prometheus(ids: Sequence[str]) -> bytes:
    from fleetbench.export.prometheus import COLUMNS, QUERY, exposition
    from fleetbench.results.query import ask

    rows = (dict(zip(COLUMNS, row, strict=True)) for row in ask(QUERY).rows)
    return exposition(row for row in rows if not ids or row["run"] in ids).encode()


def _write(content: bytes, form: str, output: Path | None, ids: Sequence[str]) -> None:
    if output is None and form in _TO_SCREEN:
        console.write(content.decode())
        return
    name = f"{ids[0] if ids else 'fleetbench'}.{_ENDINGS[form]}"
    path = output / name if output is not None and output.is_dir() else output or Path(name)
    try:
        write_whole(path, content)
    except OSError as exc:
        raise _not_written(path, exc) from exc
    console.write(str(path))
    console.progress(f"export: {len(content):,} bytes")


_ENDINGS = {"markdown": "md", "csv": "csv", "parquet": "parquet", "json": "json", "prometheus": "prom"}


def _sweeps(store: Store, ids: Sequence[str], output: Path | None) -> None:
    from fleetbench.export.vllm import sweep_files

    for run_id in ids:
        files = sweep_files(store.run(run_id), store.trials(run_id), store.measurements(run_id))
        if not any(name.endswith("summary.json") for name in files):
            raise NotPossible(
                f"run {run_id} has no valid measurement", next_step=f"fleetbench report {run_id} says why"
            )
        base = output or Path(f"{run_id}-vllm")
        directory = base / run_id if len(ids) > 1 else base
        if directory.is_dir() and any(directory.iterdir()):
            raise NotPossible(
                f"{one_line(str(directory))} is not empty",
                cause="vLLM's tools would read what is in it, too",
                next_step="give another directory with -o",
            )
        try:
            for name, content in files.items():
                write_whole(directory / name, content)
        except OSError as exc:
            raise _not_written(directory, exc) from exc
        console.write(str(directory))
        console.progress(f"{run_id}: {len(files):,} files; vllm bench sweep plot {directory}")


def _archives(store: Store, ids: Sequence[str], output: Path | None, small: bool) -> None:
    from fleetbench.export.archive import SUFFIXES
    from fleetbench.export.archiving import archive_run

    if len(ids) > 1 and output is not None and output.name.endswith((*SUFFIXES, ".tar")):
        raise UsageError(
            f"{len(ids)} runs are {len(ids)} archives, and {one_line(output.name, 80)} is one file",
            next_step="name a directory with -o",
        )
    single = output if output is not None and len(ids) == 1 and not output.is_dir() else None
    for run_id in ids:
        path = single or (output or Path()) / f"{run_id}{SUFFIXES[0]}"
        found = archive_run(store, run_id, path, small=small)
        console.write(str(found.path))
        without = f", without {found.left_out:,} larger than 64 KiB" if found.left_out else ""
        console.progress(f"{run_id}: {found.files:,} raw files, {found.size_bytes:,} bytes{without}")


def _not_written(path: Path, exc: OSError) -> FleetbenchError:
    return FleetbenchError(
        f"cannot write {one_line(str(path))}",
        cause=exc.strerror or str(exc),
        next_step="make room or mend the rights, or give another place with -o",
    )
