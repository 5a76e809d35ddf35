"""One lab command at a time: the kernel holds the lock, so a killed command never leaves it locked."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def _current(file: TextIO, path: Path) -> bool:
    """True while the open file is still the one at `path`: a former holder may have removed it."""
    try:
        return path.stat().st_ino == Path(f"/proc/self/fd/{file.fileno()}").stat().st_ino
    except FileNotFoundError:
        return False


@contextmanager
def locked(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file; says so when another process holds it, and waits. The holder may remove the file."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"waiting for another lab command ({path})")
                fcntl.flock(file, fcntl.LOCK_EX)
            if _current(file, path):
                yield
                return
