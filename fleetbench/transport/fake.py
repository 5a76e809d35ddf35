"""A host that exists only in a test: answers from a table, records what was asked.

Named for what it is. Tests of decisions use it; tests of behaviour use the lab.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from fleetbench.errors import CommandFailed
from fleetbench.model import Host
from fleetbench.transport.base import CommandResult, quote

Answer = CommandResult | str | Exception
Rule = tuple[str, Answer | Callable[[str], Answer]]


class FakeSession:
    """Answers each command by the first rule whose text occurs in it; unknown commands succeed silently.

    Attributes:
        commands: every command line that was run, in order.
        files: what `put` wrote and `get` reads, by path; `modes` and `owners` beside it.
    """

    def __init__(self, host: Host, rules: Sequence[Rule] = ()) -> None:
        self.host = host
        self.rules = list(rules)
        self.round_trips = 0
        self.commands: list[str] = []
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, tuple[int, str]] = {}

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        """Record the command and answer by rule."""
        self.round_trips += 1
        line = quote(argv)
        self.commands.append(line)
        for text, answer in self.rules:
            if text in line:
                given = answer(line) if callable(answer) else answer
                if isinstance(given, Exception):
                    raise given
                if isinstance(given, str):
                    return CommandResult(command=line, exit_status=0, stdout=given, stderr="")
                return given
        return CommandResult(command=line, exit_status=0, stdout="", stderr="")

    def put(self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        """Remember a file."""
        self.round_trips += 1
        self.files[path] = content
        self.modes[path] = (mode, owner)

    def get(self, path: str, *, as_user: str = "") -> bytes:
        """Return a remembered file."""
        self.round_trips += 1
        if path not in self.files:
            raise CommandFailed(f"cannot read {path}", host=self.host.name, cause="No such file or directory")
        return self.files[path]

    @contextlib.contextmanager
    def forward(self, port: int, address: str = "127.0.0.1") -> Iterator[int]:
        """A fake host's port is the controller's own."""
        yield port

    def close(self) -> None:
        """Nothing to close."""
