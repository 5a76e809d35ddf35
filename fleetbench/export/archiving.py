"""From the store to an archive: one file that holds a run. The same run gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from fleetbench import __version__
from fleetbench.errors import FleetbenchError, NotPossible, UsageError, one_line
from fleetbench.export.archive import ABOUT, FILES, ROWS, SUFFIXES, About, about_document
from fleetbench.results import left_out, manifest
from fleetbench.results.controllers import lives_here
from fleetbench.results.manifest import Entry
from fleetbench.results.rows import RunState
from fleetbench.results.run_records import RunRecords, records_document
from fleetbench.results.schema_history import MIGRATIONS
from fleetbench.results.store import Store
from fleetbench.whole_file import whole

# What is larger is left out of a small archive: the requests of a measurement, a server's pages of metrics,
# journals. What they came to is in the rows.
SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """An archive that was written: where, how large, and of how many raw files."""

    path: Path
    size_bytes: int
    files: int
    left_out: int


def archive_run(store: Store, run_id: str, path: Path, *, small: bool = False) -> Archived:
    """Write a run's archive; the file appears whole or not at all.

    `small` leaves files out that are larger than SMALL_BYTES; what the archive left out that the run came
    from is named again. Errors: NotPossible while the run is being worked on here, UsageError for a name that
    says no known packing, FleetbenchError where it cannot be written.
    """
    if not path.name.endswith(SUFFIXES):
        raise UsageError(
            f"{one_line(path.name, 80)} does not say how to pack",
            next_step=f"give a name that ends with {' or '.join(SUFFIXES)}",
        )
    records = store.records(run_id)
    if records is None:
        raise UsageError(f"no run {one_line(run_id, 60)!r}", next_step="list them with `fleetbench runs`")
    if records.run["state"] == RunState.RUNNING.value and lives_here(records.run["controller"]):
        raise NotPossible(f"run {run_id} is being worked on", next_step="export it when it is over")
    directory = store.directory(run_id)
    rows = f"{json.dumps(records_document(records), sort_keys=True, allow_nan=False)}\n".encode()
    there = dict(_evidence(directory))
    kept = {
        name: entry
        for name, entry in there.items()
        if not small or entry.size_bytes <= SMALL_BYTES or name == manifest.FILE_NAME
    }
    about = About(
        run_id=run_id,
        schema=MIGRATIONS[-1].version,
        fleetbench_version=__version__,
        members={ROWS: _entry(rows)} | {f"{FILES}/{name}": entry for name, entry in kept.items()},
        left_out=left_out.read(directory)
        | {name: entry for name, entry in there.items() if name not in kept},
    )
    try:
        with whole(path) as file, _tar(file, path.name) as tar:
            when = _seconds(records)
            _add(tar, f"{run_id}/{ABOUT}", about_document(about), when)
            _add(tar, f"{run_id}/{ROWS}", rows, when)
            for name, entry in kept.items():
                _add_file(tar, directory / name, f"{run_id}/{FILES}/{name}", entry, when)
        size = path.stat().st_size
    except ValueError as exc:  # a path that no tar of this kind has room for
        raise FleetbenchError(f"cannot put run {run_id} into an archive", cause=str(exc)) from exc
    except OSError as exc:
        raise FleetbenchError(
            f"cannot write {one_line(str(path))}",
            cause=exc.strerror or str(exc),
            next_step="make room or mend the rights, or give another place with -o",
        ) from exc
    return Archived(path=path, size_bytes=size, files=len(kept), left_out=len(about.left_out))


def _evidence(directory: Path) -> Iterator[tuple[str, Entry]]:
    """Yield the raw files of a run and its manifest; a run without a directory has none."""
    if directory.is_dir():
        yield from manifest.evidence(directory)
        path = directory / manifest.FILE_NAME
        if path.is_file() and not path.is_symlink():
            yield manifest.FILE_NAME, _entry(path.read_bytes())


def _entry(content: bytes) -> Entry:
    return Entry(hashlib.sha256(content).hexdigest(), len(content))


def _seconds(records: RunRecords) -> int:
    """Return when the run was last changed, in seconds since 1970; 0 when it does not say."""
    try:
        return max(0, int(datetime.fromisoformat(records.run["updated_at"]).timestamp()))
    except ValueError:
        return 0


def _info(name: str, size: int, when: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, when, 0o644
    return info


def _add(tar: tarfile.TarFile, name: str, content: bytes, when: int) -> None:
    tar.addfile(_info(name, len(content), when), io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, path: Path, name: str, entry: Entry, when: int) -> None:
    """Add a raw file as its hash was taken; one that is another by now ends the work."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        hashed = _Hashed(file)
        tar.addfile(_info(name, entry.size_bytes, when), hashed)
        if hashed.digest.hexdigest() != entry.sha256 or file.read(1):
            raise FleetbenchError(f"{path} changed while it was read", next_step="export again")


class _Hashed(io.RawIOBase):
    """A file that hashes what is read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(size)
        self.digest.update(content)
        return content


@contextmanager
def _tar(file: IO[bytes], name: str) -> Iterator[tarfile.TarFile]:
    """Yield a tar that is packed into a file as its name says, without the time of writing."""
    with (
        (
            lzma.open(file, "wb")
            if name.endswith(SUFFIXES[0])
            else gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)
        ) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        yield tar
