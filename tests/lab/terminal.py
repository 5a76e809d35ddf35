"""The real `invoke` on a terminal of its own, with somebody at the keys."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import threading
from collections.abc import Mapping, Sequence

from invoked import ROOT, until


class AtTerminal:
    """A command on a pseudo-terminal: what it showed so far, and keys to press."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._keys, screen = pty.openpty()
        self._shown = bytearray()
        # setsid -c: the terminal becomes the session's own, so that ^C reaches its foreground processes.
        self._process = subprocess.Popen(
            ["setsid", "-c", *argv], cwd=ROOT, env=env, stdin=screen, stdout=screen, stderr=screen
        )
        os.close(screen)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def shown(self) -> str:
        """Everything that came to the screen."""
        return self._shown.decode("utf-8", "replace").replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        """Type; `^C` is Ctrl-C."""
        os.write(self._keys, keys.replace("^C", "\x03").encode())

    def wait_for(self, text: str, timeout_s: float = 90, *, after: str = "") -> None:
        """Wait until a text is shown, after another one."""
        until(
            lambda: text in self.shown.partition(after)[2] if after else text in self.shown,
            timeout_s,
            lambda: f"{text!r} was not shown, but:\n{self.shown}",
            alive=lambda: self._process.poll() is None,
        )

    def close(self) -> None:
        """Close the terminal's window."""
        keys, self._keys = self._keys, -1
        os.close(keys)

    def done(self, timeout_s: float = 120) -> int:
        """Wait until it has ended, and return its status."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"it did not end within {timeout_s:g} s:\n{self.shown}") from None
        self._reader.join(5)
        if self._keys >= 0:
            self.close()
        return status

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has the other side open any more
            keys = self._keys
            while text := os.read(keys, 65536):
                self._shown += text
