"""A site: a controller's directories beside a lab of two hosts, driven by the verbs an operator types."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetbench.lab import lab as labs
from fleetbench.lab.settings import Settings

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Site:
    """A controller's directories and environment beside its lab."""

    place: Path
    environment: Mapping[str, str]
    settings: Settings

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `invoke …`; both streams are kept."""
        return subprocess.Popen(
            [sys.executable, "-m", "invoke", *words],
            cwd=ROOT,
            env=dict(self.environment),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def invoke(self, *words: str, status: int = 0, timeout_s: float = 900) -> str:
        """Run `invoke …`, expect its exit status, return both streams; never with a traceback in them."""
        process = self.start(*words)
        out, err = process.communicate(timeout=timeout_s)
        text = f"$ invoke {' '.join(words)}\n{out}\n{err}"
        assert process.returncode == status, text
        assert "Traceback" not in text, text
        return text

    def fleetbench(self, *words: str) -> str:
        """Run `fleetbench …` and return its stdout; it has to end well."""
        done = subprocess.run(
            [sys.executable, "-m", "fleetbench", *words],
            cwd=ROOT,
            env=dict(self.environment),
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, run: str = "latest") -> list[dict[str, object]]:
        """The report's rows of a run."""
        found = json.loads(self.fleetbench("report", run, "--format", "json"))
        assert isinstance(found, list)
        return found

    def on(self, host: str, *argv: str) -> str:
        """Run a command on a host out of band and return its output; status 0 is expected."""
        done = labs.enter(host, argv, settings=self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_for(self, host: str, *argv: str, seconds: float = 180) -> str:
        """Run a command on a host until it succeeds."""
        give_up = time.monotonic() + seconds
        while True:
            done = labs.enter(host, argv, settings=self.settings)
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < give_up, f"{argv} still fails after {seconds} s: {done.stderr}"
            time.sleep(0.5)

    def completion(self, host: str, port: int, *, seconds: float = 180) -> str:
        """Wait until a server answers a completion and return its text."""
        body = json.dumps({"model": "/srv/models/tiny", "prompt": "The", "max_tokens": 4})
        url = f"http://127.0.0.1:{port}/v1/completions"
        header = "Content-Type: application/json"
        answer = self.wait_for(
            host, "curl", "-sf", "-m", "30", url, "-H", header, "-d", body, seconds=seconds
        )
        text = json.loads(answer)["choices"][0]["text"]
        assert isinstance(text, str)
        assert text
        return text
