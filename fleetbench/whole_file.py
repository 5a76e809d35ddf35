"""Files of the controller that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_whole(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file, with its directories, never half and never wider than `mode`, whatever the umask is.

    OSError where there is no room or no right; what stood at `path` before stands there still, and nothing
    half-written is left.
    """
    with whole(path, mode=mode) as file:
        file.write(content)


@contextmanager
def whole(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Yield a file to write into that takes its place when the body has ended well, as in `write_whole`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
