"""Reading what a server is doing: one script, one round trip, a pure parser."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fleetbench.transport.base import bash

_TIME = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
# The form short-unix: seconds since 1970, the host, who wrote and its pid.
_STAMPED = re.compile(r"(?P<time>\d{1,12}\.\d{1,9}) \S{1,255} [^\s\[\]:]{1,255}(?:\[\d{1,10}\])?: ?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One look at a server.

    Attributes:
        active, sub, result: systemd's words; `restarts` counts automatic restarts since the last manual one.
        pids: processes in the unit's cgroup, also those that outlived the main process.
        owners: cgroup path by pid of everything that listens on the port.
        health: HTTP status of /health, 0 while nothing listens. vLLM shows no "loading" state: the port
            refuses connections until it is ready.
        journal: last lines of this start, oldest first.
        ages_s: how long ago each of these lines was written, by the host's own clock.
    """

    load: str = ""
    active: str = ""
    sub: str = ""
    result: str = ""
    restarts: int = 0
    invocation: str = ""
    main_pid: int = 0
    exit_status: int = 0
    exit_code: int = 0
    pids: tuple[int, ...] = ()
    listeners: tuple[str, ...] = ()
    owners: tuple[tuple[int, str], ...] = ()
    health: int = 0
    journal: tuple[str, ...] = ()
    ages_s: tuple[float, ...] = ()

    @property
    def dead(self) -> bool:
        """True when the unit has exited or is about to be restarted: a verdict, not a wait."""
        return self.active in ("failed", "inactive", "deactivating") or self.sub == "auto-restart"

    def foreign_owner(self, unit: str) -> str:
        """The cgroup of somebody else who listens on the port, empty when there is none."""
        for pid, group in self.owners:
            # The outermost service counts: a user's own manager may run a unit of the same name below it.
            outermost = next((part for part in group.split("/") if part.endswith((".service", ".scope"))), "")
            if outermost != unit:
                return f"pid {pid} ({group.rpartition('/')[2] or 'no unit'})"
        return ""


def command(
    unit: str, port: int, *, address: str = "127.0.0.1", lines: int = 30
) -> tuple[tuple[str, ...], str]:
    """Return the command that looks at a unit, and the token that its output is read with."""
    token = secrets.token_hex(8)
    return bash(_script(), token, unit, str(port), address, str(lines)), token


def parse(output: str, token: str) -> Watch:
    """Given the script's output, return what it says; sections that are missing stay at their defaults."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in output.split("\n"):
        if line.startswith(f"#{token} "):
            current = []
            sections.setdefault(line[len(token) + 2 :].strip(), current)
        else:
            current.append(line.removeprefix(" "))
    shown = dict(line.split("=", 1) for line in sections.get("unit", ()) if "=" in line)
    owners = [line.split(" ", 1) for line in sections.get("owners", ()) if " " in line]
    lines, ages = _journal(sections.get("journal", ()), "".join(sections.get("now", ())).strip())
    return Watch(
        load=shown.get("LoadState", ""),
        active=shown.get("ActiveState", ""),
        sub=shown.get("SubState", ""),
        result=shown.get("Result", ""),
        restarts=_number(shown.get("NRestarts", "")),
        invocation=shown.get("InvocationID", ""),
        main_pid=_number(shown.get("MainPID", "")),
        exit_status=_number(shown.get("ExecMainStatus", "")),
        exit_code=_number(shown.get("ExecMainCode", "")),
        pids=tuple(int(line) for line in sections.get("cgroup", ()) if line.strip().isdigit()),
        listeners=tuple(line for line in sections.get("listeners", ()) if line.strip()),
        owners=tuple((_number(pid), group) for pid, group in owners),
        health=_number("".join(sections.get("health", ())).strip()),
        journal=lines,
        ages_s=ages,
    )


def _journal(lines: Sequence[str], now: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the messages of a journal in the form short-unix, and how many seconds old each is.

    A line without a time of its own is as old as the one before.
    """
    present = float(now) if _TIME.fullmatch(now) else 0.0
    messages: list[str] = []
    ages: list[float] = []
    age = 0.0
    for line in lines:
        found = _STAMPED.match(line)
        if found is not None:
            age = max(0.0, present - float(found["time"]))
        message = line[found.end() :] if found is not None else line
        if message.strip():
            messages.append(message)
            ages.append(age)
    return tuple(messages), tuple(ages)


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else 0


@cache
def _script() -> str:
    return (files("fleetbench.service") / "watch.sh").read_text(encoding="utf-8")
