"""Listeners with their owners, the firewall, and which unit a process belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetbench.facts.fields import clean, rows, whole
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Listener, Missing

# A process chooses its own name of at most 15 bytes, quotes included. Taking the longest name that fits is
# right: between two owners stand at least 16 characters.
_OWNER = re.compile(r'\("(.{0,15})",pid=([0-9]{1,10}),fd=[0-9]{1,10}\)')
_PORT = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?/(?:tcp|udp|sctp|dccp)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firewall:
    """firewalld's default zone; `state` is `running`, `not running` or empty (not installed, unknown)."""

    state: str = ""
    ports: tuple[str, ...] = ()
    failure: str = ""


def units_by_pid(sections: Sections) -> dict[int, str]:
    """Given the probe's sections, return the systemd unit of each process that a tool has named.

    The outermost service or scope counts: that is what the system's own manager can stop.
    """
    found: dict[int, str] = {}
    for pid, _, line in rows(sections["cgroups"].out, 3):
        number = whole(pid)
        parts = line.split(":", 2)[-1].split("/")
        unit = next((part for part in parts if part.endswith((".service", ".scope"))), "")
        if number is not None and unit:
            found[number] = clean(unit)
    return found


def listeners(sections: Sections, units: dict[int, str]) -> tuple[Listener, ...] | Missing:
    """Given the probe's sections and the unit of each pid, return TCP sockets in LISTEN, by port.

    Where several processes hold one socket (a server and its workers), the first with a unit is named.
    """
    failed = sections.missing("listeners", "ss")
    if failed is not None:
        return failed
    found = []
    for line in sections["listeners"].out.split("\n"):
        words = line.split(None, 5)
        if len(words) < 5 or words[0] != "LISTEN":
            continue
        address, _, port = words[3].rpartition(":")
        number = whole(port)
        if number is None or number > 65535:
            continue
        owners = _OWNER.findall(words[5]) if len(words) > 5 else []
        named = sorted(owners, key=lambda owner: int(owner[1]) not in units)
        pid = int(named[0][1]) if named else None
        found.append(
            Listener(
                address=clean(address),
                port=number,
                pid=pid,
                process=clean(named[0][0]) if named else "",
                unit=units.get(pid, "") if pid is not None else "",
            )
        )
    return tuple(sorted(found, key=lambda listener: (listener.port, listener.address)))


def firewall(sections: Sections) -> Firewall:
    """Given the probe's sections, return the state of firewalld and the ports its default zone lets in."""
    if "firewall" not in sections:
        return Firewall()
    section = sections["firewall"]
    if "not running" in (section.err + section.out).lower():
        return Firewall(state="not running")
    if not section.ok:
        return Firewall(failure=section.failure("firewall-cmd"))
    for line in section.out.split("\n"):
        key, colon, value = line.strip().partition(":")
        if colon and key == "ports":
            return Firewall(state="running", ports=tuple(_PORT.findall(value[:4000])))
    return Firewall(state="running")
