"""Who did what to which host: one JSON line per step, appended, secrets masked."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleetbench.errors import FleetbenchError, one_line

_MASKS = (
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),  # user:password of a URL
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"(?i)(?<=token=)\S+|(?<=password=)\S+|(?<=secret=)\S+"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One step on one host. `status` is `ok`, `failed` or `lost`; `command` is masked by `of`."""

    time: str
    operator: str
    host: str
    plan: str
    step: str
    command: str
    status: str
    seconds: float
    cause: str = ""


class AuditLog:
    """Appends records to one file; several threads and several processes may do so at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()

    def ready(self) -> None:
        """Raise FleetbenchError when no record could be written: asked before the first step."""
        self._append(b"")

    def write(self, record: Record) -> None:
        """Append one line. O_APPEND keeps lines of other processes whole."""
        self._append((json.dumps(asdict(record), ensure_ascii=False) + "\n").encode())

    def _append(self, line: bytes) -> None:
        try:
            with self._guard:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
                try:
                    os.write(descriptor, line)
                finally:
                    os.close(descriptor)
        except OSError as exc:
            raise FleetbenchError(
                f"cannot write the audit file {self.path}",
                cause=str(exc),
                next_step="make it writable: no step runs without its record",
            ) from exc


def now() -> str:
    """Return the time as the audit has it: UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def operator() -> str:
    """Return who runs this: `user@controller`, behind sudo the user who called it."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container's uid without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def masked(argv: Sequence[str], limit: int = 1000) -> str:
    """Return a command as one line without passwords and tokens; scripts are cut to their beginning."""
    words = [word if "\n" not in word else f"{word.strip().splitlines()[0]} …" for word in argv]
    text = " ".join(words)
    for mask in _MASKS:
        text = mask.sub("***", text)
    return one_line(text, limit)
