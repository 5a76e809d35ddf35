"""known_hosts files as OpenSSH reads them: what is revoked is not known, a bad line spoils no other.

paramiko's own reader ends with an exception at a marker (`@revoked`, `@cert-authority`) and at a bad line.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def trusted_file(paths: Sequence[str]) -> Iterator[str]:
    """Give the name of a file with the lines that `known_lines` returns; it is gone afterwards."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="fleetbench-known-") as file:
        file.writelines(f"{line}\n" for line in known_lines(paths))
        file.flush()
        yield file.name


def known_lines(paths: Sequence[str]) -> tuple[str, ...]:
    """Given known_hosts files, return the lines that name keys to trust: names, kind and key of each."""
    lines: list[str] = []
    for path in paths:
        with contextlib.suppress(OSError):  # gone since ssh named it: its hosts are unknown
            lines += Path(path).read_text("utf-8", "replace").splitlines()
    entries = [line.split() for line in lines if not line.lstrip().startswith("#")]
    revoked = {entry[3] for entry in entries if entry[:1] == ["@revoked"] and len(entry) > 3}
    return tuple(
        " ".join(entry[:3])
        for entry in entries
        if len(entry) > 2
        and not entry[0].startswith("@")
        and entry[2] not in revoked
        and _is_key(entry[1], entry[2])
    )


def _is_key(kind: str, text: str) -> bool:
    """A key in this form carries its kind: four bytes of length, then the name."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    name = kind.encode("utf-8", "replace")
    return content[:4] == len(name).to_bytes(4, "big") and content[4:].startswith(name)
