"""What a run's directory keeps of its trials, read for the page: the edge of this package. It writes nothing.

Whatever is missing or broken is left out: a report is made of what is there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetbench.errors import Unreadable, without_secrets
from fleetbench.report.html.values import Link
from fleetbench.results import raw_files
from fleetbench.results.rows import Json

MOST_FILES = 200
MOST_JOURNAL_BYTES = 16 * 1024**2  # the end of a longer one, where what ended it stands
_BEFORE, _AFTER, _LAST = 6, 4, 10
_LONGEST = 400
_ACCESS = re.compile(r'"(?:GET|POST) /[^"]* HTTP/1\.[01]" 200')
# What a browser, a file system and a URL read the same way; our own names are of that kind.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run's directory, and the directory that the page is written to; None: there is none."""

    directory: Path | None = None
    page: Path | None = None

    def files(self, place: str) -> tuple[Link, ...]:
        """Return the files in a place of the run, with links where the page lies in the run as well."""
        if self.directory is None:
            return ()
        found = _files(self.directory / place)[:MOST_FILES]
        return tuple(self._link(path.relative_to(self.directory).as_posix()) for path in found)

    def directory_link(self, place: str) -> tuple[Link, ...]:
        """Return a link to a directory of the run, which a browser lists; none where it is not there."""
        if self.directory is None or not (self.directory / place).is_dir():
            return ()
        return (self._link(f"{place}/"),)

    def document(self, place: str, name: str) -> Mapping[str, Json]:
        """Return a JSON object that was kept; empty where it is missing or broken."""
        try:
            found = json.loads(self._read(place, name) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def journal(self, place: str, decisive: str) -> tuple[str, str]:
        """Return name and excerpt of the journal of a trial's server: of several the one with that line."""
        if self.directory is None:
            return "", ""
        names = {
            path.name.removesuffix(raw_files.SUFFIX)
            for path in _files(self.directory / place)
            if path.name.removesuffix(raw_files.SUFFIX).endswith(".journal")
        }
        first = "", ""
        for name in sorted(names):
            text = (self._read(place, name) or b"")[-MOST_JOURNAL_BYTES:].decode("utf-8", "replace")
            found, holds = excerpt(text, decisive)
            if holds:
                return name, found
            first = first if first[1] else (name, found)
        return first

    def _read(self, place: str, name: str) -> bytes | None:
        if self.directory is None:
            return None
        try:
            return raw_files.read(self.directory / place, name)
        except Unreadable:
            return None

    def _link(self, path: str) -> Link:
        """Links only within the run: those of a page elsewhere would tell where this machine keeps runs."""
        if self.directory is None or self.page is None or not _PLAIN.fullmatch(path):
            return Link(path)
        run, page = self.directory.resolve(), self.page.resolve()
        return Link(path, f"{os.path.relpath(run, page)}/{path}" if page.is_relative_to(run) else "")


def excerpt(journal: str, decisive: str) -> tuple[str, bool]:
    """Return the lines of a journal around the decisive one and whether it was found, else the last lines.

    Lines that only say that a request was answered are left out; secrets are masked.
    """
    lines = [line for line in journal.splitlines() if line.strip() and not _ACCESS.search(line)]
    wanted = " ".join(decisive.split())[:120]
    place = next((at for at, line in enumerate(lines) if wanted and wanted in " ".join(line.split())), None)
    around = slice(-_LAST, None) if place is None else slice(max(0, place - _BEFORE), place + _AFTER + 1)
    return without_secrets("\n".join(map(_shown, lines[around]))), place is not None


def _shown(line: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in line).rstrip()
    return printable if len(printable) <= _LONGEST else printable[: _LONGEST - 1] + "…"


def _files(place: Path) -> list[Path]:
    """Return the files in a directory; a link may lead anywhere and is none of the run's."""
    try:
        return [path for path in sorted(place.iterdir()) if path.is_file() and not path.is_symlink()]
    except OSError:
        return []
