"""A name that is not there: what may have been meant."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from fleetbench.errors import UsageError, one_line
from fleetbench.inventory.names import near_names

MOST_NAMES = 10_000


def file_step(name: str, otherwise: str) -> str:
    """Given the name of a file that cannot be read, return what to do: the nearest name, or `otherwise`."""
    path = Path(name)
    try:
        with os.scandir(path.parent) as there:
            names = [entry.name for entry in islice(there, MOST_NAMES)]
    except (OSError, ValueError):
        return otherwise
    near = [] if path.name in names else near_names(path.name, names)
    if not near:
        return otherwise
    return f"did you mean {' or '.join(one_line(str(path.parent / found), 120) for found in near[:2])}?"


def refuse_misspelt(run: str, wanted: str = "imported") -> None:
    """Refuse the name of a run that is `wanted` with a slip of the finger: no run's id looks like that."""
    name, slash, source = run.partition("/")
    if name != wanted and near_names(name, (wanted,)):
        meant = f"{wanted}{slash}{one_line(source, 60)}"
        raise UsageError(f"no run {one_line(run, 60)!r}", next_step=f"did you mean {meant}?")
