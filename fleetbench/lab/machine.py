"""Settings of this machine that labs change, remembered in /run and put back when the last lab goes.

/run is where they belong: a reboot of the machine undoes both the settings and the memory of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetbench.lab.commands import write
from fleetbench.lab.settings import LabError, Settings

RUN = Path("/run/fleetbench-lab")

# Each host has a systemd, a journald and a dbus that watch files; the usual limit of 128 instances stops
# the 48th host from booting.
INOTIFY: Mapping[str, int] = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 1_048_576}
FORWARDING: Mapping[str, int] = {"net/ipv4/ip_forward": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """`values` are the settings as they were, `labs` maps each running lab to its state directory."""

    values: Mapping[str, int] = field(default_factory=dict)
    labs: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> Borrowed:
    """Read what `render` wrote."""
    data = json.loads(text)
    return Borrowed(values=dict(data["values"]), labs=dict(data["labs"]))


def render(borrowed: Borrowed) -> str:
    """Return the text to remember."""
    return json.dumps({"values": dict(borrowed.values), "labs": dict(borrowed.labs)}, indent=1) + "\n"


def enter(borrowed: Borrowed, lab: str, state: str, current: Mapping[str, int]) -> Borrowed:
    """Return the memory after a lab came up: values remembered the first time only."""
    values = {**current, **borrowed.values}
    return Borrowed(values=values, labs={**borrowed.labs, lab: state})


def leave(borrowed: Borrowed, lab: str) -> tuple[Borrowed, Mapping[str, int]]:
    """Return the memory after a lab went, and the values to put back: all of them once no lab is left."""
    labs = {name: state for name, state in borrowed.labs.items() if name != lab}
    if labs:
        return replace(borrowed, labs=labs), {}
    return Borrowed(), borrowed.values


def _read() -> Borrowed:
    file = RUN / "machine.json"
    return parse(file.read_text(encoding="utf-8")) if file.exists() else Borrowed()


def labs() -> Mapping[str, str]:
    """Return the labs that run on this machine, with their state directories."""
    return _read().labs


def _value(name: str) -> int:
    return int((Path("/proc/sys") / name).read_text(encoding="utf-8"))


def _set(name: str, value: int) -> None:
    (Path("/proc/sys") / name).write_text(f"{value}\n", encoding="utf-8")


def borrow(settings: Settings, *, forwarding: bool) -> None:
    """Raise the limits that hosts need, and remember what they were."""
    borrowed = _read()
    owner = borrowed.labs.get(settings.name, str(settings.state))
    if owner != str(settings.state):
        raise LabError(
            f"a lab named {settings.name!r} is already run from {owner}",
            next_step="set FLEETBENCH_LAB to another name",
        )
    wanted = {**INOTIFY, **(FORWARDING if forwarding else {})}
    current = {name: _value(name) for name in wanted}
    changed = {name: value for name, value in current.items() if value < wanted[name]}
    write(RUN / "machine.json", render(enter(borrowed, settings.name, str(settings.state), changed)))
    for name in changed:
        _set(name, wanted[name])


def give_back(settings: Settings) -> None:
    """Put the settings back if this was the last lab."""
    remaining, values = leave(_read(), settings.name)
    for name, value in values.items():
        _set(name, value)
    if remaining.labs:
        write(RUN / "machine.json", render(remaining))
    else:
        (RUN / "machine.json").unlink(missing_ok=True)
