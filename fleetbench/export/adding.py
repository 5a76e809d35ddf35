"""From an archive to the store: a run that was measured with another one's store.

The file may be from anybody. Nothing of it leaves the staging directory before every member has the hash that
the archive says, every row is one that this fleetbench could have stored, and both belong to one run.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from fleetbench.errors import FleetbenchError, NotPossible, Unreadable, one_line
from fleetbench.export.archive import ABOUT, FILES, ROWS, About, read_about
from fleetbench.export.members import Member, members
from fleetbench.results import bounded_json, left_out, manifest
from fleetbench.results.manifest import Entry
from fleetbench.results.run_records import RunRecords, is_below, read_records, records_document
from fleetbench.results.store import Store
from fleetbench.whole_file import write_whole

LONGEST_PATH = 400
_READ = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What came of it: `new` is False where the run was there, with the same content."""

    run_id: str
    new: bool
    files: int
    left_out: int


def add_archive(store: Store, path: Path, *, unfinished: bool = False) -> Added:
    """Add the run of an archive to the store; a second time changes nothing.

    `unfinished` allows a run that a controller would go on with, or give loans back for. Errors: Unreadable
    for what is no archive or not whole, NotPossible where the run is there with other content, or is
    unfinished without leave. Nothing is changed then.
    """
    source = one_line(path.name, 80)
    try:
        with (
            path.open("rb") as file,
            tempfile.TemporaryDirectory(dir=store.runs_directory, prefix=".adding-") as staging,
        ):
            about, records = _unpacked(file, source, Path(staging))
            if records.is_open and not unfinished:
                raise NotPossible(
                    f"{source}: run {records.run_id} is not over",
                    cause="this controller would go on with it, and start on its hosts what its rows say",
                    next_step="add it with --unfinished if the archive is your own",
                )
            new = _is_new(store, records)
            origin = _origin(store, file, source, about)
            # The rows first: what the database refuses must not leave files in the place of the true ones.
            with store.adding(records, origin) if new else contextlib.nullcontext():
                _settle(store.directory(records.run_id), Path(staging) / FILES, about)
    except OSError as exc:
        raise FleetbenchError(
            f"cannot add {source}",
            cause=exc.strerror or str(exc),
            next_step=f"see that it can be read, and that {store.runs_directory} has room and can be written",
        ) from exc
    files = len(about.members) - 1
    return Added(run_id=records.run_id, new=new, files=files, left_out=len(about.left_out))


def _unpacked(file: IO[bytes], source: str, staging: Path) -> tuple[About, RunRecords]:
    """Unpack an archive and check all of it against what it says of itself."""
    found = members(file)
    first = next(found, None)
    if first is None or PurePosixPath(first.name).name != ABOUT:
        raise Unreadable(f"{source} is no archive of a run", cause=f"{ABOUT} is not its first file")
    about = read_about(first.content(manifest.LARGEST_BYTES), source)
    if first.name != f"{about.run_id}/{ABOUT}":
        raise Unreadable(f"{source} is no archive of run {one_line(about.run_id, 60)}")
    rows, seen = b"", set()
    for member in found:
        name = member.name.removeprefix(f"{about.run_id}/")
        expected = about.members.get(name)
        if expected is None or name in seen or name == member.name:
            raise Unreadable(f"{source}: {ABOUT} does not name {one_line(member.name, 80)}, or once only")
        seen.add(name)
        if name == ROWS:
            rows = member.content(bounded_json.LARGEST_BYTES)
            real = Entry(hashlib.sha256(rows).hexdigest(), len(rows))
        else:
            real = _written(member, _place(staging, name, source))
        if real != expected:
            raise Unreadable(f"{source}: {one_line(name, 80)} is not as it was archived")
    if missing := sorted(set(about.members) - seen):
        raise Unreadable(f"{source}: {one_line(missing[0], 80)} is not in it")
    records = read_records(rows, source)
    if records.run_id != about.run_id:
        raise Unreadable(f"{source}: its rows are of run {records.run_id}, not of {about.run_id}")
    return about, records


def _place(staging: Path, name: str, source: str) -> Path:
    """Return where a raw file goes; Unreadable for a path that a run's directory never has."""
    path = PurePosixPath(name)
    fine = (
        is_below(name)
        and len(path.parts) > 1
        and path.parts[0] == FILES
        and path.parts[1] not in manifest.NOT_EVIDENCE - {manifest.FILE_NAME}
        and str(path) == name
        and name.isprintable()
        and len(name) <= LONGEST_PATH
        and not any(part.startswith(".") for part in path.parts)
    )
    if not fine:
        raise Unreadable(f"{source}: {one_line(name, 80)} is no place for a raw file")
    return staging / path


def _written(member: Member, path: Path) -> Entry:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as file:  # x: a name that stands there already is refused
        for chunk in member.chunks():
            digest.update(chunk)
            file.write(chunk)
    return Entry(digest.hexdigest(), member.size_bytes)


def _is_new(store: Store, records: RunRecords) -> bool:
    """Return whether the rows are still to be added; NotPossible when others are there."""
    known = store.records(records.run_id)
    if known is not None and records_document(known) != records_document(records):
        raise NotPossible(
            f"run {records.run_id} is there, and other than in the archive",
            cause=_difference(known, records),
            next_step=f"nothing was changed; the one that is there: fleetbench runs show {records.run_id}",
        )
    return known is None


def _settle(directory: Path, files: Path, about: About) -> None:
    """Bring the raw files to their place.

    What is there is left as it is; files are added that an archive made with --small did not have.
    """
    if directory.exists():
        _complete(directory, files, about)
    elif files.exists():
        files.rename(directory)
    else:
        directory.mkdir()
    left_out.keep(directory, left_out.read(directory) | dict(about.left_out))


def _complete(directory: Path, files: Path, about: About) -> None:
    there = dict(_there(directory))
    for path, entry in ((path.removeprefix(f"{FILES}/"), entry) for path, entry in about.members.items()):
        if path in there and there[path] != entry:
            raise NotPossible(
                f"run {about.run_id} is there, and other than in the archive",
                cause=f"{one_line(path, 80)} differs",
                next_step=f"nothing was changed; the one that is there: {directory}",
            )
    for file in sorted(files.rglob("*")):
        name = file.relative_to(files).as_posix()
        if file.is_file() and name not in there:
            write_whole(directory / name, file.read_bytes())


def _there(directory: Path) -> Iterator[tuple[str, Entry]]:
    yield from manifest.evidence(directory)
    with contextlib.suppress(FileNotFoundError):
        content = (directory / manifest.FILE_NAME).read_bytes()
        yield manifest.FILE_NAME, Entry(hashlib.sha256(content).hexdigest(), len(content))


def _difference(known: RunRecords, records: RunRecords) -> str:
    one, two = records_document(known), records_document(records)
    for name in sorted({*one["run"], *two["run"]}):
        if one["run"].get(name) != two["run"].get(name):
            return f"{name} of the run differs"
    which = next(name for name in ("trials", "measurements", "loans") if one[name] != two[name])
    return f"its {which} differ"


def _origin(store: Store, file: IO[bytes], source: str, about: About) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(_READ):
        digest.update(chunk)
    without = f", without {len(about.left_out)} of its raw files" if about.left_out else ""
    return f"added {store.now()} from archive {source} (sha256 {digest.hexdigest()[:16]}){without}"
