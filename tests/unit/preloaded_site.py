"""A `vllm` of a few lines, the process that preloads it, and the program that hands executions over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[2] / "fleetbench" / "bench" / "on_client"

# Like the real one: a short script that imports a lot, and then looks at sys.argv.
VLLM = """#!{python}
import sys
from imported import main
if __name__ == "__main__":
    sys.exit(main())
"""
IMPORTED = """
import json, os, random, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)
with open(os.path.join(HERE, "imports"), "a") as file:
    file.write(f"{os.getpid()}\\n")
exec(open(os.path.join(HERE, "on_import")).read())

def main():
    assert sys.argv[1:3] == ["bench", "serve"], sys.argv
    if "--help" in sys.argv:
        print("usage: vllm bench serve")
        sys.exit(0)
    os.environ["SET_BY_MAIN"] = "1"
    seen = {
        "pid": os.getpid(), "argv": sys.argv, "path": sys.path[0], "directory": os.getcwd(),
        "environment": dict(os.environ), "random": random.random(), "imported": __name__,
        "main": sys.modules["__main__"].__file__, "group": os.getpgid(0),
        "signals": [signal.getsignal(s) == signal.SIG_DFL for s in (signal.SIGTERM, signal.SIGCHLD)],
        "stdin": os.read(0, 1).decode(), "threads": threading.active_count(),
    }
    print(json.dumps(seen), flush=True)
    print("words", file=sys.stderr)
    what, _, value = sys.argv[-1].partition("=")
    if what == "--status":
        return int(value)
    if what == "--signal":
        os.kill(os.getpid(), int(value))
    if what == "--stay":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open("child.part", "w").write(str(child.pid))
        os.rename("child.part", "child")
        time.sleep(600)
"""


class Site:
    """Everything of one host, in a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.sockets = place / "run"
        self.sockets.mkdir(mode=0o700)
        self.bin = place / "venv" / "bin"
        self.bin.mkdir(parents=True)
        self.vllm = self.bin / "vllm"
        self.vllm.write_text(VLLM.format(python=sys.executable))
        self.vllm.chmod(0o755)
        (self.bin / "imported.py").write_text(IMPORTED)
        self.on_import("")
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), "HF_HOME": "/models"}
        self.processes: list[subprocess.Popen[str]] = []

    def on_import(self, code: str) -> None:
        """What `vllm` does when it is imported."""
        (self.bin / "on_import").write_text(code)

    @property
    def imports(self) -> list[int]:
        """Process id of each process that imported it."""
        file = self.bin / "imports"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def preload(
        self,
        *,
        idle_s: float = 60,
        lifetime_s: float = 60,
        ready: bool = True,
        program: Path = PROGRAMS / "preloaded.py",
        **more: str,
    ) -> subprocess.Popen[str]:
        """Start the process that imports it."""
        argv = [sys.executable, str(program), str(self.sockets), str(self.vllm)]
        process = subprocess.Popen(
            [*argv, str(idle_s), str(lifetime_s)],
            env={**self.environment, "OPENBLAS_NUM_THREADS": "1", **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        if ready:
            until((self.sockets / "ready").exists)
        return process

    def begin(
        self,
        name: str,
        *words: str,
        directory: Path | None = None,
        program: Path = PROGRAMS / "handover.py",
        command: Path | None = None,
        **more: str,
    ) -> subprocess.Popen[str]:
        """Hand over one execution that has a directory of its own, as its unit does."""
        out = self.out(name)
        out.mkdir()
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(program),
            str(self.sockets if directory is None else directory),
        ]
        with (out / "stdout").open("w") as stdout, (out / "stderr").open("w") as stderr:
            process = subprocess.Popen(
                [*argv, "python", str(command or self.vllm), "bench", "serve", *words],
                cwd=out,
                env={**self.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
            )
        self.processes.append(process)
        return process

    def run(self, name: str, *words: str, **options: Any) -> int:
        """Hand over one execution and return its status."""
        return self.begin(name, *words, **options).wait(30)

    def out(self, name: str) -> Path:
        """The directory of an execution."""
        return self.place / name

    def seen(self, name: str) -> Mapping[str, Any]:
        """What an execution saw of itself."""
        found = json.loads((self.out(name) / "stdout").read_text())
        assert isinstance(found, dict)
        return found

    def noted(self, name: str) -> tuple[str, str]:
        """What measured, and why it was not the preloaded one."""
        found = json.loads((self.out(name) / "program.json").read_text())
        return found["program"], found["not_preloaded"]

    def close(self) -> None:
        """End everything that was started."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()


def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait for a condition."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """True while a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


IS_ROOT = os.getuid() == 0
