"""Processor time by unit, and the power that the whole machine draws."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .gpus import first_number

BMC_EVERY_S = 10.0
_HERTZ = os.sysconf("SC_CLK_TCK")


def spent(unit: str) -> float | None:
    """Return the processor seconds of a unit's cgroup so far; None when it has none."""
    for path, scale in (
        (f"/sys/fs/cgroup/system.slice/{unit}/cpu.stat", 1e6),  # usage_usec N
        (f"/sys/fs/cgroup/cpu,cpuacct/system.slice/{unit}/cpuacct.usage", 1e9),  # cgroup v1, as on Rocky 8
    ):
        with contextlib.suppress(OSError, ValueError, IndexError), Path(path).open() as file:
            return int(file.read(4000).replace("usage_usec", "").split()[0]) / scale
    return None


def processor(units: dict[str, list[str]]) -> dict[str, object]:
    """Return processor seconds so far by group of units, and of the whole host (busy, and all there were)."""
    groups = {}
    for group, names in units.items():
        times = [seconds for seconds in map(spent, names) if seconds is not None]
        if times:
            groups[group] = round(sum(times), 4)
    found: dict[str, object] = {"cpu": groups}
    with contextlib.suppress(OSError, ValueError), Path("/proc/stat").open() as file:
        # user nice system idle iowait irq softirq steal; guest time is in user already.
        fields = [int(field) for field in file.readline().split()[1:9]]
        found.update(busy=(sum(fields) - fields[3] - fields[4]) / _HERTZ, all=sum(fields) / _HERTZ)
    return found


def measure_power(pipe: int) -> None:
    """As root: write the whole machine's watts into a pipe, from its management controller (IPMI's DCMI).

    It says "Instantaneous power reading: 220 Watts", with spaces.
    """
    while True:
        watts = b""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            argv = ["ipmitool", "dcmi", "power", "reading"]
            said = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=8, check=False
            ).stdout
            words = said.partition(b"Instantaneous power reading:")[2].split()
            watts = words[0][:12] if words[:1] and words[0].isdigit() else b""
        if not watts:
            os._exit(0)  # no such controller
        os.write(pipe, watts + b"\n")
        time.sleep(BMC_EVERY_S)


def power_meter() -> Callable[[], float | None]:
    """Return what tells the machine's watts now, where anything does: IPMI, or ACPI's power meter."""
    for name in Path("/sys/class/hwmon").glob("*/name"):
        with contextlib.suppress(OSError):
            if name.read_text().strip() == "power_meter":
                return partial(_watts, name.parent)
    if os.geteuid() != 0 or not any(Path("/dev").glob("ipmi*")):
        return lambda: None
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        measure_power(writer)
    os.close(writer)
    os.set_blocking(reader, False)

    def read() -> float | None:
        try:
            words = os.read(reader, 4096).split()
        except BlockingIOError:
            return None
        return float(words[-1]) if words else None

    return read


def _watts(meter: Path) -> float | None:
    micro = first_number(meter, ("power1_average", "power1_input"))
    return None if micro is None else micro / 1e6
