"""On which line each key of a TOML text stands; `tomllib` reads values but keeps no positions.

The text has been read by tomllib before, so it is known to be valid: the scanner only has to follow the
structure (tables, arrays of tables, dotted and quoted keys, strings of four kinds, nested arrays and
inline tables), not to judge it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Where a value stands: keys, and positions in arrays counted from 0: `("sweeps", "x", "parallel", 1)`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_STRINGS = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
_BARE = re.compile(r"[^,\]}#\n]*")  # number, boolean or date


def key_lines(text: str) -> Mapping[Path, int]:
    """Given a valid TOML text, return the line (from 1) where each key, table and array element begins."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[Path, int] = {}
        self.elements: dict[Path, int] = {}  # how many elements an array of tables has so far
        self._counted = (0, 1)

    def scan(self) -> Mapping[Path, int]:
        table: Path = ()
        self.skip_blank()
        while self.position < len(self.text):
            if self.text.startswith("[", self.position):
                table = self.header()
            else:
                self.pair(table)
            self.skip_blank()
        return self.lines

    def header(self) -> Path:
        """Read `[a.b]` or `[[a.b]]` and return the path of the table that the next pairs belong to."""
        line = self.line()
        many = self.text.startswith("[[", self.position)
        self.position += 2 if many else 1
        self.skip_blank()
        keys = self.keys()
        path: Path = ()
        for depth, key in enumerate(keys, start=1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            last = depth == len(keys)
            if last and many:
                self.elements[path] = self.elements.get(path, 0) + 1
            if path in self.elements:  # what follows belongs to the newest element
                path = (*path, self.elements[path] - 1)
                self.lines.setdefault(path, line)
        self.skip_blank()
        self.position += 2 if many else 1
        return path

    def pair(self, table: Path) -> None:
        """Read `a.b = value` below `table`."""
        line = self.line()
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.skip_blank()
        self.position += 1  # the "="
        self.skip_blank()
        self.value(path)

    def value(self, path: Path) -> None:
        opening = self.text[self.position : self.position + 1]
        if opening in ("[", "{"):
            self.position += 1
            self.inside(path, "]" if opening == "[" else "}")
        else:
            match = next((m for s in _STRINGS if (m := s.match(self.text, self.position))), None)
            self.advance(match or _BARE.match(self.text, self.position))

    def inside(self, path: Path, closing: str) -> None:
        """Read the elements of an array, or the pairs of an inline table, up to and with its end."""
        index = 0
        self.skip_blank()
        while self.position < len(self.text) and not self.text.startswith(closing, self.position):
            before = self.position
            if closing == "]":
                self.lines[(*path, index)] = self.line()
                self.value((*path, index))
                index += 1
            else:
                self.pair(path)
            self.skip_blank()
            if self.text.startswith(",", self.position):
                self.position += 1
                self.skip_blank()
            if self.position == before:
                break
        self.position += 1

    def keys(self) -> list[str]:
        """Read a dotted key."""
        keys: list[str] = []
        while match := _KEY.match(self.text, self.position):
            self.position = match.end()
            keys.append(_unquoted(match[0]))
            dot = _DOT.match(self.text, self.position)
            if dot is None:
                break
            self.position = dot.end()
        return keys

    def skip_blank(self) -> None:
        self.advance(_BLANK.match(self.text, self.position))

    def advance(self, match: re.Match[str] | None) -> None:
        # Always forward: on a text that is not TOML after all, the scan must end too.
        self.position = max(match.end() if match else 0, self.position)

    def line(self) -> int:
        """Line of the current position, counted on from the last answer."""
        position, line = self._counted
        line += self.text.count("\n", position, self.position)
        self._counted = (self.position, line)
        return line


def _unquoted(key: str) -> str:
    if key.startswith('"'):
        return next(iter(tomllib.loads(f"{key} = 0")))
    return key[1:-1] if key.startswith("'") else key
