"""`fleetbench query`, `look` and `stat`: the store by SQL, and tables through csvkit."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import not_imported
from fleetbench.commands.nearest import file_step, refuse_misspelt
from fleetbench.errors import UsageError, one_line

if TYPE_CHECKING:
    from fleetbench.report.columns import Table
    from fleetbench.results.query import Answer

FORMATS = ("csv", "table", "json", "markdown")
MOST_SHOWN = 1000  # rows of a table that people look at
_SQL = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
# What of a run's 150 columns fits a terminal.
LOOKED_AT = (
    *("configuration", "host", "max_concurrency", "state", "verdict", "repeats_counted", "output_throughput"),
    *("output_throughput_per_gpu", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "failure_cause"),
)

_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="After which a query is ended.",
)
_columns = click.option(
    "-c", "--columns", metavar="NAMES", help="Columns to show, with commas between; `all` for all."
)


@click.command()
@click.argument("sql", metavar="[SELECT|-]", default="")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What is printed; default: a table on a terminal, else csv.",
)
@click.option("--schema", is_flag=True, help="Show views and columns, with unit and meaning, and stop.")
@_timeout
def query(sql: str, form: str | None, schema: bool, timeout: float) -> None:
    """Ask the store by SQL: one select over the views runs, results, measurements and imported.

    It only reads. `results` has one row for each workload of each trial, with the median of the repeats that
    count; `--schema` and docs/schema.md have all columns. `-` reads the query from standard input.

    \b
    fleetbench query "select configuration, output_throughput from results
        where verdict = 'valid' order by output_throughput desc limit 5"
    """
    form = form or ("table" if console.to_terminal() else "csv")
    if schema:
        _print(_schema_table(), form)
        return
    answer = _answer(sys.stdin.read() if sql == "-" else sql, timeout)
    _print(_table(answer), form)
    if answer.cut:
        console.progress(f"query: the first {len(answer.rows):,} rows; narrow it with where or limit")


@click.command()
@click.argument("what", metavar="[RUN|latest|SELECT|FILE.csv]", default="latest")
@_columns
@_timeout
def look(what: str, columns: str | None, timeout: float) -> None:
    """Show a run's summary, the answer of a query or any CSV file as a table, as csvlook does."""
    from fleetbench.commands.csvkit_shown import looked

    text, options, cut = _csv_of(what, columns, LOOKED_AT, timeout)
    console.write(looked(text, *options, "--max-rows", str(MOST_SHOWN)))
    if cut:
        console.progress(f"look: {cut:,} rows; --format csv of export and query gives all")


@click.command()
@click.argument("what", metavar="[RUN|latest|SELECT|FILE.csv]", default="latest")
@_columns
@_timeout
def stat(what: str, columns: str | None, timeout: float) -> None:
    """Describe each column of a run's summary, a query's answer or any CSV file, as csvstat does."""
    from fleetbench.commands.csvkit_shown import described

    text, options, _ = _csv_of(what, columns, ("all",), timeout)
    console.write(described(text, *options))


def _csv_of(
    what: str, columns: str | None, usual: tuple[str, ...], timeout: float
) -> tuple[str, tuple[str, ...], int]:
    """Return CSV, csvkit's options for it, and how many rows it has when these are more than are shown."""
    from fleetbench.commands.csvkit_shown import OURS
    from fleetbench.report.csv_text import csv_text

    if _SQL.match(what):
        table = _table(_answer(what, timeout))
        wanted = columns.split(",") if columns else ["all"]
    elif Path(what).is_file():
        from fleetbench.commands.parse import read_text

        if not columns:
            return read_text(what), (), 0
        raise UsageError("-c is for runs and queries", next_step=f"csvcut -c {one_line(columns, 60)} FILE")
    elif "/" in what or Path(what).suffix:
        refuse_misspelt(what)
        not_imported(what, "runs, queries and CSV files are shown")
        raise UsageError(
            f"there is no file {one_line(what, 100)}", next_step=file_step(what, "RUN, SELECT or FILE.csv")
        )
    else:
        from fleetbench.report.columns import summary_table
        from fleetbench.report.files import read_report
        from fleetbench.results.store import open_store

        with open_store(create=False) as store:
            table = summary_table(read_report(store, what))
        wanted = columns.split(",") if columns else list(usual)
    chosen = table if wanted == ["all"] else _chosen(table, wanted)
    return csv_text(chosen), OURS, len(chosen.rows) if len(chosen.rows) > MOST_SHOWN else 0


def _chosen(table: Table, wanted: list[str]) -> Table:
    import difflib

    from fleetbench.report.columns import Table

    names = [name.strip() for name in wanted]
    if unknown := next((name for name in names if name not in table.columns), ""):
        near = difflib.get_close_matches(unknown, table.columns, n=3, cutoff=0.5)
        raise UsageError(
            f"there is no column {one_line(unknown, 60)!r}",
            next_step=f"did you mean {' or '.join(near)}?" if near else "-c all shows all of them",
        )
    places = [table.columns.index(name) for name in names]
    return Table(tuple(names), tuple(tuple(row[place] for place in places) for row in table.rows))


def _answer(sql: str, timeout: float) -> Answer:
    from fleetbench.results.query import ask

    return ask(sql, limit_s=timeout)


def _table(answer: Answer) -> Table:
    """Return an answer with cells that every format takes; what is no number or text is shown as text."""
    from fleetbench.report.columns import Table

    plain = (bool, int, float, str, type(None))
    rows = (tuple(cell if isinstance(cell, plain) else str(cell) for cell in row) for row in answer.rows)
    return Table(answer.columns, tuple(rows))


def _schema_table() -> Table:
    from fleetbench.report.columns import Table
    from fleetbench.results.dictionary import meaning, version
    from fleetbench.results.views import Dialect, views

    rows = [
        (version(), view.name, name, known.kind.value, known.unit, known.text)
        for view in views(Dialect.SQLITE)
        for name in view.columns
        if (known := meaning(name)) is not None
    ]
    return Table(("schema_version", "view", "column", "kind", "unit", "meaning"), tuple(rows))


def _print(table: Table, form: str) -> None:
    from fleetbench.report.csv_text import csv_text

    if form == "json":
        console.print_json(table.objects())
    elif form == "markdown":
        from fleetbench.report.markdown import table as markdown_table

        console.write(markdown_table(table.columns, table.rows))
    elif form == "csv":
        console.write(csv_text(table))
    elif not table.rows:
        console.write(", ".join(one_line(name, 60) for name in table.columns) + "\n(no rows)")
    else:
        from fleetbench.commands.csvkit_shown import OURS, looked

        console.write(looked(csv_text(table), *OURS, "--max-rows", str(MOST_SHOWN)))
        if len(table.rows) > MOST_SHOWN:
            console.progress(f"query: {len(table.rows):,} rows; --format csv gives all")
