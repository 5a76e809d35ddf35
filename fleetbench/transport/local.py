"""The controller itself as a host: `transport = "local"` in the inventory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fleetbench.errors import CommandFailed, ConnectionLost
from fleetbench.model import Host
from fleetbench.transport.base import CommandResult, Timeouts, bash, check, quote
from fleetbench.transport.install import INSTALL_FILE, become


class LocalSession:
    """Commands as subprocesses of the controller; same contract as an SSH session."""

    def __init__(self, host: Host, timeouts: Timeouts | None = None) -> None:
        self.host = host
        self.round_trips = 0
        self._timeouts = timeouts or Timeouts()

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        """Run a command; any exit status is fine."""
        self.round_trips += 1
        command = become(argv, login_is_root=os.geteuid() == 0, as_user=as_user)
        started = time.monotonic()
        limit = timeout_s or self._timeouts.command_s
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise ConnectionLost(f"{argv[0]} gave no answer within {limit:g} s", host=self.host.name) from exc
        except FileNotFoundError as exc:
            raise CommandFailed(
                f"{command[0]} is not installed", host=self.host.name, cause=str(exc)
            ) from exc
        return CommandResult(
            command=quote(argv),
            exit_status=done.returncode,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
            seconds=time.monotonic() - started,
        )

    def put(self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        """Write a whole file atomically."""
        descriptor, name = tempfile.mkstemp(prefix=".fleetbench-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            check(
                self,
                bash(INSTALL_FILE, name, path, f"{mode:o}", owner),
                what=f"cannot write {path}",
            )
        finally:
            Path(name).unlink(missing_ok=True)

    def get(self, path: str, *, as_user: str = "") -> bytes:
        """Return a file's content."""
        self.round_trips += 1
        command = become(("cat", "--", path), login_is_root=os.geteuid() == 0, as_user=as_user)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise CommandFailed(
                f"cannot read {path}", host=self.host.name, cause=done.stderr.decode("utf-8", "replace")
            )
        return done.stdout

    @contextlib.contextmanager
    def forward(self, port: int, address: str = "127.0.0.1") -> Iterator[int]:
        """The port is already here."""
        yield port

    def close(self) -> None:
        """Nothing to close."""
