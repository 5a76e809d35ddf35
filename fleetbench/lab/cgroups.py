"""Control groups: each host's processes live in one of their own, which is how they are counted and ended.

Each nspawn has to start inside its own group, or all hosts would fight over the same `payload` child.
Writing to cgroup.kill ends everything at once, which for the host is a power cut.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from fleetbench.lab.requirements import control_group_roots
from fleetbench.lab.settings import LabError, Settings


def directories(settings: Settings, name: str = "") -> tuple[Path, ...]:
    """Return the lab's groups, or those of one host, in every hierarchy that holds processes."""
    return tuple(root / settings.cgroup / name for root in control_group_roots())


def make(settings: Settings, name: str) -> tuple[Path, ...]:
    """Make a host's groups and return them."""
    made = directories(settings, name)
    for directory in made:
        directory.mkdir(parents=True, exist_ok=True)
    return made


def processes(settings: Settings, name: str) -> tuple[int, ...]:
    """Return the process ids of a host, as this machine numbers them; empty when it is off."""
    found: list[int] = []
    for group in sorted(_below(directories(settings, name)[0])):
        try:
            found += [int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()]
        except OSError:  # the group went away between listing and reading
            continue
    return tuple(found)


def first_process(settings: Settings, name: str) -> int | None:
    """Return this machine's id of the host's PID 1: alone in its init.scope; None while there is none."""
    file = directories(settings, name)[0] / "payload" / "init.scope" / "cgroup.procs"
    try:
        ids = file.read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(ids[0]) if ids else None


def kill(settings: Settings, name: str, timeout_s: float = 20) -> None:
    """End all processes of a host at once and remove its groups."""
    group = directories(settings, name)[0]
    if group.exists():
        (group / "cgroup.kill").write_text("1", encoding="ascii")
    deadline = time.monotonic() + timeout_s
    while processes(settings, name):
        if time.monotonic() > deadline:
            raise LabError("processes do not end", host=name, cause=f"ids {processes(settings, name)[:5]}")
        time.sleep(0.01)
    remove(settings, name)


def remove(settings: Settings, name: str = "") -> None:
    """Remove the empty groups of a host, or of the whole lab."""
    for group in directories(settings, name):
        for directory in sorted(_below(group), reverse=True):
            if directory.exists():
                _remove_one(directory)


def _below(group: Path) -> list[Path]:
    """Return a group and those below it. A session that ends meanwhile takes its group with it."""
    return [Path(directory) for directory, _, _ in os.walk(group)]


def _remove_one(directory: Path) -> None:
    """The kernel lets go of a group a moment after its last process; EBUSY until then."""
    for attempt in range(100):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.02)
        else:
            return
