"""The inventory's files as parsed TOML, and `Place`: the position that a problem is reported at."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetbench.errors import without_secrets
from fleetbench.inventory.names import NAME_RULE, is_name
from fleetbench.inventory.problems import Problem, shown
from fleetbench.inventory.toml_lines import Path as KeyPath
from fleetbench.inventory.toml_lines import key_lines

FILES = ("hosts.toml", "models.toml", "sweeps.toml")
LARGEST_FILE = 4 * 1024 * 1024

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")


@dataclass(frozen=True, slots=True)
class Document:
    """One TOML file. `shown` is its path as messages print it: short below the current directory."""

    file: Path
    shown: str
    tables: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    problems: list[Problem] = field(repr=False, default_factory=list)

    @property
    def root(self) -> Place:
        """Place of the whole file."""
        return Place(self, ())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: document and key path. Problems found there go into the document's list."""

    document: Document
    path: KeyPath

    def at(self, key: str | int) -> Place:
        """Return the place one level deeper."""
        return Place(self.document, (*self.path, key))

    @property
    def line(self) -> int:
        """Line of the key, or of the nearest table around it when it is not in the file."""
        for length in range(len(self.path), 0, -1):
            if self.path[:length] in self.document.lines:
                return self.document.lines[self.path[:length]]
        return 1

    @property
    def where(self) -> str:
        """`hosts.toml:12`, with the directory."""
        return f"{self.document.shown}:{self.line}"

    @property
    def key(self) -> str:
        """The key path as TOML writes it: `hosts."h100-[01-08]".ports`, `sweeps.x.parallel[2].tp`."""
        text = ""
        for part in self.path:
            if isinstance(part, int):
                text += f"[{part}]"
            else:
                dot = "." if text else ""
                text += dot + (part if _BARE_KEY.fullmatch(part) else '"' + part.replace('"', '\\"') + '"')
        return text

    def report(self, text: str) -> None:
        """Note a problem here."""
        self.document.problems.append(Problem(self.document.shown, self.line, self.key, text))

    def expected(self, what: str, value: object) -> None:
        """Note that something else was expected here."""
        self.report(f"expected {what}, found {shown(value)}")


def read_documents(directory: Path, name: str, problems: list[Problem]) -> tuple[tuple[Document, ...], bool]:
    """Read the files called `name` in the directory and its immediate sub-directories, the directory's first.

    Returns the documents, and whether all of them could be read; what could not is in `problems`.
    """
    below = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    candidates = [folder / name for folder in (directory, *below)]
    found = [file for file in candidates if file.exists() or file.is_symlink()]  # also a link to nothing
    documents = [document for file in found if (document := read_document(file, problems)) is not None]
    return tuple(documents), len(documents) == len(found)


def named_tables(
    documents: tuple[Document, ...], section: str
) -> Iterator[tuple[str, Place, dict[str, Any]]]:
    """Yield name, place and content of each `[section.NAME]`; names that cannot be used are problems."""
    for document in documents:
        place = document.root.at(section)
        content = document.tables.get(section, {})
        if not isinstance(content, dict):
            place.expected(f"tables [{section}.NAME]", content)
            continue
        for name, table in content.items():
            if not isinstance(table, dict):
                place.at(name).expected(f"a table [{section}.NAME]", table)
            elif section != "hosts" and not is_name(name):  # keys of hosts are patterns, checked there
                place.at(name).report(f"expected a name of {NAME_RULE}")
            else:
                yield name, place.at(name), table


def read_document(file: Path, problems: list[Problem]) -> Document | None:
    """Read one TOML file; None, and a problem, where it cannot be read."""
    name = _short(file)
    try:
        if not file.is_file():
            problems.append(Problem(name, 1, "", "expected a file"))
            return None
        content = file.read_bytes()
    except OSError as exc:
        problems.append(Problem(name, 1, "", f"cannot be read: {exc.strerror or exc}"))
        return None
    if len(content) > LARGEST_FILE:
        problems.append(Problem(name, 1, "", f"expected at most {LARGEST_FILE} bytes, found {len(content)}"))
        return None
    try:
        # Editors on Windows put a byte order mark in front; TOML knows none.
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        return Document(file, name, tomllib.loads(text), key_lines(text), problems)
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        problems.append(Problem(name, line, "", f"expected UTF-8, found byte 0x{content[exc.start]:02x}"))
    except tomllib.TOMLDecodeError as exc:
        problems.append(_syntax_problem(name, text, str(exc)))
    except RecursionError:
        problems.append(Problem(name, 1, "", "expected TOML, found tables or arrays nested too deeply"))
    except ValueError as exc:  # e.g. an integer of more digits than Python converts
        problems.append(Problem(name, 1, "", f"not valid TOML: {exc}"))
    return None


def _syntax_problem(name: str, text: str, message: str) -> Problem:
    """Turn tomllib's words (`Invalid value (at line 3, column 7)`) into a problem with the line."""
    match = _POSITION.search(message)
    line = int(match[1]) if match and match[1] else text.rstrip("\n").count("\n") + 1
    lines = text.split("\n")
    quoted = without_secrets(lines[line - 1].strip()) if line <= len(lines) else ""
    return Problem(
        name, line, "", f"not valid TOML: {_POSITION.sub('', message)}" + (f": {quoted}" if quoted else "")
    )


def _short(file: Path) -> str:
    """The path as an operator can type it here: relative when it lies below the current directory."""
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)
