"""What is wrong in the inventory's files, with the place, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleetbench.errors import InventoryError, one_line, without_secrets


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in one file. `line` counts from 1; `key` is dotted as in TOML, empty for a whole file."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        key = f"{one_line(self.key, 120)}: " if self.key else ""
        return f"{one_line(self.file, 200)}:{self.line}: {key}{one_line(self.text, 300)}"


class InventoryProblems(InventoryError):
    """The inventory's files hold mistakes; its text has one line for each, in the order of the files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__(f"{len(self.problems)} problems in the inventory")

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def shown(value: object) -> str:
    """Return a value of a TOML file as an error message quotes it: short and on one line."""
    match value:
        case str():
            return (
                f'"{one_line(without_secrets(value), 60)}"'  # where a password is refused, it is not quoted
            )
        case bool():
            return "true" if value else "false"
        case dict():
            return "a table"
        case list():
            return f"a list of {len(value)}"
        case _:
            return one_line(str(value), 60)
