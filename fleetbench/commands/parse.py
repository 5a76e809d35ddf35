"""`fleetbench parse`: benchmark reports and result files to a table, JSON or CSV."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fleetbench import console
from fleetbench.commands.nearest import file_step
from fleetbench.errors import FleetbenchError, Unreadable, one_line
from fleetbench.results.values import Block

# A detailed result JSON of 100,000 requests is about 300 MB; beyond that somebody gave the wrong file.
_LARGEST_BYTES = 512 * 1024 * 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # what PowerShell's `>` writes


@click.command()
@click.argument("files", metavar="FILE|-...", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(console.FORMATS),
    default="table",
    show_default=True,
    help="A table for people, JSON or CSV for programs.",
)
@click.pass_context
def parse(ctx: click.Context, files: tuple[str, ...], form: str) -> None:
    """Read benchmark reports (any text around them) and result JSON of any vLLM version.

    JSON is a list with one object for each report found, keys named as in vLLM's own result JSON, null
    where a value is unknown. Exit status 1, and a reason, when a FILE holds no result.
    """
    from fleetbench.results.parse import parse as parse_text

    blocks: list[Block] = []
    failures: list[FleetbenchError] = []
    for name in files:
        try:
            blocks += parse_text(read_text(name), source=one_line(name))
        except FleetbenchError as exc:
            failures.append(exc)
    if blocks:
        show(blocks, form)
    debug = bool(ctx.find_root().params.get("debug"))
    for failure in failures:
        console.error(failure, debug=debug)
    if failures:
        ctx.exit(failures[0].exit_status)


def read_text(name: str) -> str:
    """Given a file name, or `-` for standard input, return its text; Unreadable when that cannot be."""
    try:
        content = sys.stdin.buffer.read(_LARGEST_BYTES + 1) if name == "-" else _read(Path(name))
    except OSError as exc:
        raise Unreadable(
            f"{one_line(name)}: cannot be read",
            cause=exc.strerror or str(exc),
            next_step=file_step(name, "give a file that can be read, or - for standard input"),
        ) from exc
    if len(content) > _LARGEST_BYTES:
        raise Unreadable(
            f"{one_line(name)}: larger than {_LARGEST_BYTES // 2**20} MiB",
            next_step="cut out the part with the report: grep -A 60 'Benchmark Result'",
        )
    encoding = "utf-16" if content.startswith(_UTF16) else "utf-8"
    return content.decode(encoding, "replace")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_BYTES + 1)


def show(blocks: list[Block], form: str) -> None:
    """Write blocks to stdout in the format asked for; in a table, problems follow it."""
    from fleetbench.results import render

    if form == "json":
        console.print_json(render.as_rows(blocks))
    elif form == "csv":
        console.print_csv(*render.as_csv(blocks))
    else:
        console.print_table(*render.as_table(blocks))
        for line in render.problem_lines(blocks):
            console.write(f"  {line}")
