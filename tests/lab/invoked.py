"""The real `invoke` as a process of its own: what it said, how it ended, and ways to end it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """How one `invoke` ended."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The problems that it reported, each with its lines."""
        found: list[str] = []
        for line in self.err.splitlines():
            if line.startswith("error: "):
                found.append(line)
            elif found and line.startswith("  "):
                found[-1] += "\n" + line
        return found


class Running:
    """An `invoke` that still runs: its words so far, and ways to end it."""

    def __init__(self, argv: list[str], env: Mapping[str, str], place: Path) -> None:
        self._out, self._err = place / "stdout", place / "stderr"
        with self._out.open("w") as out, self._err.open("w") as err:
            # A job in the background of a script inherits SIGINT as ignored; one of a terminal does not.
            command = ["env", "--default-signal=INT", *argv]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8")

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, text: str, timeout_s: float = 90) -> None:
        """Wait until it has said something."""
        until(
            lambda: text in self.err,
            timeout_s,
            lambda: f"{text!r} was not said, but:\n{self.err}",
            alive=lambda: self._process.poll() is None,
        )

    def connects_to(self, address: str) -> bool:
        """True while it is about to connect to an address that does not answer."""
        argv = ["ss", "-Htnp", "state", "syn-sent", "dst", address]
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        return f"pid={self._process.pid}," in found

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP: a laptop that sleeps."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def hang_up(self) -> None:
        """SIGHUP, as a closed terminal sends it."""
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL, as a crash of the controller would be."""
        self._process.kill()
        self._process.wait()

    def done(self, timeout_s: float = 120) -> Done:
        """Wait until it has ended."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {timeout_s:g} s:\n{self.err}") from None
        return Done(status, self._out.read_text("utf-8"), self.err)


def until(
    condition: Callable[[], bool],
    timeout_s: float = 60,
    what: Callable[[], str] = lambda: "it did not happen in time",
    *,
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Wait for a condition; `alive` says whether it can still come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert alive() or condition(), what()
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)
