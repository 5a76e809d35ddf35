"""`fleetbench import`: figures of others, read, judged by the rules for own rows, and kept apart."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.parse import read_text
from fleetbench.errors import FleetbenchError, Unreadable, UsageError, one_line
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.results.imports.values import ImportedRow, Source

MOST_FILES = 10_000
_READ = (".json", ".jsonl", ".txt", ".log", ".out", ".csv", ".tsv")
_LARGEST_DIRECTORY = 512 * 1024 * 1024


@click.command("import")
@click.argument("files", metavar="FILE|DIR|-...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Read and judge, keep nothing.")
@click.option(
    "--mapping", type=click.Path(path_type=Path), metavar="FILE", help="What the columns of a CSV file mean."
)
@click.option("--title", default="", metavar="TEXT", help="Title of the document that the figures are from.")
@click.option("--author", default="", metavar="TEXT", help="Who published them.")
@click.option("--url", default="", metavar="TEXT", help="Where they were published.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="A table for people, JSON with every finding for programs.",
)
@click.pass_context
def import_(
    ctx: click.Context,
    files: tuple[str, ...],
    dry_run: bool,
    mapping: Path | None,
    title: str,
    author: str,
    url: str,
    form: str,
) -> None:
    """Import figures that others measured, and judge each row by the rules for own ones.

    Reads result files and reports of vLLM (all versions) and SGLang, directories of `vllm bench sweep`,
    exports of GuideLLM and AIPerf, CSV files (--mapping FILE says what foreign headings mean), and files of
    published figures such as those in inventory/published. Imported rows have tables of their own and are
    never ranked with own rows; `fleetbench report imported` shows them. The same content is kept once.
    """
    from fleetbench.ceiling.foreign import ceiling_of_foreign
    from fleetbench.results.imports.judging import judged
    from fleetbench.results.imports.read import read_source
    from fleetbench.results.imports.render import documents

    said = {"title": title, "author": author, "url": url}
    given = None if mapping is None else (mapping.name, read_text(str(mapping)))
    shown: list[object] = []
    failures: list[FleetbenchError] = []
    for name in files:
        try:
            found = list(_texts(name))
            source = read_source(_name(name), found, given, said)
            rows = judged(source, ceiling_of_foreign)
            if not dry_run:
                _keep(source, rows, _copies(found, given))
        except FleetbenchError as exc:
            failures.append(exc)
            continue
        if form == "json":
            shown += documents(source, rows)
        else:
            _show(source, rows)
    if form == "json":
        console.print_json(shown)
    for failure in failures:
        console.error(failure, debug=bool(ctx.find_root().params.get("debug")))
    if failures:
        ctx.exit(failures[0].exit_status)


def _name(name: str) -> str:
    return "stdin" if name == "-" else Path(name).absolute().name


def _texts(name: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that a name stands for: itself, or those of a directory."""
    path = Path(name)
    if name == "-" or not path.is_dir():
        yield _name(name), read_text(name)
        return
    total = 0
    for file in _files(path):
        total += file.stat().st_size
        if total > _LARGEST_DIRECTORY:
            raise Unreadable(f"{one_line(name)}: its files are larger than {_LARGEST_DIRECTORY // 2**20} MiB")
        yield f"{path.absolute().name}/{file.relative_to(path)}", read_text(str(file))


def _files(directory: Path) -> list[Path]:
    """Return the results of a `vllm bench sweep` (`run=N.json`, at any depth), else the files of a directory.

    Its summary files hold the same rows once more.
    """
    found: list[Path] = []
    for looked_at, path in enumerate(sorted(directory.rglob("run=*.json"))):
        if looked_at >= MOST_FILES:
            raise Unreadable(f"{one_line(str(directory))}: more than {MOST_FILES:,} files")
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".failure.json"):
            found.append(path)
    found = found or sorted(
        path
        for path in directory.iterdir()
        if path.is_file() and not path.is_symlink() and path.suffix.lower() in _READ
    )
    if not found:
        raise UsageError(
            f"{one_line(str(directory))}: no result in this directory",
            next_step="give the directory of a sweep (with run=N.json below it), or the files themselves",
        )
    return found[:MOST_FILES]


def _copies(texts: list[tuple[str, str]], mapping: tuple[str, str] | None) -> list[tuple[str, str]]:
    """Return names and texts of the copies that are kept: the files in their order, and the mapping."""
    copies = [(f"{n:04d}-{Path(path).name[:80]}", text) for n, (path, text) in enumerate(texts, start=1)]
    return copies + ([] if mapping is None else [(f"mapping-{Path(mapping[0]).name[:80]}", mapping[1])])


def _keep(source: Source, rows: tuple[ImportedRow, ...], copies: list[tuple[str, str]]) -> None:
    """Write the rows to the store, and what they were read from beside it."""
    from fleetbench.results.imports.values import IMPORTED_DIRECTORY
    from fleetbench.results.store import open_store

    with open_store() as store:
        directory = store.runs_directory / IMPORTED_DIRECTORY / source.id
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, text in copies:
                write_whole(directory / f"{name}.gz", gzip.compress(text.encode("utf-8", "replace"), mtime=0))
        except OSError as exc:
            raise FleetbenchError(
                f"cannot keep a copy of {source.name} in {directory}",
                cause=exc.strerror or str(exc),
                next_step="make room or mend the rights, or read it with --dry-run",
            ) from exc
        new = store.keep_import(source, rows)
    console.progress(f"import: {source.id}, {'new' if new else 'was there, judged anew'}")


def _show(source: Source, rows: tuple[ImportedRow, ...]) -> None:
    from fleetbench.results.imports.render import COLUMNS, counted, table_rows

    title = source.provenance.title
    console.write(f"{source.id}: {counted(rows)}{f' of “{one_line(title, 120)}”' if title else ''}\n")
    console.print_table(COLUMNS, table_rows(rows))
    for found in rows:
        for problem in found.row.problems:
            console.write(f"  {found.row.place}: {one_line(problem, 200)}")
