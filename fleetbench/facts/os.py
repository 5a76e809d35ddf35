"""The system below everything: distribution, kernel, libc, tools, packages, accounts, clock, memory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleetbench.facts.fields import clean, decimal, rows, whole
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Account, Missing, Os

_CPU_LIMIT = 65536
_SELINUX = {"1": "Enforcing", "0": "Permissive", "enforcing": "Enforcing", "permissive": "Permissive"}
_OFFSET = re.compile(r"System time\s*:\s*([0-9]{1,9}(?:\.[0-9]{1,12})?) seconds (slow|fast)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Numbers of the machine; `clock_utc` in seconds since the epoch, 0 where unknown."""

    root: bool = False
    clock_utc: float = 0.0
    memory_mib: int = 0
    cpus: int = 0
    numa_nodes: int = 0
    selinux: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSync:
    """`state` is `yes`, `no` or empty; `offset_ms` is positive when the host's clock is ahead."""

    state: str = ""
    offset_ms: float | None = None


def system(sections: Sections) -> Os | Missing:
    """Given the probe's sections, return what os-release, the kernel and the C library say."""
    failed = sections.missing("os", "os-release")
    if failed is not None:
        return failed
    values = dict(map(_assignment, sections["os"].out.split("\n")))
    if not values.get("ID"):
        return Missing("os-release: no ID in it")
    like = values.get("ID_LIKE", "").split()
    libc = re.fullmatch(r"glibc ([0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)", values.get("fleetbench_libc", ""))
    return Os(
        id=values["ID"],
        version=values.get("VERSION_ID", ""),
        name=values.get("PRETTY_NAME", "") or values.get("NAME", ""),
        family=(values["ID"], *like),
        kernel=values.get("fleetbench_kernel", ""),
        architecture=values.get("fleetbench_arch", ""),
        glibc=libc[1] if libc else "",
        hostname=values.get("fleetbench_hostname", ""),
        boot_id=values.get("fleetbench_boot_id", ""),
    )


def machine(sections: Sections) -> Machine:
    """Given the probe's sections, return the machine's numbers."""
    entries = rows(sections["machine"].out, 2)
    values = {key: value for key, value in entries}  # noqa: C416  rows are not typed as pairs
    selinux = values.get("selinux", "").strip()
    return Machine(
        root=values.get("uid") == "0",
        clock_utc=decimal(values.get("clock", "")) or 0.0,
        memory_mib=(whole(values.get("memory_kib", "")) or 0) // 1024,
        cpus=_count(values.get("cpus", "")),
        numa_nodes=len({value for key, value in entries if key == "node"}),
        selinux=_SELINUX.get(selinux.lower(), "Disabled" if selinux.lower() == "disabled" else ""),
    )


def tools(sections: Sections) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Given the probe's sections, return paths by program name, and versions of those that were asked."""
    paths: dict[str, str] = {}
    versions: dict[str, str] = {}
    for name, value in rows(sections["tools"].out, 2):
        if name.endswith("-version"):
            match = re.search(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,3}", value[:200])
            versions |= {name.removesuffix("-version"): match[0]} if match else {}
        elif value.startswith("/"):
            paths[clean(name)] = clean(value, 400)
    return MappingProxyType(paths), MappingProxyType(versions)


def packages(sections: Sections) -> Mapping[str, str]:
    """Given the probe's sections, return versions of the asked packages that are installed."""
    return MappingProxyType(
        {
            clean(name): clean(version)
            for name, version, status in rows(sections["packages"].out, 3)
            if version and status.strip() in ("", "installed")
        }
    )


def accounts(sections: Sections) -> Mapping[str, Account]:
    """Given the probe's sections, return the asked accounts that exist."""
    found = {}
    for line in sections["accounts"].out.split("\n"):
        fields = line.split(":")
        uid = whole(fields[2]) if len(fields) == 7 else None
        if uid is not None and fields[0]:
            name = clean(fields[0])
            found[name] = Account(name=name, uid=uid, home=clean(fields[5], 400), shell=clean(fields[6], 400))
    return MappingProxyType(found)


def time_sync(sections: Sections) -> TimeSync:
    """Given the probe's sections, return whether the clock is kept right, from chrony or systemd."""
    text = sections["time"].out
    if "NTPSynchronized=" in text:
        return TimeSync(state="yes" if "NTPSynchronized=yes" in text else "no")
    leap = re.search(r"Leap status\s*:\s*(\S[^\n]{0,60})", text)
    if leap is None:
        return TimeSync()
    offset = _OFFSET.search(text)
    milliseconds = None
    if offset is not None:
        milliseconds = round(float(offset[1]) * 1000, 6) * (1 if offset[2] == "fast" else -1)
    return TimeSync(state="no" if leap[1].startswith("Not") else "yes", offset_ms=milliseconds)


def _assignment(line: str) -> tuple[str, str]:
    """One line of os-release(5): a shell assignment."""
    key, _, value = line[:1000].partition("=")
    try:
        words = shlex.split(value)
    except ValueError:
        words = [value]
    return key.strip(), clean(" ".join(words))


def _count(cpus: str) -> int:
    """Given a kernel's CPU list (`0-15,32`), return how many CPUs are in it."""
    total = 0
    for part in cpus[:4000].split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        if match is not None:
            total += max(0, int(match[2] or match[1]) - int(match[1]) + 1)
    return min(total, _CPU_LIMIT)
