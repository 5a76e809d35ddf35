"""Where the store is, by the environment. Imports next to nothing: a command which only asks stays quick."""

from __future__ import annotations

import os
from pathlib import Path

DATABASE_VARIABLE = "FLEETBENCH_DB"
DIRECTORY_VARIABLE = "FLEETBENCH_RUNS"
DEFAULT_DIRECTORY = "runs"
DATABASE_FILE = "fleetbench.sqlite"


def runs_directory() -> Path:
    """Return the directory of the raw files."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY).absolute()


def store_place() -> tuple[str, Path]:
    """Return the URL that was given (empty: none), and the SQLite file that is the store without one."""
    return os.environ.get(DATABASE_VARIABLE) or "", runs_directory() / DATABASE_FILE


def rests(file: Path) -> bool:
    """Return whether a SQLite file can only be read, and whole, by one who takes it for unchanging.

    SQLite keeps an index beside a file with a write-ahead log, even to read it, and cannot where nothing may
    be written. Without a log the file is all there is, and `immutable=1` reads it. With one it would miss
    what is in there: then the index has to be there, too.
    """
    return file.is_file() and not os.access(file.parent, os.W_OK) and not log_of(file).is_file()


def log_of(file: Path) -> Path:
    """Return where SQLite has the write-ahead log of a file while somebody writes to it."""
    return file.with_name(f"{file.name}-wal")
