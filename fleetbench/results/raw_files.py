"""Raw files of a run: whole or not there, large ones packed, read back by the name they were kept under."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

from fleetbench.errors import Unreadable, one_line
from fleetbench.whole_file import write_whole

SUFFIX = ".gz"
# Smaller ones stay as they are, for people and grep. A result with the samples of 1,000 answers of 128 tokens
# has about 3 MB, a server's /metrics about 100 kB.
LARGE_BYTES = 256 * 1024
# The host waits meanwhile: 33 MB of 10,000 requests take 0.3 s at level 1 and 1.7 s at 6, for 15 % less.
LEVEL = 1
# A result with the samples of 100,000 requests has about 300 MB.
LARGEST_BYTES = 512 * 1024 * 1024


def keep(directory: Path, content: Mapping[str, bytes]) -> None:
    """Given contents by name, write each into a directory: a large one as `NAME.gz`, in the place of an
    earlier one in either form. The same content gives the same bytes. OSError as of `write_whole`."""
    for name, data in content.items():
        plain, packed = directory / name, directory / f"{name}{SUFFIX}"
        if len(data) > LARGE_BYTES and not name.endswith(SUFFIX):
            write_whole(packed, gzip.compress(data, compresslevel=LEVEL, mtime=0))
            plain.unlink(missing_ok=True)
        else:
            write_whole(plain, data)
            packed.unlink(missing_ok=True)


def stored_name(directory: Path, name: str) -> str:
    """Return under which name a file is there: its own, or packed; empty when it is not."""
    return next((found for found in (name, f"{name}{SUFFIX}") if _is_file(directory / found)), "")


def read(directory: Path, name: str) -> bytes | None:
    """Return the content that was kept under a name, unpacked; None when there is no such file.

    Unreadable, with the reason, when it is broken or larger than LARGEST_BYTES.
    """
    stored = stored_name(directory, name)
    if not stored:
        return None
    try:
        with (directory / stored).open("rb") as file:
            if stored == name:
                content = file.read(LARGEST_BYTES + 1)
            else:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    content = unpacked.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise Unreadable(f"{one_line(stored)} cannot be read", cause=one_line(str(exc), 200)) from exc
    if len(content) > LARGEST_BYTES:
        raise Unreadable(f"{one_line(stored)} is larger than {LARGEST_BYTES // 2**20} MiB")
    return content


def _is_file(path: Path) -> bool:
    """A link may lead anywhere; only a file of the run itself is one."""
    return path.is_file() and not path.is_symlink()
