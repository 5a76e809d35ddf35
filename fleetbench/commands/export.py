"""`fleetbench export`: stored runs as text, tables and files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.errors import UsageError

if TYPE_CHECKING:
    from fleetbench.results.store import Store

FORMATS = ("archive",)


@click.command()
@click.argument("runs", metavar="RUN|latest...", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), required=True, help="What is written; see above."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Where to; default: a file or directory in the working directory that is called after the run.",
)
@click.option("--small", is_flag=True, help="An archive without raw files larger than 64 KiB.")
def export(runs: tuple[str, ...], form: str, output: Path | None, small: bool) -> None:
    """Write stored runs for other programs. RUN is an id, the beginning of one, or `latest`.

    `archive` is one .tar.xz (or .tar.gz, by the name given) for each run, with its rows, raw files and their
    hashes; `fleetbench runs add FILE` puts it into another store. With several runs, -o is a directory.
    """
    from fleetbench.results.store import open_store

    if small and form != "archive":
        raise UsageError("--small is for --format archive")
    with open_store(create=False) as store:
        ids = list(dict.fromkeys(store.run(name).id for name in runs))
        _archives(store, ids, output, small)


def _archives(store: Store, ids: Sequence[str], output: Path | None, small: bool) -> None:
    from fleetbench.export.archive import SUFFIXES
    from fleetbench.export.archiving import archive_run

    single = output if output is not None and len(ids) == 1 and not output.is_dir() else None
    for run_id in ids:
        path = single or (output or Path()) / f"{run_id}{SUFFIXES[0]}"
        found = archive_run(store, run_id, path, small=small)
        console.write(str(found.path))
        without = f", without {found.left_out:,} larger than 64 KiB" if found.left_out else ""
        console.progress(f"{run_id}: {found.files:,} raw files, {found.size_bytes:,} bytes{without}")
