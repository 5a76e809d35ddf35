"""What a loaded inventory is: names to nouns, and where each was defined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fleetbench.errors import InventoryError
from fleetbench.inventory.names import suggestion
from fleetbench.inventory.problems import shown
from fleetbench.model import Build, Host, Model, Sweep


@dataclass(frozen=True, slots=True)
class Source:
    """Where something is defined: path as messages print it, and line from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All hosts, models, sweeps and builds of one inventory directory, in the order of its files.

    Attributes:
        groups: names of the member hosts, in the order of `hosts`.
        sources: where a thing was defined, by `hosts.NAME`, `models.NAME`, `sweeps.NAME` …
    """

    directory: Path
    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    models: Mapping[str, Model]
    sweeps: Mapping[str, Sweep]
    builds: Mapping[str, Build]
    sources: Mapping[str, Source]


def find_host(inventory: Inventory, name: str) -> Host:
    """Return the host of that name; InventoryError with the near names otherwise."""
    return inventory.hosts.get(name) or _unknown("host", name, inventory.hosts)


def find_model(inventory: Inventory, name: str) -> Model:
    """Return the model of that name; InventoryError with the near names otherwise."""
    return inventory.models.get(name) or _unknown("model", name, inventory.models)


def find_sweep(inventory: Inventory, name: str) -> Sweep:
    """Return the sweep of that name; InventoryError with the near names otherwise."""
    return inventory.sweeps.get(name) or _unknown("sweep", name, inventory.sweeps)


def find_build(inventory: Inventory, name: str) -> Build:
    """Return the build of that name; InventoryError with the near names otherwise."""
    return inventory.builds.get(name) or _unknown("build", name, inventory.builds)


def _unknown(noun: str, name: str, known: Mapping[str, object]) -> NoReturn:
    raise InventoryError(
        f"no {noun} is called {shown(name)}",
        next_step=suggestion(name, known) or "fleetbench inventory check",
    )
