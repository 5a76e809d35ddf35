"""Unpacking wheels for all lab hosts at once, with bytecode, so that each host only makes links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fleetbench.lab import wheels
from fleetbench.lab.commands import run, write
from fleetbench.lab.interpreter import Interpreter
from fleetbench.lab.wheels import Wheel

SCRIPT = Path(__file__).with_name("unpack.sh")
_MARK = "fleetbench-unpacked"


def done(uv_cache: Path, interpreter: Interpreter) -> bool:
    """True when the cache was filled for this interpreter."""
    mark = uv_cache / _MARK
    return mark.is_file() and mark.read_text("utf-8") == _stamp(interpreter)


def unpack(directory: Path, uv_cache: Path, wanted: Sequence[Wheel], interpreter: Interpreter) -> None:
    """Fill `uv_cache` from the wheels in `directory`, as root; LabError with uv's reason when it cannot.

    Stopped half-way, it goes on at the next call: uv puts each package there whole or not at all.
    """
    argv = (
        *("unshare", "--mount", "--propagation", "private", "sh", str(SCRIPT)),
        *(str(directory.parent), str(uv_cache), str(interpreter.executable), wheels.uv()),
        *(directory.name, str(os.cpu_count() or 1)),
    )
    run(argv, stdin=requirements(wanted), env=wheels.environment(), timeout_s=1800)
    write(uv_cache / _MARK, _stamp(interpreter))


def requirements(wanted: Sequence[Wheel]) -> str:
    """Given wheels, return `name==version` lines; several wheels of one version make one line."""
    pins = {tuple(wheel.name.split("-")[:2]) for wheel in wanted}
    return "".join(f"{name.replace('_', '-')}=={version}\n" for name, version in sorted(pins))


def _stamp(interpreter: Interpreter) -> str:
    return f"{interpreter.version}\n"
