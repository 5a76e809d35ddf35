"""What stands on a host before its units change; what could not be put back is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from fleetbench.errors import NotPossible
from fleetbench.facts.values import File, HostFacts, Missing, Unit
from fleetbench.model import Host
from fleetbench.operations.firewall import Opening, opening_of
from fleetbench.steps import Step
from fleetbench.transport.durable import DurableSession

UNIT_DIRECTORY = "/etc/systemd/system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a unit was: the text of its file with mode and owner, and its state; None where there is none."""

    text: str | None = None
    unit: Unit | None = None
    mode: int = 0o644
    owner: str = "root:root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A unit that is to change, what it is now, and whether it is a balancer."""

    unit: str
    unit_path: str
    port: int
    before: Before
    balancer: bool = False

    @property
    def ran(self) -> bool:
        """Whether it runs now."""
        return self.before.unit is not None and self.before.unit.running

    @property
    def went(self) -> bool:
        """Whether systemd runs it now, or tries to."""
        return self.before.unit is not None and self.before.unit.going


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What has to be put back: units, servers first; other files by path; ports that were closed."""

    spots: tuple[Spot, ...]
    texts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    ports: tuple[Opening, ...] = ()


def standing(host: Host, name: str, facts: HostFacts) -> Before:
    """Return what a unit is now; NotPossible where it could not be put back as it is."""
    path = f"{UNIT_DIRECTORY}/{name}"
    unit, file = known_units(host, facts).get(name), _readable(host, path, facts)
    if unit is not None and unit.fragment not in ("", path):
        raise NotPossible(
            f"{name} is not in {UNIT_DIRECTORY}, so it could not be put back",
            host=host.name,
            cause=f"it comes from {unit.fragment}",
            next_step="another --port, or move it away first",
        )
    if file is None and unit is not None:
        raise NotPossible(
            f"the file of {name} is not there, so it could not be put back",
            host=host.name,
            cause=f"systemd knows the unit ({unit.load}, {unit.active}) without {path}",
            next_step=f"systemctl stop {name}; systemctl daemon-reload there, or another --port",
        )
    if file is None:
        return Before()
    return Before(text=file.text, unit=unit, mode=file.mode, owner=file.owner or "root:root")


def known_units(host: Host, facts: HostFacts) -> Mapping[str, Unit]:
    """Return the units by name; NotPossible when systemd did not answer: that is not the same as none."""
    if isinstance(facts.units, Missing):
        raise NotPossible("cannot see the units", host=host.name, cause=facts.units.reason)
    return facts.units


def text_now(host: Host, path: str, facts: HostFacts) -> str | None:
    """Return the text of a file, None: it is not there; NotPossible where it could not be put back."""
    file = _readable(host, path, facts)
    return file.text if file is not None else None


def _readable(host: Host, path: str, facts: HostFacts) -> File | None:
    if "files" in facts.missing:
        raise NotPossible("cannot see the files", host=host.name, cause=facts.missing["files"])
    file = facts.files.get(path)
    if file is not None and file.kind != "file":
        leads = f" to {file.target}" if file.target else ""
        raise NotPossible(
            f"{path} is no regular file, so it could not be put back",
            host=host.name,
            cause=f"it is a {file.kind}{leads}",
            next_step=f"another --port, or move it away first: ls -ld {path}",
        )
    if file is not None and file.text is None:
        raise NotPossible(
            f"{path} cannot be read as text, so it could not be put back",
            host=host.name,
            next_step=f"look at it, and move it away: file {path}",
        )
    return file


def openings(session: DurableSession, steps: Sequence[Step]) -> tuple[Opening, ...]:
    """Return the ports that the steps will open and that are closed now: those are ours to close again."""
    found = [opening for step in steps if (opening := opening_of(step)) is not None]
    return tuple(opening for opening in found if not session.read(opening.asked).ok)
