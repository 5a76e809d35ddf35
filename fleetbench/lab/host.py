"""A host as it was ordered, and where its parts are kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetbench.lab.commands import write
from fleetbench.lab.settings import LabError, Settings, host_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A directory or file of this machine that a host sees at `target`."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a host was ordered as; kept in its state directory so that it can be started again.

    Attributes:
        gpus: text of /etc/fake-gpus; empty: no GPU, and no nvidia-smi either.
        nat: reaches the world through this machine; otherwise look-ups and connections fail at once.
        disk: changes live on this machine's disk; otherwise in memory, which is faster.
        tree, repository: the image it boots from.
    """

    name: str
    gpus: str = ""
    nat: bool = False
    disk: bool = False
    binds: tuple[Bind, ...] = ()
    tree: str = ""
    repository: str = ""

    @property
    def index(self) -> int:
        """1 for lab-01."""
        return host_index(self.name)


def directory(settings: Settings, name: str) -> Path:
    """Return the state directory of a host."""
    return settings.state / "hosts" / name


def layers(settings: Settings, machine: Machine) -> Path:
    """Return where the host's own changes live."""
    place = settings.state / ("disk" if machine.disk else "memory")
    return place / machine.name


def save(settings: Settings, machine: Machine) -> None:
    """Remember how a host was ordered."""
    write(directory(settings, machine.name) / "machine.json", json.dumps(asdict(machine), indent=1) + "\n")


def load(settings: Settings, name: str) -> Machine:
    """Return how a host was ordered; LabError when there is none of that name."""
    file = directory(settings, name) / "machine.json"
    if not file.exists():
        raise LabError("no such lab host", host=name, next_step="invoke lab list")
    data = json.loads(file.read_text(encoding="utf-8"))
    return Machine(**{**data, "binds": tuple(Bind(**bind) for bind in data["binds"])})


def names(settings: Settings) -> tuple[str, ...]:
    """Return the names of all hosts that exist, running or not."""
    files = (settings.state / "hosts").glob("*/machine.json")
    return tuple(sorted((file.parent.name for file in files), key=host_index))
