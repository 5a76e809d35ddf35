"""Interpreters on PATH, and the venvs below the prefix, read without starting the Python of any venv."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from fleetbench.facts.fields import clean, rows
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Missing, Python, Venv

_STAMP = re.compile(r"[0-9a-f]{4,64}")
_DIST_INFO = re.compile(r"([A-Za-z0-9_]{1,80})-([^-/\s]{1,80})\.dist-info")


def pythons(sections: Sections) -> tuple[Python, ...] | Missing:
    """Given the probe's sections, return the interpreters that answered.

    `path` is the resolved path: SELinux judges by its label, and a name on PATH can be a shim.
    """
    failed = sections.missing("pythons", "python3")
    if failed is not None:
        return failed
    return tuple(
        Python(
            name=clean(name),
            version=version,
            path=clean(resolved, 400) or clean(path, 400),
            venv=venv == "1",
            headers=headers == "1",
        )
        for name, path, version, resolved, venv, headers in rows(sections["pythons"].out, 6)
        if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,4}){1,2}", version)
    )


def venvs(sections: Sections) -> Mapping[str, Venv] | Missing:
    """Given the probe's sections, return the venvs by path.

    Versions come from the names of `*.dist-info` directories. `python` is empty when the venv's interpreter
    does not start any more, `lock` when the stamp holds no hash.
    """
    failed = sections.missing("venvs", "venvs")
    if failed is not None:
        return failed
    found: dict[str, Venv] = {}
    path, python, lock, packages = "", "", None, dict[str, str]()

    def close() -> None:
        if path:
            found[path] = Venv(
                path=path,
                python=python,
                packages=MappingProxyType(packages),
                complete=lock is not None,
                lock=lock or "",
            )

    for kind, value in rows(sections["venvs"].out, 2):
        if kind == "venv":
            close()
            path, python, lock, packages = clean(value, 400), "", None, {}
        elif kind == "python":
            python = clean(value)
        elif kind == "stamp":
            lock = value if _STAMP.fullmatch(value) else ""  # the service user's file: anything may be in it
        elif kind == "package" and (match := _DIST_INFO.fullmatch(value)):
            packages.setdefault(match[1].lower().replace("_", "-"), match[2])
    close()
    return MappingProxyType(found)
