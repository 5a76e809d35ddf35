"""What can go wrong, in the words an operator reads at 2 a.m.

Each error says where (host), what was tried, why it failed and what to do next, in at most three lines.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from fleetbench.masking import without_secrets as without_secrets  # noqa: PLC0414  beside `one_line`


class Exit(IntEnum):
    """Exit statuses of every command, for scripts."""

    OK = 0
    FAILED = 1
    CHANGES_PENDING = 2
    WRONG_USAGE = 2  # of `fleetbench`, where nothing is pending
    NOT_REACHED = 3
    REGRESSION = 4
    INTERRUPTED = 130


class FleetbenchError(Exception):
    """A failure that the operator can act on.

    Attributes:
        what: what was tried and did not work, one sentence without a full stop.
        host: inventory name of the host, empty when no host is involved.
        cause: what came back: the decisive line, quoted, never a whole log.
        next_step: the command or edit that mends it.
    """

    exit_status: Exit = Exit.FAILED

    def __init__(self, what: str, *, host: str = "", cause: str = "", next_step: str = "") -> None:
        self.what = what
        self.host = host
        self.cause = cause
        self.next_step = next_step
        super().__init__(what)

    def __str__(self) -> str:
        lines = [one_line(f"{self.host}: {self.what}" if self.host else self.what, 1000)]
        if self.cause:
            lines.append(f"  cause: {one_line(self.cause)}")
        if self.next_step:
            lines.append(f"  next:  {one_line(self.next_step)}")
        return without_secrets("\n".join(lines))


class InventoryError(FleetbenchError):
    """The inventory, or a name taken from it, is wrong; nothing was touched."""


class UsageError(FleetbenchError):
    """An argument cannot be used; nothing was touched."""


class NotReached(FleetbenchError):
    """A host did not answer, or refused the connection; `since` when (UTC), where it was waited for."""

    exit_status = Exit.NOT_REACHED
    since: str = ""


class HostKeyRefused(NotReached):
    """The host's key is unknown or has changed."""


class ConnectionLost(NotReached):
    """The connection broke while a command ran; the command may still be running on the host."""


class CommandFailed(FleetbenchError):
    """A command on a host ended with a status that its caller does not accept."""


class NotPossible(FleetbenchError):
    """The wish cannot work on this host, found out before anything was changed."""


class Occupied(NotPossible):
    """A GPU or a port is in somebody else's hands: it says nothing about what was wanted there."""


class LeaseLost(FleetbenchError):
    """The host is no longer this controller's: the loan ran out, or somebody ended it."""


class NotConverged(FleetbenchError):
    """After all steps were applied, the plan is still not empty."""


class NotUndone(FleetbenchError):
    """A change did not work, and the host is not as it was before; says what mends it."""


class NotReady(FleetbenchError):
    """A service did not become ready; the cause is the journal's decisive line.

    `failure` is a `fleetbench.model.Failure` where the cause was looked for in the journal of `unit`, of the
    start that systemd calls `invocation`.
    """

    failure: Any = None
    unit: str = ""
    invocation: str = ""


class HostRebooted(NotReady):
    """The server is gone because its host was booted anew; it may be tried again."""


class Regression(FleetbenchError):
    """What was measured is worse than it may be: `--fail-on` of `fleetbench compare`."""

    exit_status = Exit.REGRESSION


class Unreadable(FleetbenchError):
    """A text or file holds nothing that can be read as a result."""


class Interrupted(FleetbenchError):
    """The operator pressed Ctrl-C; says what was left running and how to resume."""

    exit_status = Exit.INTERRUPTED


def foreseen(exc: BaseException) -> FleetbenchError:
    """Return an exception as one of ours: what nobody foresaw is named, and its traceback kept with it."""
    if isinstance(exc, FleetbenchError):
        return exc
    text = one_line(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__, 300)
    error = FleetbenchError(text, next_step="run again with --debug, and report it")
    error.__cause__ = exc
    return error


def one_line(text: str, limit: int = 400) -> str:
    """Given any text from a host, return it as one printable line of at most `limit` characters.

    Control characters (terminal escapes, carriage returns) are shown as spaces: a host's text is never
    allowed to move the operator's cursor or forge a line of ours.
    """
    printable = "".join(c if c.isprintable() else " " for c in text)
    squeezed = " ".join(printable.split())
    return squeezed if len(squeezed) <= limit else squeezed[: limit - 1] + "…"
