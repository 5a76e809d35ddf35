"""From a text as it was captured to clean lines: no terminal codes, no progress overwriting, no prefixes.

A line keeps its number in the text and the name of the *stream* it came from: in a journal, the lines of
another unit stand between those of the report.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

# Terminal codes: with ESC; as `^[[36m` (cat -v), `#033[36m` (rsyslog), `\x1b[36m` (repr); colours also
# with the ESC lost.
_TERMINAL = re.compile(
    r"(?:\x1b|\x9b|\^\[|#033|\\x1b|\\u001b|\\033|\\e)\[?[0-9;?]{0,20}[A-Za-z]"
    r"|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)"
    r"|\[\d{1,2}(?:;\d{1,3}){0,4}m"
)
_ESCAPE = re.compile(r"[\x1b\x9b]|\^\[|#033|\\x1b|\\u001b|\\033|\\e|\[\d")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u2060\ufeff]")
_WIDE_SPACE = re.compile(r"[\t\u00a0\u2000-\u200a\u202f\u3000]")
_BREAKING_TAG = re.compile(r"<(?:br|/?p|/?pre|/?div|/?tr|/?table|/?li|/?ul|/?code)\b[^<>]{0,200}>", re.I)
_OTHER_TAG = re.compile(
    r"</?(?:td|th|span|b|strong|i|em|tbody|thead|font|small|samp|tt)\b[^<>]{0,200}>", re.I
)
_BAR = re.compile(r"={3,}|-{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, or one piece of it: `number` counts from 1 in the text as given.

    `open_ended` marks the last line of a text that does not end in a newline: it may be cut.
    """

    number: int
    text: str
    stream: str = ""
    open_ended: bool = False


@cache
def _prefix() -> re.Pattern[str]:
    source = resources.files("fleetbench").joinpath("data/log_prefixes.toml")
    rows = tomllib.loads(source.read_text(encoding="utf-8"))["prefix"]
    named = (row["pattern"].replace("(?P<stream>", f"(?P<stream{n}>") for n, row in enumerate(rows))
    return re.compile("|".join(f"(?:{pattern})" for pattern in named))


def read_lines(text: str) -> Iterator[Line]:
    """Given a captured text, yield its clean lines in order."""
    raw_lines = text.split("\n")
    for number, raw in enumerate(raw_lines, start=1):
        last = number == len(raw_lines)
        if last and not raw:
            return
        for piece in _pieces(raw):
            yield _without_prefix(Line(number=number, text=piece, open_ended=last))


def clean(line: Line) -> Iterator[Line]:
    """Given a line that a log format wrapped whole (JSON log), yield its clean lines."""
    for raw in line.text.split("\n"):
        for piece in _pieces(raw):
            yield _without_prefix(replace(line, text=piece))


def _pieces(raw: str) -> Iterator[str]:
    """Split one line where the terminal, HTML or a repr() would have begun a new one."""
    text = raw
    if _ESCAPE.search(text):
        text = _TERMINAL.sub("", text)
    if "\\n" in text and _BAR.search(text):
        text = text.replace("\\n", "\r")
    if "<" in text:
        text = _OTHER_TAG.sub(" ", _BREAKING_TAG.sub("\r", text))
    if "&" in text:
        text = html.unescape(text)
    for piece in filter(str.strip, text.split("\r")):
        yield _INVISIBLE.sub("", _WIDE_SPACE.sub(" ", piece))


def _without_prefix(line: Line) -> Line:
    """Take off what journald, kubectl, docker, pdsh, pytest … put in front; their names make the stream."""
    text, streams = line.text.lstrip(" "), [line.stream] if line.stream else []
    for _ in range(6):  # `[h100-01] Nov 30 … unit[1]: (APIServer pid=2) ` is as deep as it gets
        match = _prefix().match(text)
        if match is None:
            break
        streams += [name for name in match.groups() if name]
        text = text[match.end() :].lstrip(" ")
    return replace(line, text=text, stream=" ".join(streams))
