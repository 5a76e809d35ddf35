"""Which raw files of a run never came here: what its archive left out (`--small`) stays known.

`runs/ID/left-out.json` is written when an archive is added. It is no evidence of the run: the manifest has
the hash of each of these files, and an archive that is made here names them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetbench.errors import Unreadable, one_line
from fleetbench.results import bounded_json
from fleetbench.results.manifest import LARGEST_BYTES, LEFT_OUT, Entry, entry_of
from fleetbench.results.run_records import is_below
from fleetbench.whole_file import write_whole

VERSION = 1


def keep(directory: Path, entries: Mapping[str, Entry]) -> None:
    """Write down which files a run's directory lacks, by their path below it; those that are there are not.

    Without any the file goes away. OSError as of `write_whole`.
    """
    absent = {path: entry for path, entry in entries.items() if not _is_there(directory / path)}
    if not absent:
        (directory / LEFT_OUT).unlink(missing_ok=True)
        return
    document = {"version": VERSION, "files": document_of(absent)}
    write_whole(directory / LEFT_OUT, f"{json.dumps(document, indent=1)}\n".encode())


def read(directory: Path) -> dict[str, Entry]:
    """Return the files that were left out and are still not there, by their path below the run's directory.

    Unreadable, with the reason, when what says so is broken.
    """
    path = directory / LEFT_OUT
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise Unreadable(f"{path} is larger than it can be")
        document = bounded_json.loads(content)
        if document["version"] != VERSION:
            raise Unreadable(f"{path} is of version {one_line(str(document['version']), 20)}")
        found = entries_of(document["files"])
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise Unreadable(f"{path} cannot be read", cause=exc.strerror or str(exc)) from exc
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        cause = one_line(f"{type(exc).__name__}: {exc}", 200)
        raise Unreadable(f"{path} does not say what was left out", cause=cause) from exc
    return {name: entry for name, entry in found.items() if not _is_there(directory / name)}


def document_of(entries: Mapping[str, Entry]) -> dict[str, object]:
    """Return entries as JSON has them, in order."""
    return {
        path: {"sha256": entry.sha256, "bytes": entry.size_bytes} for path, entry in sorted(entries.items())
    }


def entries_of(document: Mapping[str, Any]) -> dict[str, Entry]:
    """Return entries from their JSON; ValueError or TypeError when one is none, or leads elsewhere."""
    found = {str(path): entry_of(entry) for path, entry in document.items()}
    if outside := next((path for path in found if not is_below(path)), None):
        raise ValueError(f"{outside} leads out of the run")
    return found


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than any file's
        return False
