"""test: the checks, then the tests tier by tier, each as far as this machine can run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fleetbench import console
from fleetbench.errors import Exit, UsageError
from fleetbench.lab import requirements

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A group of tests: the marker expression that selects it, and what keeps it from running here.

    So many `processes` run its files side by side.
    """

    name: str
    marker: str
    processes: int = 1
    obstacle: Callable[[], str] = lambda: ""


def test(only: str) -> Exit:
    """Run the checks and the tiers (all, or the one named) and return OK only when each of them passed."""
    tiers = (
        Tier(name="unit", marker="not lab and not e2e and not postgresql and not browser", processes=2),
        Tier(name="postgresql", marker="postgresql", obstacle=_no_postgresql),
        Tier(name="browser", marker="browser", obstacle=_no_browser),
        Tier(name="lab", marker="lab and not e2e", obstacle=_no_lab, processes=2),
        Tier(name="e2e", marker="e2e", obstacle=_no_lab),
    )
    chosen = [tier for tier in tiers if only in ("", tier.name)]
    if not chosen:
        names = ", ".join(tier.name for tier in tiers)
        raise UsageError(f"no tier is called {only!r}", next_step=f"one of {names}")
    failed = [] if only else [name for name, command in _checks() if not _passes(name, command)]
    left_out: list[str] = []
    for tier in chosen:
        obstacle = tier.obstacle()
        if obstacle:
            left_out.append(f"{tier.name} ({obstacle})")
            continue
        pytest = [sys.executable, "-m", "pytest", "-q", "-m", tier.marker]
        if tier.processes > 1:  # a file's tests share their hosts; its conftest.py orders the files
            pytest += ["-n", str(tier.processes), "--dist", "loadfile", "--no-loadscope-reorder"]
        if not _passes(tier.name, pytest):
            failed.append(tier.name)
    for line in left_out:
        console.progress(f"NOT RUN: {line}")
    if failed:
        console.progress(f"FAILED: {', '.join(failed)}")
        return Exit.FAILED
    console.progress(f"passed: {', '.join(t.name for t in chosen if not any(t.name in x for x in left_out))}")
    return Exit.OK


def _checks() -> list[tuple[str, list[str]]]:
    python = sys.executable
    return [
        ("ruff check", [python, "-m", "ruff", "check", "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "."]),
        ("mypy", [python, "-m", "mypy"]),
    ]


def _passes(name: str, command: list[str]) -> bool:
    console.progress(f"{name}: {' '.join(command[1:])}")
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, check=False)
    verdict = "passed" if done.returncode == 0 else f"failed (status {done.returncode})"
    console.progress(f"{name}: {verdict} in {time.monotonic() - began:.0f} s")
    return done.returncode == 0


def _no_lab() -> str:
    """Install what the lab and its tests need where that is possible; say what keeps it from running."""
    reason = requirements.obstacle()
    if reason:
        return reason
    requirements.install_requirements()
    if not shutil.which("cc"):  # for the clock that jumps; without a compiler that one test is skipped
        _install("gcc", "libc6-dev")
    return requirements.missing()


def _no_postgresql() -> str:
    if not _has_postgresql():
        _install("postgresql")
    return "" if _has_postgresql() else "the distribution's PostgreSQL is not installed"


def _no_browser() -> str:
    """Install the distribution's Chromium where that is possible; no browser is fetched from elsewhere."""
    if find_spec("playwright") is None:
        return "playwright is not installed: pip install playwright"
    if not _has_chromium():
        _install("chromium")
    return "" if _has_chromium() else "the distribution's Chromium is not installed"


def _install(*packages: str) -> None:
    """Install packages of Debian or Ubuntu, as root; elsewhere nothing happens."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)


def _has_chromium() -> bool:
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


def _has_postgresql() -> bool:
    return bool(shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb")))
