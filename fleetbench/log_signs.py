"""Signs of failure in log lines: which signatures match where, and what else speaks of a failure.

Lines in, signs out, one `Signs` per start of the service that the text shows. Which of the signs is the cause
is decided in `fleetbench/failures.py`.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetbench.failure_table import FailureTable, Pattern, Signature
from fleetbench.log_lines import LogLine

READY = "Application startup complete"
_EXIT = re.compile(
    r"Main process exited, code=\w{1,12}, status=(?!0/)\d{1,3}/|Failed with result '(?!success)[\w-]{1,30}'"
)
_EXIT_PROPERTY = re.compile(r"^(?:Result=(?!success$)[\w-]{1,30}|ExecMainStatus=[1-9]\d{0,2})$")
_UNIT = re.compile(r"[\w@:.\\-]{1,255}\.(?:service|scope|socket|timer): |(?:Start|Stopp)(?:ed|ing) ")
_QUIET = ("INFO", "WARNING", "DEBUG")
_EXCEPTION_ENDINGS = (
    "Error",
    "Exception",
    "Failure",
    "Timeout",
    "Expired",
    "Exit",
    "Interrupt",
    "Fault",
    "NotFound",
)
# What Python writes between the tracebacks of two exceptions.
_BETWEEN = ("During handling of the above exception", "The above exception was the direct cause")
# Enough to name the ranks of the largest server.
_MAX_HITS = 512


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature that matched: `index` orders hits, `end` is where the match ends in the message."""

    signature: Signature
    index: int
    line: LogLine
    end: int
    groups: dict[str, str]

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: nearest to the root cause first, then the earliest line."""
        return self.signature.priority, self.index


@dataclass(slots=True)
class Signs:
    """What one start of a service says about a failure; positions are indices into the text's lines.

    Attributes:
        hits: signatures that matched.
        errors: error lines of no known class, each with its position.
        wrappers: lines that only say that something else failed.
        exits: systemd's lines that the unit's process ended badly.
        stops: position of the first orderly stop, None when there was none.
        ready: position of the last line that says that the server is ready.
        messages: whether a program, and not only systemd, wrote anything.
        kinds: the hits as they are found, by class; a hostile text shall not fill the memory.
    """

    hits: list[Hit] = field(default_factory=list)
    errors: list[tuple[int, LogLine]] = field(default_factory=list)
    wrappers: list[tuple[int, LogLine]] = field(default_factory=list)
    exits: list[tuple[int, LogLine]] = field(default_factory=list)
    stops: int | None = None
    ready: int | None = None
    messages: bool = False
    kinds: dict[str, deque[Hit]] = field(default_factory=dict)

    def add(self, hit: Hit) -> None:
        """Add a hit; of a kind that later lines can make void the last ones are kept, else the first."""
        signature = hit.signature
        kept = self.kinds.setdefault(signature.kind, deque(maxlen=_MAX_HITS))
        if signature.unless_later or len(kept) < _MAX_HITS:
            kept.append(hit)


def read_signs(lines: Iterable[LogLine], text: str, table: FailureTable) -> list[Signs]:
    """Given the lines of a text, and the text itself, return the signs of each start in it."""
    scan = _Scan(table, text)
    starts = [Signs()]
    for index, line in enumerate(lines):
        if _begins_start(line, table):
            starts.append(Signs())
        if line.code:
            scan.unfinished.pop(line.process, None)
        else:
            scan.line(index, line, starts[-1])
    return [_settled(signs, scan.last_seen) for signs in starts]


def read_kernel(lines: Iterable[LogLine], table: FailureTable) -> list[Hit]:
    """Given lines of the kernel's log, return the hits of the signatures that belong there."""
    signatures = [s for s in table.signatures if s.kernel]
    found: list[Hit] = []
    own = list(lines)
    for index, line in enumerate(own):
        for signature in signatures:
            match = _first_match(signature.patterns, line.text)
            if match is not None and len(found) < _MAX_HITS:
                # A place before everything in the server's own log, and no line number in it.
                found.append(Hit(signature, index - len(own), line._replace(number=0), *match))
    return found


class _Scan:
    """One pass over the lines of a text."""

    def __init__(self, table: FailureTable, text: str) -> None:
        # A signature whose text is nowhere in the whole is not looked for in each line.
        present = [s for s in table.signatures if any(p.text in text for p in s.patterns)]
        self._table = table
        self._patterns = {
            False: [(s, s.patterns) for s in present],
            True: [(s, loud) for s in present if (loud := tuple(p for p in s.patterns if p.any_level))],
        }
        self._ignored = [i for i in table.ignored if i in text]
        self._exceptions = any(ending in text for ending in _EXCEPTION_ENDINGS)
        markers = {m for s in present for m in s.unless_later if m in text}
        self.last_seen: dict[str, int] = dict.fromkeys(markers, -1)
        # Errors whose message begins on the next line of their process: `RuntimeError:` and nothing behind.
        self.unfinished: dict[str, tuple[list[tuple[int, LogLine]], int]] = {}

    def line(self, index: int, line: LogLine, signs: Signs) -> None:
        """Add what one line says to the signs of its start."""
        message = line.text
        self._finish(line)
        signs.messages = signs.messages or not _from_systemd(line)
        for marker in self.last_seen:
            if marker in message:
                self.last_seen[marker] = index
        if message.lstrip().startswith(READY):
            signs.ready = index
        if signs.stops is None and any(stop in message for stop in self._table.stops):
            signs.stops = index
        if any(ignored in message for ignored in self._ignored):
            return
        quiet = line.level in _QUIET
        known = self._match(index, line, signs, quiet=quiet)
        if quiet or known:
            return
        if any(wrapper in message for wrapper in self._table.wrappers):
            found = signs.wrappers
        elif _EXIT.search(message) or _EXIT_PROPERTY.match(message):
            found = signs.exits
        elif self._exceptions and self._is_error(message):
            found = signs.errors
        else:
            return
        if len(found) < _MAX_HITS:
            found.append((index, line))
            if found is signs.errors and message.endswith(":"):
                self.unfinished[line.process] = found, len(found) - 1

    def _finish(self, line: LogLine) -> None:
        """Put a line behind the error whose message it is: an exception may begin with an empty line."""
        errors, place = self.unfinished.pop(line.process, ([], 0))
        if errors and line.level not in _QUIET and not line.text.startswith(_BETWEEN):
            index, before = errors[place]
            errors[place] = index, before._replace(text=f"{before.text} {line.text.strip()}")

    def _match(self, index: int, line: LogLine, signs: Signs, *, quiet: bool) -> bool:
        known = False
        for signature, patterns in self._patterns[quiet]:
            match = _first_match(patterns, line.text)
            if match is not None:
                known = True
                signs.add(Hit(signature, index, line, *match))
        return known

    def _is_error(self, message: str) -> bool:
        """Tell whether a message is the last line of a Python traceback that may be a cause."""
        if message.startswith("  Value error, "):  # pydantic's way of quoting a ValueError
            return True
        head = message[:120].split(":", 1)[0].split("(", 1)[0].split(" at ", 1)[0].rstrip()
        if not head or " " in head or not head.replace(".", "").replace("_", "").isalnum():
            return False
        name = head.rsplit(".", 1)[-1]
        return name.endswith(_EXCEPTION_ENDINGS) and name not in self._table.harmless


def _first_match(patterns: tuple[Pattern, ...], message: str) -> tuple[int, dict[str, str]] | None:
    for pattern in patterns:
        match = pattern.match(message)
        if match is not None:
            return match
    return None


def _from_systemd(line: LogLine) -> bool:
    """Tell whether systemd wrote a line about a unit; `journalctl -o cat` leaves its name out."""
    return line.process == "systemd" or (not line.level and not line.process and bool(_UNIT.match(line.text)))


def _begins_start(line: LogLine, table: FailureTable) -> bool:
    # vLLM's own "Starting vLLM server" has a level, systemd's lines have none.
    if line.level or line.process not in ("", "systemd"):
        return False
    return any(start.search(line.text) for start in table.starts)


def _settled(signs: Signs, last_seen: dict[str, int]) -> Signs:
    """Return the signs without those that a server which came up, or their own conditions, make void."""
    signs.hits = sorted((hit for kept in signs.kinds.values() for hit in kept), key=lambda hit: hit.index)
    if signs.ready is not None:
        ready = signs.ready
        signs.hits = [h for h in signs.hits if h.index > ready]
        for found in (signs.errors, signs.wrappers, signs.exits):
            found[:] = [(index, line) for index, line in found if index > ready]
    counts = Counter((h.signature.kind, h.line.process) for h in signs.hits)
    signs.hits = [
        h
        for h in signs.hits
        if counts[h.signature.kind, h.line.process] >= h.signature.min_count
        and all(last_seen.get(marker, -1) <= h.index for marker in h.signature.unless_later)
    ]
    alone = any(not h.signature.needs_failure or h.line.level not in _QUIET for h in signs.hits)
    if not (alone or signs.errors or signs.wrappers or signs.exits):
        signs.hits = []
    return signs
