"""Which process works on a run: its name, and whether it still lives, as far as this machine can tell."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


@cache
def this_controller() -> str:
    """Return `host:pid:started` of this process; `started` is empty where /proc does not tell it."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_here(controller: str) -> bool:
    """True when a controller ran, or runs, on this machine."""
    return controller.split(":", 1)[0] == socket.gethostname()


def lives_here(controller: str) -> bool:
    """True when a controller of this machine, other than this process, still runs."""
    _, pid, started = (*controller.split(":"), "", "")[:3]
    if not is_here(controller) or not pid.isdigit() or controller == this_controller():
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        pass  # another user's
    except (ProcessLookupError, OverflowError):
        return False
    return not started or started == _started(int(pid))  # else its number was given away again


def died_here(controller: str) -> bool:
    """True when a controller of this machine is known to run no more."""
    return is_here(controller) and not lives_here(controller) and controller != this_controller()


def _started(pid: int) -> str:
    """Return the process's start in clock ticks since boot (field 22 of proc(5) stat); empty when unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""
