"""Log text in, bare messages out: what journald, containers and vLLM put before a message is taken off.

Input is any text that may hold log lines: a journal in any of its output forms, a container log, a file, or
what somebody pasted out of `grep -n`. Output is one `LogLine` per line that holds something. Nothing is
interpreted beyond the prefix, and every expression here is anchored and bounded: reading is linear in the
length of the text, whatever the text is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

# A configuration dump can be 10 kB long; an error message that matters is not.
MAX_LINE = 4096
# A JSON log line longer than this is left as it is.
MAX_JSON = 65_536


class LogLine(NamedTuple):
    """One message without its prefixes (a tuple, because a long journal has half a million of them).

    Attributes:
        number: line in the text, from 1.
        text: the message; indentation after the prefix is kept, a traceback needs it.
        level: `ERROR`, `WARNING`, `INFO`, `DEBUG`, or empty when the line names none.
        process: `EngineCore_DP0`, `Worker_TP1`, else the journal's identifier, else empty.
        code: the line shows source code or a frame of a traceback, not a message.
    """

    number: int
    text: str
    level: str
    process: str
    code: bool


# ESC [ … letter, also as a pager or journald spells it ("^[[1m", "#033[1m").
_ANSI = re.compile(r"(?:\x1b|\^\[|#033)\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)")
_ANSI_WITHOUT_ESCAPE = re.compile(r"\[(?:\d{1,2};){0,3}\d{1,2}m")

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
# "Aug 19 18:34:30 host vllm[8707]: " and the ISO forms of journalctl -o short-iso/short-full.
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rf"|(?:[A-Z][a-z]{{2}} )?{_STAMP}(?: [A-Z]{{2,5}})?)"
    r" (?P<host>[^\s:\[\]]{1,255}) (?P<ident>[^\s:\[\]]{1,255})(?:\[\d{1,10}\])?: ?"
)
_CONTAINER = re.compile(rf"{_STAMP}\s(?:(?:stdout|stderr) [FP] )?")
_COMPOSE = re.compile(r"[\w.-]{1,64} {0,20}\| ")
_KERNEL_STAMP = re.compile(r"\[\s{0,8}\d{1,10}\.\d{3,9}\] ")
# "117:", "Line 117:", srun's "0: "; only when what follows looks like the start of a message.
_NUMBERED = re.compile(r"\s{0,4}(?:Line )?\d{1,7}[:-]\s?(?=[A-Z(\[])")
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w:.-]{0,60})(?: rank=(?P<rank>\d{1,6}))? pid=\d{1,10}(?:, ip=[\w.:]{1,64})?\) ?"
)
_RANK = re.compile(r"\[rank(?P<rank>\d{1,6})\]:? ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
    r"(?: (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: \[[^\]\s]{1,120}:\d{1,6}\])? ?"
    r"|:\s{1,9}|:?$| )"
)
# torch's C++ logger: "[W716 19:11:51.387418683 socket.cpp:764] ".
_TORCH = re.compile(
    r"\[(?P<letter>[IWEF])\d{3,4} \d\d:\d\d:\d\d\.\d{1,9}(?: \d{1,10})? [\w./-]{1,80}:\d{1,6}\] ?"
)
_TORCH_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "ERROR"}
# Python's warnings, and what vLLM prints about an optional module before its logger is set up.
_PYTHON_WARNING = re.compile(
    r"(?:\S{1,300}:\d{1,6}: )?(?:User|Future|Deprecation|Runtime|Resource)?Warning: "
    r"|Failed to import from vllm"
)

_FRAME = re.compile(
    r'  File "(?:[^"]{0,500}/)?(?P<file>[^"/]{1,120})", line (?P<line>\d{1,7}), in (?P<function>\S{1,80})'
)

_PREFIXES = (_JOURNAL, _CONTAINER, _KERNEL_STAMP, _NUMBERED, _COMPOSE, _PROCESS, _RANK, _TORCH, _LEVEL)
# Prefixes nest: grep in front of docker in front of journald in front of vLLM's own two.
_MAX_PREFIXES = 8


def without_ansi(text: str) -> str:
    """Given any text, return it without terminal escapes (colours, cursor movements, titles)."""
    if "\x1b" in text or "^[[" in text or "#033[" in text:
        text = _ANSI.sub("", text)
    if "[0m" in text or "[0;0m" in text:
        text = _ANSI_WITHOUT_ESCAPE.sub("", text)
    return text


def read_lines(text: str) -> Iterator[LogLine]:
    """Given a text, yield its lines that hold something, in order, without prefixes.

    A carriage return ends a line too (progress bars); a line longer than `MAX_LINE` characters is cut there.
    """
    tracebacks: dict[str, _Traceback] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        for part in raw.split("\r") if "\r" in raw else (raw,):
            if part and not part.isspace():
                message, level, process = _bare(_unwrapped(part)[:MAX_LINE])
                traceback = tracebacks.setdefault(process, _Traceback())
                code = traceback.takes(message)
                if not code and traceback.frame:
                    message = _with_place(message, traceback)
                yield LogLine(number, message, level, process, code)


def _unwrapped(line: str) -> str:
    """Return the message of a JSON log line (docker's file, `journalctl -o json`), or the line itself."""
    if not line.startswith("{") or len(line) > MAX_JSON or ('"log"' not in line and '"MESSAGE"' not in line):
        return line
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if isinstance(record.get("log"), str):
        return str(record["log"]).rstrip("\n")
    if isinstance(record.get("MESSAGE"), str):
        identifier = str(record.get("SYSLOG_IDENTIFIER") or "journal").replace(" ", "_") or "journal"
        return f"Jan 01 00:00:00 host {identifier}: {record['MESSAGE']}"
    return line


def _bare(line: str) -> tuple[str, str, str]:
    """Return message, level and process of one line."""
    level = process = ""
    for _ in range(_MAX_PREFIXES):
        for expression in _PREFIXES:
            match = expression.match(line)
            if match is not None and match.end():
                break
        else:
            break
        if expression is _JOURNAL:
            process = match["ident"]
        elif expression is _PROCESS:
            process = match["name"] + (match["rank"] or "")
        elif expression is _RANK:
            process = process or f"rank{match['rank']}"
        elif expression is _TORCH:
            level = _TORCH_LEVELS[match["letter"]]
        elif expression is _LEVEL:
            level = {"WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR"}.get(
                match["level"], match["level"]
            )
        line = line[match.end() :]
        if expression is _LEVEL:
            break  # what follows is the message, whatever it looks like
    if not level and _PYTHON_WARNING.match(line):
        level = "WARNING"
    return line.rstrip(), level, process


class _Traceback:
    """Where one process stands in printing a traceback; processes write at the same time, each has its own.

    Python indents frames by two spaces and source by four or more, so an exception's own line, which is not
    indented, ends them.
    """

    __slots__ = ("frame", "inside", "source")

    def __init__(self) -> None:
        self.inside = False
        self.frame = ""
        self.source = ""

    def takes(self, message: str) -> bool:
        """Tell whether a line belongs to the frames of a traceback, and remember the innermost frame."""
        if message.startswith('  File "'):
            self.inside, self.frame, self.source = True, message, ""
        elif message.startswith("Traceback (most recent call last)"):
            self.inside, self.frame, self.source = True, "", ""
        elif self.inside and message.startswith("  "):
            if message.strip(" ^~"):
                self.source = message.strip()
        else:
            if not self.inside:
                self.frame = ""
            self.inside = False
            return False
        return True


def _with_place(message: str, traceback: _Traceback) -> str:
    """Return a bare exception name (`AssertionError`) with the place where it was raised, else the message.

    The name alone says nothing; where it stands often says all.
    """
    frame = _FRAME.match(traceback.frame)
    if frame is None or not message.replace(".", "").isalnum():
        return message
    source = f": {traceback.source}" if traceback.source else ""
    return f"{message} at {frame['file']}:{frame['line']} in {frame['function']}{source}"
