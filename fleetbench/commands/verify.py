"""`fleetbench verify`: whether stored numbers still follow from the raw files of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.errors import FleetbenchError, one_line

if TYPE_CHECKING:
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
    the beginning of one, or `latest`. Exit status 1 when a number does not hold, or a file was changed or is
    missing.
    """
    from fleetbench.results.store import open_store
    from fleetbench.verify.verification import verify as verify_run

    with open_store(create=False) as store:
        found = verify_run(store, run)
        directory = str(store.directory(found.run_id))
    if form == "json":
        console.print_json(document(found, directory))
    else:
        show(found)
    if not found.holds:
        files = [*found.files.differences.altered, *found.files.differences.missing]
        raise FleetbenchError(
            f"run {found.run_id}: {len(found.broken):,} of {found.checked:,} numbers do not hold",
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
    console.write(f"numbers  {found.checked - len(found.broken):,} of {found.checked:,} hold")
    _write([claim.sentence for claim in found.broken])
    _write([f"not checked: {one.place}: {one.name}: {one.why}" for one in found.unchecked])


def _write(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        console.write(f"  {one_line(line, 1000)}")
    if len(lines) > MOST_LINES:
        console.write(f"  … and {len(lines) - MOST_LINES:,} more like the last one")


def _sealed(files: Files) -> str:
    if files.problem:
        return f"not compared: {one_line(files.problem, 300)}"
    changed = files.differences
    same = files.listed - len(changed.altered) - len(changed.missing)
    when = f"sealed {one_line(files.sealed_at, 40)}" if files.sealed_at else "not sealed: the run is not over"
    return f"{same:,} of {files.listed:,} are as they were written ({when})"


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
            "unlisted": list(changed.unlisted),
        },
        "checked": found.checked,
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
