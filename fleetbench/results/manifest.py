"""The manifest of a run: every raw file with its hash, written as it comes to be and sealed when it is over.

`runs/ID/manifest.json` is written whole at the end of each measurement and of each trial. Sealing adds what
is not in it yet and keeps the hashes that were taken earlier: a file that was changed in between shows.
The report is made from the store whenever somebody asks, and is not in it; nor is what an archive left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fleetbench.errors import FleetbenchError, Unreadable, one_line
from fleetbench.results import bounded_json
from fleetbench.results.rows import UNFINISHED, RunRow
from fleetbench.whole_file import write_whole

if TYPE_CHECKING:
    from fleetbench.results.store_runs import RunTable

FILE_NAME = "manifest.json"
VERSION = 1
# A run of 10,000 measurements has some 100,000 files of 150 bytes each.
LARGEST_BYTES = 64_000_000
LEFT_OUT = "left-out.json"  # see results/left_out.py
NOT_EVIDENCE = {FILE_NAME, LEFT_OUT, "report"}
_HASH = re.compile(r"[0-9a-f]{64}")
_writing = threading.Lock()  # hosts of one run end their measurements side by side


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its SHA-256 in hexadecimal and its size."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Files by path below the run's directory; `sealed_at` (UTC) is empty while the run goes on."""

    run_id: str
    files: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    sealed_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Paths that are not as the manifest says: changed, gone, or there without being named in it."""

    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()


def record(directory: Path, place: str, *, deep: bool = True) -> None:
    """Put the files of a place into the manifest of a run's directory, as they are now.

    `place` is a path below the run's directory; with `deep=False` only the files that lie right in it.
    """

    def here(path: str) -> bool:
        return _is_below(path, place) and (deep or str(PurePosixPath(path).parent) == place)

    with _writing:
        known = _known(directory)
        others = {path: entry for path, entry in known.files.items() if not here(path)}
        now = {path: entry for path, entry in _entries(directory, directory / place) if here(path)}
        _write(directory, replace(known, files=others | now, sealed_at=""))


def moved(directory: Path, old: str, new: str) -> None:
    """Take over the renaming of a directory below the run's: its files keep the hashes that they had."""
    with _writing:
        known = _known(directory)
        if any(_is_below(path, old) for path in known.files):
            files = {
                (f"{new}{path.removeprefix(old)}" if _is_below(path, old) else path): entry
                for path, entry in known.files.items()
            }
            _write(directory, replace(known, files=files))


def seal_when_over(directory: Path, run: RunRow) -> None:
    """Complete the manifest of a run that is over; of one that may go on, do nothing."""
    if run.state in UNFINISHED or not directory.is_dir():
        return
    with _writing:
        known = _known(directory)
        if not known.sealed_at:
            files = dict(_entries(directory, directory)) | dict(known.files)
            _write(directory, replace(known, files=files, sealed_at=run.ended_at))


@contextlib.contextmanager
def sealing(store: RunTable, run_id: str) -> Iterator[None]:
    """Complete the manifest of a run when the body has brought it to its end, however that was."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(FleetbenchError):  # what ended the work is what has to be said
            seal_when_over(store.directory(run_id), store.run(run_id))
        raise
    seal_when_over(store.directory(run_id), store.run(run_id))


def read(directory: Path) -> Manifest | None:
    """Return the manifest in a run's directory; None when it has none. Unreadable when it is no manifest."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unreadable(f"{path} cannot be read", cause=exc.strerror or str(exc)) from exc
    if len(content) > LARGEST_BYTES:
        raise Unreadable(f"{path} is larger than a manifest can be")
    return parse(content, str(path))


def parse(content: bytes, source: str) -> Manifest:
    """Given the content of a manifest's file, return it. Unreadable, with the reason, when it is none."""
    try:
        document = bounded_json.loads(content)
        if document["version"] != VERSION:
            raise Unreadable(f"{one_line(source)} is of version {one_line(str(document['version']), 20)}")
        files = {str(path): entry_of(entry) for path, entry in document["files"].items()}
        return Manifest(
            run_id=str(document["run"]), files=MappingProxyType(files), sealed_at=str(document["sealed_at"])
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        cause = one_line(f"{type(exc).__name__}: {exc}", 200)
        raise Unreadable(f"{one_line(source)} is no manifest", cause=cause) from exc


def differences(directory: Path, manifest: Manifest) -> Differences:
    """Read every file of a run again, and return what is not as its manifest says."""
    there = dict(_entries(directory, directory))
    return Differences(
        altered=tuple(p for p, entry in manifest.files.items() if p in there and there[p] != entry),
        missing=tuple(path for path in manifest.files if path not in there),
        unlisted=tuple(path for path in there if path not in manifest.files),
    )


def evidence(directory: Path) -> Iterator[tuple[str, Entry]]:
    """Yield every raw file of a run as it is now, by its path below the run's directory; not the manifest."""
    return _entries(directory, directory)


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Return an entry from its JSON; TypeError when it is none."""
    digest, size = document["sha256"], document["bytes"]
    if not isinstance(digest, str) or not _HASH.fullmatch(digest) or not isinstance(size, int):
        raise TypeError("an entry without hash and size")
    return Entry(digest, size)


def _known(directory: Path) -> Manifest:
    """One that cannot be read is begun anew: a measurement does not fail for it, and sealing lists all."""
    try:
        found = read(directory)
    except Unreadable:
        found = None
    return found or Manifest(run_id=directory.name)


def _write(directory: Path, manifest: Manifest) -> None:
    document = {
        "version": VERSION,
        "run": manifest.run_id,
        "sealed_at": manifest.sealed_at,
        "files": {
            path: {"sha256": entry.sha256, "bytes": entry.size_bytes}
            for path, entry in sorted(manifest.files.items())
        },
    }
    try:
        write_whole(directory / FILE_NAME, f"{json.dumps(document, indent=1)}\n".encode())
    except OSError as exc:
        raise FleetbenchError(
            f"cannot write the manifest in {directory}",
            cause=exc.strerror or str(exc),
            next_step="make room or mend the rights, then resume the run",
        ) from exc


def _is_below(path: str, place: str) -> bool:
    return PurePosixPath(path).is_relative_to(place)


def _entries(directory: Path, place: Path) -> Iterator[tuple[str, Entry]]:
    """Yield the regular files at or below a place by their path below the directory; no link is followed."""
    if place.is_dir() and not place.is_symlink():
        for path in sorted(place.iterdir()):
            if not path.name.startswith(".") and not (place == directory and path.name in NOT_EVIDENCE):
                yield from _entries(directory, path)
    elif (entry := _hashed(place)) is not None:
        yield place.relative_to(directory).as_posix(), entry


def _hashed(path: Path) -> Entry | None:
    """Return the entry of a regular file; None of anything else, and of what vanishes meanwhile."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Entry(digest, file.tell())
