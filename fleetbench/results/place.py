"""Where the store is, by the environment. Imports nothing, so that a command which only asks stays quick."""

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
