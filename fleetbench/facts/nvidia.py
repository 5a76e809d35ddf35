"""What nvidia-smi prints: the CSV of --query-gpu and --query-compute-apps, and the table for people.

The CSV is the source; the table adds the CUDA version, pending MIG changes, and everything when a driver is
too old for a queried field. Header names, error texts and exit codes: seen on H200, driver 580.159.04.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fleetbench.facts.fields import clean, decimal, known, whole
from fleetbench.facts.values import Gpu, GpuProcess

_QUERY_COLUMNS = 11
_LINE_LIMIT = 400
_VERSION = r"([0-9][0-9A-Za-z.]*)"
_HEADER = re.compile(rf"Driver Version:\s*{_VERSION}")
_CUDA = re.compile(rf"CUDA(?: UMD)? Version:\s*{_VERSION}")
_FIRST = re.compile(
    r"\|\s*([0-9]{1,4})\s+(\S[^|]*?)\s+(?:On|Off|N/A)\s*"
    r"\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s+\S+\s*(?:\|\s*(\S+)\s*\||$)"
)
_MEMORY = re.compile(r"([0-9]{1,9})\s*MiB\s*/\s*([0-9]{1,9})\s*MiB")
_POWER = re.compile(r"(?:[0-9.]{1,9}\s*W|N/A)\s*/\s*([0-9.]{1,9})\s*W")
_PROCESS = re.compile(
    r"\|\s+([0-9]{1,4})\s+(?:\S+\s+\S+\s+)?([0-9]{1,10})\s+(?:C|G|C\+G|M\+C)\s+(\S[^|]*?)\s+(\S+)\s*\|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of nvidia-smi.

    `idle` is true only when it says "No running processes found": a list without rows (a container's
    process namespace) says nothing about the GPUs.
    """

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    idle: bool = False


def query(text: str) -> tuple[Gpu, ...]:
    """Given the CSV of the probe's --query-gpu, return its GPUs; a row that cannot be read is left out."""
    found = []
    for line in text.split("\n"):
        fields = line.split(", ", _QUERY_COLUMNS - 1)
        if len(fields) != _QUERY_COLUMNS:
            continue
        index, uuid, bus, total, used, power, driver, capability, mig, ecc, name = fields
        number = whole(index)
        if number is None:
            continue
        found.append(
            Gpu(
                index=number,
                name=clean(name),
                uuid=known(uuid),
                memory_mib=whole(total),
                used_mib=whole(used),
                driver=known(driver),
                compute_capability=known(capability),
                power_limit_w=decimal(power),
                mig=known(mig),
                ecc=known(ecc),
                bus_id=known(bus),
            )
        )
    return tuple(found)


def apps(text: str, units: dict[int, str]) -> dict[str, tuple[GpuProcess, ...]]:
    """Given the CSV of --query-compute-apps and the unit of each pid, return processes by GPU bus id."""
    found: dict[str, list[GpuProcess]] = {}
    for line in text.split("\n"):
        fields = line.split(", ", 3)
        pid = whole(fields[0])
        if pid is None or len(fields) != 4:
            continue
        process = GpuProcess(
            pid=pid, name=clean(fields[3]), used_mib=whole(fields[2]), unit=units.get(pid, "")
        )
        found.setdefault(bus_key(fields[1]), []).append(process)
    return {bus: tuple(processes) for bus, processes in found.items()}


def tables(text: str) -> tuple[Table, ...]:
    """Given any text with tables of nvidia-smi, return each; two tables are two hosts, not more GPUs.

    Survives indentation, comments after the closing bar, a lost beginning, and lost line breaks.
    """
    found: list[_Open] = []
    for raw in _with_line_breaks(text).split("\n"):
        line = raw[:_LINE_LIMIT].strip()
        if "NVIDIA-SMI" in line and (driver := _HEADER.search(line)):
            found.append(_Open(driver=driver[1], cuda=_matched(_CUDA, line)))
        elif line.startswith("|"):
            if not found:
                found.append(_Open())
            found[-1].add(line)
    return tuple(table.closed() for table in found if table.gpus)


def bus_key(bus_id: str) -> str:
    """Given a PCI address as nvidia-smi or the kernel prints it, return one form of it (`0000:18:00.0`)."""
    parts = bus_id.strip().lower().split(":")
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]]) if len(parts) == 3 else bus_id.strip().lower()


class _Open:
    """A table that is being read, line by line."""

    def __init__(self, driver: str = "", cuda: str = "") -> None:
        self.driver = driver
        self.cuda = cuda
        self.gpus: list[Gpu] = []
        self.processes: dict[int, dict[tuple[int, str], GpuProcess]] = {}
        self.idle = False
        self.line_of_gpu = 0

    def add(self, line: str) -> None:
        if first := _FIRST.match(line):
            volatile = first[4] or ""
            ecc = "Disabled" if volatile == "Off" else "Enabled" if volatile.isdigit() else ""
            self.gpus.append(
                Gpu(
                    index=int(first[1]),
                    name=clean(first[2]),
                    bus_id=first[3],
                    driver=self.driver,
                    cuda=self.cuda,
                    ecc=ecc,
                )
            )
            self.line_of_gpu = 1
        elif self.line_of_gpu == 1:
            self.line_of_gpu = 2
            if memory := _MEMORY.search(line):
                self.gpus[-1] = replace(self.gpus[-1], used_mib=int(memory[1]), memory_mib=int(memory[2]))
            self.gpus[-1] = replace(self.gpus[-1], power_limit_w=decimal(_matched(_POWER, line)))
        elif self.line_of_gpu == 2:
            self.line_of_gpu = 0
            cells = line.split("|")
            if len(cells) > 3:
                self.gpus[-1] = replace(self.gpus[-1], mig=known(cells[3]))
        elif process := _PROCESS.match(line):
            used = re.fullmatch(r"([0-9]{1,9})MiB", process[4])
            one = GpuProcess(
                pid=int(process[2]), name=clean(process[3]), used_mib=int(used[1]) if used else None
            )
            self.processes.setdefault(int(process[1]), {})[one.pid, one.name] = one
        elif "No running processes found" in line:
            self.idle = True

    def closed(self) -> Table:
        gpus = tuple(
            replace(gpu, processes=tuple(self.processes.get(gpu.index, {}).values())) for gpu in self.gpus
        )
        return Table(driver=self.driver, cuda=self.cuda, gpus=gpus, idle=self.idle)


def _with_line_breaks(text: str) -> str:
    """A table copied from a web page can have lost its line breaks; `||` stands nowhere else in it."""
    return text.replace("||", "|\n|").replace("+|", "+\n|").replace("|+", "|\n+")


def _matched(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.search(line)
    return match[1] if match else ""
