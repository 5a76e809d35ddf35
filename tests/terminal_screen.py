"""A terminal for tests: runs a command on a pty of a given size and plays what it writes onto a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_SEQUENCE = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<final>[A-Za-z])")


@dataclass
class Screen:
    """Lines as they stand after what was fed: enough of a terminal for what rich writes."""

    width: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0
    cursor_shown: bool = True

    def feed(self, text: str) -> None:
        """Play text with its control sequences."""
        position = 0
        while position < len(text):
            found = _SEQUENCE.match(text, position)
            if found is not None:
                self._obey(found["numbers"], found["final"])
                position = found.end()
                continue
            self._put(text[position])
            position += 1

    @property
    def text(self) -> str:
        """Everything that is on it, also what scrolled away."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.column = 0
        elif character.isprintable():
            if self.column == self.width:
                self.row, self.column = self.row + 1, 0
            self._reach()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1
        self._reach()

    def _reach(self) -> None:
        while len(self.lines) <= self.row:
            self.lines.append("")

    def _obey(self, numbers: str, final: str) -> None:
        if final == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif final == "K":
            self.lines[self.row] = "" if numbers == "2" else self.lines[self.row][: self.column]
        elif final in "hl" and numbers == "?25":
            self.cursor_shown = final == "h"


@dataclass
class OnTerminal:
    """A command on a pty, and the screen in front of it."""

    process: subprocess.Popen[bytes]
    leader: int
    screen: Screen
    raw: str = ""

    def read_until(self, condition: Callable[[], bool], timeout_s: float = 30) -> bool:
        """Play what the command writes until something holds; False when it ended or time was up before."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            ready, _, _ = select.select([self.leader], [], [], 0.05)
            if not ready:
                continue
            try:
                content = os.read(self.leader, 65536)
            except OSError:  # EIO: nobody has the other end open any more
                return condition()
            text = content.decode("utf-8", "replace")
            self.raw += text
            self.screen.feed(text)
        return True

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self.leader, b"\x03")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.leader, text.encode())

    def end(self, timeout_s: float = 30) -> int:
        """Play everything to the end and return the exit status."""
        self.read_until(lambda: False, timeout_s)
        try:
            return self.process.wait(timeout_s)
        finally:
            os.close(self.leader)


def on_terminal(
    argv: Sequence[str], env: Mapping[str, str], *, width: int = 100, height: int = 24
) -> OnTerminal:
    """Start a command on a pty, as its session's terminal, so that Ctrl-C reaches it."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    # A terminal of its own, so that Ctrl-C on it reaches the command; a background job ignores SIGINT.
    command = ["setsid", "--ctty", "env", "--default-signal=INT", *argv]
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=dict(env) | {"TERM": "xterm"},
    )
    os.close(follower)
    return OnTerminal(process, leader, Screen(width))
