"""Find the CPython on this machine that the lab's hosts get as their `python3.12` package.

3.12 is wanted; where there is none, another from 3.11 up is packaged under its own name. Interpreters come
from a plain `make install` (pyenv, the official container image, uv's standalone builds) or from Debian,
which splits one interpreter over several packages and directories.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fleetbench.lab.settings import LabError

PREFERRED = ("3.12", "3.11", "3.13", "3.14")
OLD = ("3.9",)  # what Rocky Linux 9 calls python3

# Run by the candidate itself. The modules imported are the ones that a vLLM installation needs.
QUESTION = """
import bz2, ctypes, json, lzma, sqlite3, ssl, sys, sysconfig, zlib
from pathlib import Path
get, path = sysconfig.get_config_var, sysconfig.get_paths
try:
    import ensurepip
    wheels = getattr(ensurepip, "_WHEEL_PKG_DIR", None) or str(Path(ensurepip.__file__).parent / "_bundled")
except ImportError:  # Debian has it in a package of its own
    wheels = ""
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "final": sys.version_info.releaselevel == "final",
    "prefix": sys.base_prefix,
    "executable": str(Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()),
    "stdlib": path(vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})["stdlib"],
    "include": path(vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})["include"],
    "multiarch": get("MULTIARCH") or "",
    "wheels": wheels,
    "has_wheels": wheels != "" and any(Path(wheels).glob("pip-*.whl")),
    "conda": (Path(sys.base_prefix) / "conda-meta").is_dir(),
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An installed CPython. `wheels` holds the pip wheel that `python -m venv` installs from.

    `debian` is true when the distribution's packages own it: prefix /usr, parts possibly not installed.
    """

    version: str
    executable: Path
    prefix: Path
    stdlib: Path
    include: Path
    multiarch: str
    wheels: Path
    has_wheels: bool

    @property
    def minor(self) -> str:
        """`3.12` for 3.12.1."""
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        """Command and package name: `python3.12`."""
        return f"python{self.minor}"

    @property
    def debian(self) -> bool:
        """True for the distribution's own interpreter."""
        return self.prefix == Path("/usr")

    @property
    def has_headers(self) -> bool:
        """True when C extensions can be compiled against it."""
        return (self.include / "Python.h").exists()


def candidates(minor: str, environ: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the places where `python<minor>` may be, the most self-contained first; they need not exist."""
    name = f"python{minor}"
    pyenv = environ.get("PYENV_ROOT") or str(home / ".pyenv")
    standalone = environ.get("UV_PYTHON_INSTALL_DIR") or str(home / ".local/share/uv/python")
    found = sorted(Path(pyenv).glob(f"versions/{minor}*/bin/{name}"), reverse=True)
    found += sorted(Path(standalone).glob(f"cpython-{minor}*/bin/{name}"), reverse=True)
    found += [Path(directory) / name for directory in environ.get("PATH", "").split(os.pathsep) if directory]
    found += [Path("/usr/local/bin") / name, Path("/usr/bin") / name]
    return tuple(dict.fromkeys(path for path in found if "/shims/" not in str(path)))


def describe(executable: Path) -> Interpreter | None:
    """Ask an interpreter about itself; None when it does not run, or lacks modules that vLLM needs."""
    try:
        # -I: neither the caller's PYTHONPATH nor its working directory shall answer in its place.
        done = subprocess.run(
            [executable, "-I", "-c", QUESTION], capture_output=True, text=True, timeout=30, check=False
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if (
        not answer or not answer["final"] or answer["conda"]
    ):  # conda links against its own libc-adjacent libraries
        return None
    return Interpreter(
        version=answer["version"],
        executable=Path(answer["executable"]),
        prefix=Path(answer["prefix"]),
        stdlib=Path(answer["stdlib"]),
        include=Path(answer["include"]),
        multiarch=answer["multiarch"],
        wheels=Path(answer["wheels"]),
        has_wheels=answer["has_wheels"],
    )


def first(minors: Iterable[str], extra: Iterable[Path] = ()) -> Interpreter | None:
    """Return the first usable interpreter of the versions given, in their order."""
    more = tuple(extra)
    for minor in minors:
        for path in (*candidates(minor, os.environ, Path.home()), *more):
            found = describe(path) if os.access(path, os.X_OK) else None
            if found is not None and found.minor == minor:
                return found
    return None


@cache
def find() -> Interpreter:
    """Return the interpreter to package; LabError when the machine has none from 3.11 up."""
    found = first(PREFERRED, (Path(sys.executable),))
    if found is None:
        raise LabError(
            "no CPython from 3.11 up that can be packaged",
            next_step="apt-get install -y python3 python3-venv python3-dev",
        )
    return found


@cache
def find_old() -> Interpreter | None:
    """Return a Python 3.9 to stand in for Rocky's system Python, if the machine has one apart from /usr."""
    found = first(OLD)
    return None if found is None or found.debian else found


def debian_packages(interpreter: Interpreter) -> tuple[str, ...]:
    """Return the distribution packages that complete Debian's own interpreter; empty for any other."""
    if not interpreter.debian:
        return ()
    absent = () if interpreter.has_wheels else (f"{interpreter.name}-venv",)
    return absent if interpreter.has_headers else (*absent, f"{interpreter.name}-dev")
