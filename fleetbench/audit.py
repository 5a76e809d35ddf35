"""Who did what to which host: one JSON line per step, appended, secrets masked."""

from __future__ import annotations

import json
import os
import pwd
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleetbench.errors import FleetbenchError, one_line, without_secrets


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
    """Return who runs this: `user@controller`, behind sudo the user who called it.

    The kernel is asked, and not $USER, which everybody can set; $SUDO_USER counts for root alone, who got it
    from sudo.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's uid without a name
        name = str(uid)
    if uid == 0:
        name = os.environ.get("SUDO_USER") or name
    return f"{one_line(name, 60)}@{socket.gethostname()}"


def masked(argv: Sequence[str], limit: int = 1000) -> str:
    """Return a command as one line without passwords and tokens; scripts are cut to their beginning."""
    words = [word if "\n" not in word else f"{word.strip().splitlines()[0]} …" for word in argv]
    return one_line(without_secrets(" ".join(words)), limit)
