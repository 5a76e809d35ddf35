"""From a fresh checkout to a working `invoke`: `python3 tasks.py VERB …` with the standard library only.

Makes `.venv` beside `tasks.py`, installs the product into it, and goes on as `.venv/bin/invoke VERB …`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
STAMP = "fleetbench-installed"


def main(arguments: Sequence[str]) -> int:  # noqa: RET503  execve does not return
    """Set up, then become `invoke` with the arguments; returns (a status) only when that does not work."""
    if sys.version_info < OLDEST:
        return _with_newer_python(arguments)
    directory = ROOT / ".venv"
    try:
        _install(directory)
    except (OSError, subprocess.CalledProcessError) as exc:
        _say(f"error: cannot set up {directory}")
        _say(f"  cause: {exc}")
        _say("  next:  look at the lines above; is PyPI reachable (PIP_INDEX_URL, proxy)?")
        return 1
    invoke = directory / "bin" / "invoke"
    environment = os.environ | {
        "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    }
    os.chdir(ROOT)
    os.execve(invoke, [str(invoke), *(arguments or ["--list"])], environment)  # noqa: S606  no shell is meant


def _install(directory: Path) -> None:
    wanted = hashlib.sha256((ROOT / "setup.cfg").read_bytes() + sys.version.encode()).hexdigest()
    stamp = directory / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    _say(f"setting up {directory.name}: Python packages from PyPI, about a minute")
    if not (directory / "bin" / "python").exists():
        _make_venv(directory)
    python = str(directory / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *quiet, "-e", f"{ROOT}[test]"], check=True)
    stamp.write_text(wanted)


def _make_venv(directory: Path) -> None:
    command = [sys.executable, "-m", "venv", "--clear", str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode == 0:
        return
    # Debian's python3 comes without ensurepip; its package has the interpreter's version in the name.
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _say(f"installing {package}")
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
    subprocess.run(command, check=True)


def _with_newer_python(arguments: Sequence[str]) -> int:
    for minor in range(14, OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:
            os.execv(found, [found, str(ROOT / "tasks.py"), *arguments])  # noqa: S606  no shell is meant
    _say(f"error: Python {sys.version.split()[0]} is too old")
    _say(f"  next:  install Python {OLDEST[0]}.{OLDEST[1]} or newer (dnf install python3.12)")
    return 1


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
