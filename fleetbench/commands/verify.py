"""`fleetbench verify`: whether stored numbers still follow from the raw files of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import not_imported
from fleetbench.errors import FleetbenchError, one_line

if TYPE_CHECKING:
    from fleetbench.verify.claims import Unchecked
    from fleetbench.verify.verification import Files, Verification

MOST_LINES = 40


@click.command()
@click.argument("run", metavar="[RUN|latest]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Lines for people, or JSON with every number that does not hold.",
)
def verify(run: str, form: str) -> None:
    """Derive each stored number of a run once more from its raw files, and say which no longer hold.

    Results, verdicts with their findings, what the servers ran with, units, versions and the numbers of the
    report are compared with the store, and every raw file with the hash in the run's manifest. RUN is an id,
    the beginning of one, or `latest`. What rests on a file that the run's archive left out (--small) is not
    checked. Exit status 1 when a number does not hold, or a file was changed or is missing.
    """
    from fleetbench.results.store import open_store
    from fleetbench.verify.verification import verify as verify_run

    not_imported(run, "raw files of runs are verified")
    with open_store(create=False) as store:
        found = verify_run(store, run)
        directory = str(store.directory(found.run_id))
    if form == "json":
        console.print_json(document(found, directory))
    else:
        show(found)
    if not found.holds:
        files = [*found.files.differences.altered, *found.files.differences.missing]
        what = f"{len(found.broken):,} of {found.checked:,} numbers do not hold"
        if not found.broken:
            what = "its raw files are not as they were written"
        raise FleetbenchError(
            f"run {found.run_id}: {what}",
            cause=f"changed or missing since it was measured: {', '.join(files[:3])}" if files else "",
            next_step=f"raw files: {directory}; --format json names every number",
        )


def show(found: Verification) -> None:
    """Write what came of it for people: files, numbers that do not hold, what could not be checked."""
    changed = found.files.differences
    console.write(f"run      {found.run_id}")
    console.write(f"files    {_sealed(found.files)}")
    lines = [f"altered: {path}" for path in changed.altered]
    lines += [f"missing: {path}" for path in changed.missing]
    lines += [f"not in the manifest: {path}" for path in changed.unlisted]
    _write(lines)
    console.write(f"numbers  {_counted(found)}")
    _write([claim.sentence for claim in found.broken])
    _write(list(_not_checked(found.unchecked)))
    if found.files.left_out:
        console.write("next: fleetbench runs add WHOLE_ARCHIVE brings the files that were left out")


def _counted(found: Verification) -> str:
    said = f"{found.checked - len(found.broken):,} of {found.checked:,} hold"
    if found.rounded:
        said += f", {found.rounded:,} of them as rounded as stdout has them"
    return f"{said}; {len(found.unchecked):,} not checked" if found.unchecked else said


def _not_checked(found: Sequence[Unchecked]) -> Iterator[str]:
    """Yield a line for each place and reason; of many numbers it names the first."""
    together: dict[tuple[str, str], list[str]] = {}
    for one in found:
        together.setdefault((one.place, one.why), []).append(one.name)
    for (place, why), names in together.items():
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield f"not checked: {place}: {names[0]}{more}: {why}"


def _write(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        console.write(f"  {one_line(line, 1000)}")
    if len(lines) > MOST_LINES:
        console.write(f"  … and {len(lines) - MOST_LINES:,} more like the last one")


def _sealed(files: Files) -> str:
    if files.problem:
        return f"not compared: {one_line(files.problem, 300)}"
    changed = files.differences
    same = files.listed - len(changed.altered) - len(changed.missing) - len(files.left_out)
    when = f"sealed {one_line(files.sealed_at, 40)}" if files.sealed_at else "not sealed: the run is not over"
    without = f", {len(files.left_out):,} were left out of the archive" if files.left_out else ""
    return f"{same:,} of {files.listed:,} are as they were written{without} ({when})"


def document(found: Verification, directory: str) -> dict[str, object]:
    """Return what came of it for programs."""
    changed = found.files.differences
    return {
        "run": found.run_id,
        "directory": directory,
        "holds": found.holds,
        "files": {
            "listed": found.files.listed,
            "sealed_at": found.files.sealed_at or None,
            "problem": found.files.problem or None,
            "altered": list(changed.altered),
            "missing": list(changed.missing),
            "left_out": list(found.files.left_out),
            "unlisted": list(changed.unlisted),
        },
        "checked": found.checked,
        "rounded": found.rounded,
        "broken": [
            {
                "place": claim.place,
                "name": claim.name,
                "stored": claim.stored,
                "found": claim.found,
                "source": claim.source,
            }
            for claim in found.broken
        ],
        "unchecked": [{"place": one.place, "name": one.name, "why": one.why} for one in found.unchecked],
    }
