"""What can go wrong, in the words an operator reads at 2 a.m.

Each error says where (host), what was tried, why it failed and what to do next, in at most three lines.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any


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


# Names of what is kept from others; a `tokenizer`, `max_tokens`, an `eos_token`, `ms_per_token` is no secret.
_NO_SECRET = (
    *("eos", "bos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "special"),
    *("per", "first", "next", "last", "new"),
)
_TOKEN = "".join(f"(?<!{word}[_-])" for word in _NO_SECRET) + "token"
_KEY = "(?:api|access|secret|private)[_-]?key"
_NAME = rf"(?:{_TOKEN}|{_KEY}|secret|password|passwd)"
_OPTION = (
    r"--(?:api[_-]k(?:ey?)?|hf[_-]to(?:k(?:en?)?)?|(?:(?:auth|access)[_-])?token|password|passwd|secret)"
)
# Values: quoted, maybe within a quoted text; the like in a list; a word, with what a comma joins to it.
_STRING = r""""(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\\{1,8}"[^"\n]*"?|\\{1,8}'[^'\n]*'?"""
_LIST = rf"[\[(](?:{_STRING}|[^\])\"'\n])*[\])]?"
_WORD = r"""[^\s"',]+(?:,[^\s"',=]+(?![^\s"',]))*"""
_NOTHING = r"""(?!(?:none|null|true|false|-?\d{1,5})\b|""|''|\[\]|\(\)|\*\*\*(?![^\s"',)}\]]))"""
_VALUE = f"(?:{_NOTHING}(?:{_STRING}|{_LIST}|{_WORD}))"
_ARGUMENT = r"""(?:\\[^\s"']|[^\s"'\\])+"""
_BLANK = r"(?:[ \t]|\\\n)+"  # a unit's line may go on in the next one
_SECRETS = (
    # User and password of a URL.
    (re.compile(r"(?<=://)[^/\s]+(?=@)"), "***"),
    # What looks like one by itself: of Hugging Face (`hf_transfer` is a package), OpenAI, GitHub, GitLab.
    (re.compile(r"\bhf_(?:(?=[a-z]{0,64}[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{20,})"), "***"),
    (re.compile(r"\b(?:sk|gh[pousr]|github_pat|glpat|xox[abp])[_-](?=[A-Za-z_-]{0,64}\d)[\w-]{16,}"), "***"),
    # Authorization: Bearer abc
    (
        re.compile(
            r"""(?i)(\bauthorization\\{0,8}["']?\s*[:=]\s*\\{0,8}["']?(?:bearer|basic|token)\s+)[^\s"',\\]+"""
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)(\bbearer\s+)(?=[\w.~+/=-]*\d)[\w.~+/=-]{4,}"), r"\1***"),
    # "API_KEY=a b", as a unit's Environment= has it: all within the quotes
    (
        re.compile(rf"""(?i)(["'])([\w-]{{0,64}}{_NAME}=)(?!\1|\*\*\*)(?:(?!\1)(?:\\.|[^\\\n]))+"""),
        r"\1\2***",
    ),
    # The same without them, or with quotes around the value, or a list of such.
    (re.compile(rf"(?i)({_NAME}=){_VALUE}"), r"\1***"),
    # As JSON or Python has it; without quotes (YAML, a header) where a digit tells it from prose.
    (re.compile(rf"""(?i)((\\{{0,8}}["'])[\w-]{{0,64}}{_NAME}\2\s*:\s*)(?:{_VALUE})"""), r"\1***"),
    (re.compile(rf"(?i)((?<![\w-])(?:\w{{1,64}}-)?\w{{0,64}}?{_KEY}\s*:\s*)(?=\S*\d){_VALUE}"), r"\1***"),
    # '--api-key', 'a', 'b', '--port'
    (
        re.compile(
            rf"""((\\{{0,8}}["']){_OPTION}\2)(\s*,?\s*\2)(?!-)(?:(?!\2)[^\n])+(?:\2\s*,?\s*\2(?!-)(?:(?!\2)[^\n])+)*"""
        ),
        r"\1\3***",
    ),
    # --api-key a b --port, --api-key=a
    (re.compile(rf"({_OPTION}=)(?:{_STRING}|{_ARGUMENT})"), r"\1***"),
    (
        re.compile(
            rf"""({_OPTION}{_BLANK})(?!-|[a-z]+:(?:\s|$))(?:{_STRING}|{_ARGUMENT})"""
            rf"""(?:{_BLANK}(?![-\[&|;>]|[a-z]{{1,4}}\b)(?:{_STRING}|{_ARGUMENT}))*"""
        ),
        r"\1***",
    ),
)


def without_secrets(text: str) -> str:
    """Given any text that is shown or kept, return it with what looks like a password or token as `***`."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text
