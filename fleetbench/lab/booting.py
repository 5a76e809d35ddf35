"""Boot hosts side by side, from order to greeting sshd."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleetbench.lab import disk, host, network, power
from fleetbench.lab.base import Image
from fleetbench.lab.commands import mounts, run
from fleetbench.lab.host import Machine
from fleetbench.lab.repository import Progress
from fleetbench.lab.settings import Settings


def kept(settings: Settings, name: str, current: Image) -> Machine:
    """Return a host that exists; one from before a reboot of this machine may have lost its image."""
    machine = host.load(settings, name)
    if Path(machine.tree).exists() and Path(machine.repository).exists():
        return machine
    return replace(machine, tree=str(current.tree), repository=str(current.repository))


def mount_memory(settings: Settings) -> None:
    """Mount the file system in memory that hosts' changes go to."""
    memory = settings.state / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    if memory not in mounts(memory):
        options = "mode=755,size=75%,nr_inodes=4m"
        run(["mount", "-t", "tmpfs", "-o", options, settings.cgroup, str(memory)])


def boot(settings: Settings, machines: Sequence[Machine], progress: Progress) -> float:
    """Boot hosts side by side; returns the seconds it took, 0 when there was nothing to boot."""
    if not machines:
        return 0.0
    started = time.monotonic()
    progress(f"lab: booting {', '.join(one.name for one in machines)}")
    for one in machines:
        disk.prepare(settings, one)
        network.connect(settings, one.index, nat=one.nat)
    listeners = [(one, power.power_on(settings, one)) for one in machines]
    for one, listener in listeners:
        power.wait_booted(settings, one.name, listener)
    for one in machines:
        power.wait_ssh(settings, one.name)
    seconds = time.monotonic() - started
    progress(f"lab: {len(machines)} up in {seconds:.1f} s")
    return seconds
