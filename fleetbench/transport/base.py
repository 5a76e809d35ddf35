"""The one door to a host. Everything that acts on hosts takes a `Session` and knows nothing of SSH."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from fleetbench.errors import CommandFailed
from fleetbench.model import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds, each visible and overridable. `channel_s` is what ends a call to a frozen sshd."""

    connect_s: float = 10
    channel_s: float = 10
    command_s: float = 60
    facts_s: float = 60
    keepalive_s: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What one command on a host came to."""

    command: str
    exit_status: int
    stdout: str
    stderr: str
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True when the command ended with status 0."""
        return self.exit_status == 0

    @property
    def last_line(self) -> str:
        """Last non-empty line of stderr, else of stdout: usually the reason of a failure."""
        for text in (self.stderr, self.stdout):
            lines = [line for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()
        return ""


class Session(Protocol):
    """One open connection to one host. Not thread-safe: one thread per host.

    The name of a method states its contract on the exit status. `argv` is a tuple of arguments, quoted in
    one place (`quote`); scripts go as `script(text, *args)`. Commands run as root (`sudo -n` when the
    login is not root) unless `as_user` names somebody else.

    Raises `ConnectionLost` when the connection breaks (the command may still run) and `CommandFailed`
    where the contract says so.
    """

    host: Host

    @property
    def round_trips(self) -> int:
        """Commands and files sent so far: what a test holds to a budget."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        """Run a command; any exit status is fine."""
        ...

    def put(self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        """Write a whole file atomically; the content never passes through an argument list."""
        ...

    def get(self, path: str, *, as_user: str = "") -> bytes:
        """Return a file's content; CommandFailed when it cannot be read.

        `as_user` reads with that user's rights: for files that a service user may have replaced by a link.
        """
        ...

    def forward(self, port: int, address: str = "127.0.0.1") -> AbstractContextManager[int]:
        """Give a loopback port of the controller that leads to `address`:`port` as the host sees it."""
        ...

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        ...


def quote(argv: Sequence[str]) -> str:
    """The only place where an argument list becomes shell text."""
    return shlex.join(argv)


def bash(text: str, *arguments: str) -> tuple[str, ...]:
    """Given a bash script and its positional arguments, return the argv that runs it.

    The text travels as one argument (Linux allows 128 KiB each), because stdin over Fabric moves about
    90 bytes a second.
    """
    return ("bash", "-c", text, "fleetbench", *arguments)


def check(
    session: Session,
    argv: Sequence[str],
    *,
    timeout_s: float | None = None,
    as_user: str = "",
    what: str = "",
) -> CommandResult:
    """Run a command that must end with status 0; CommandFailed with its last line otherwise."""
    result = session.run(argv, timeout_s=timeout_s, as_user=as_user)
    if not result.ok:
        raise CommandFailed(
            what or f"{argv[0]} ended with status {result.exit_status}",
            host=session.host.name,
            cause=result.last_line,
        )
    return result


def probe(session: Session, argv: Sequence[str]) -> bool:
    """Run a command that answers yes (0) or no (1); CommandFailed on any other status."""
    result = session.run(argv)
    if result.exit_status not in (0, 1):
        raise CommandFailed(
            f"{argv[0]} ended with status {result.exit_status}",
            host=session.host.name,
            cause=result.last_line,
        )
    return result.ok
