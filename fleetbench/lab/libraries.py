"""Which shared libraries an interpreter needs, and which distribution packages bring them.

The base image is made of the same distribution release as this machine, so that a library found here is
found there under the same package name (`libssl3` on one release is `libssl3t64` on the next).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleetbench.lab.commands import run
from fleetbench.lab.interpreter import Interpreter

# Modules that are left out of the package, so their libraries are not needed either.
LEFT_OUT = re.compile(r"/lib-dynload/(_tkinter|_test|xx|_xx|_ctypes_test|_dbm|_gdbm)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """`packages` are installed into the base image, `files` travel inside the interpreter's own package."""

    packages: tuple[str, ...]
    files: tuple[Path, ...]


def parse_ldd(text: str) -> tuple[Path, ...]:
    """Given ldd's output over any number of files, return the libraries found, sorted."""
    found = re.findall(r"^\s+\S+ => (/\S+) \(0x[0-9a-f]+\)$", text, flags=re.MULTILINE)
    return tuple(Path(path) for path in sorted(set(found)))


def parse_owners(text: str) -> dict[str, str]:
    """Given the output of `dpkg -S`, return which package owns each path; diverted paths are skipped."""
    owners = {}
    for line in text.splitlines():
        match = re.fullmatch(
            r"([a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)?(?:, [^ :]+(?::[a-z0-9]+)?)*: (/.+)", line
        )
        if match is not None:
            owners[match[2]] = match[1]
    return owners


def spellings(path: Path) -> tuple[str, str]:
    """Return a path with and without its leading /usr: dpkg records either on a merged file system."""
    text = str(path).removeprefix("/usr")
    return text, "/usr" + text


def assign(libraries: Iterable[Path], owners: dict[str, str]) -> Libraries:
    """Given the libraries and dpkg's answer, split them into packages and files without an owner."""
    packages, files = set(), []
    for library in libraries:
        owner = next((owners[name] for name in spellings(library) if name in owners), None)
        if owner is None:
            files.append(library)
        else:
            packages.add(owner)
    return Libraries(packages=tuple(sorted(packages)), files=tuple(files))


def needed_by(interpreter: Interpreter) -> Libraries:
    """Ask ldd and dpkg what an interpreter and its extension modules need."""
    objects = [interpreter.executable, *sorted((interpreter.stdlib / "lib-dynload").glob("*.so"))]
    wanted = [str(path) for path in objects if not LEFT_OUT.search(str(path))]
    libraries = parse_ldd(run(["ldd", *wanted], accept=(0, 1)))
    names = [name for library in libraries for name in spellings(library)]
    return assign(libraries, parse_owners(run(["dpkg", "-S", *names], accept=(0, 1))))
