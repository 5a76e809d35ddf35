"""From a directory with hosts.toml, models.toml and sweeps.toml to an `Inventory`, or to all its mistakes."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType

from fleetbench.errors import InventoryError
from fleetbench.inventory import sweeps as sweep_tables
from fleetbench.inventory.documents import FILES, Document, read_documents
from fleetbench.inventory.hosts import SECTIONS, Definitions, names_of, read_hosts
from fleetbench.inventory.keys import model_keys
from fleetbench.inventory.kinds import reference
from fleetbench.inventory.names import near_names
from fleetbench.inventory.problems import InventoryProblems, Problem
from fleetbench.inventory.values import Inventory
from fleetbench.model import Model, Sweep

ENVIRONMENT = "FLEETBENCH_INVENTORY"

_SECTIONS_OF = {"hosts.toml": SECTIONS, "models.toml": ("models",), "sweeps.toml": ("sweeps",)}


def default_directory() -> Path:
    """Return the inventory directory: `FLEETBENCH_INVENTORY`, else `inventory` beside the nearest tasks.py.

    Nearest: in the current directory or above it, so that a command works from any sub-directory. Without
    one it is `inventory` in the current directory, whether that exists or not.
    """
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen).expanduser()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "inventory" / "hosts.toml").is_file() or (folder / "tasks.py").is_file():
            return folder / "inventory"
    return here / "inventory"


def load(directory: Path) -> Inventory:
    """Read the inventory in `directory` and in its immediate sub-directories.

    Raises `InventoryProblems` with every mistake found, each with file, line and key, and `InventoryError`
    when there is no inventory at all.
    """
    try:
        problems: list[Problem] = []
        (hosts, all_hosts), (models, _), (sweeps, all_sweeps) = (
            read_documents(directory, name, problems) for name in FILES
        )
    except OSError as exc:
        raise _no_inventory(directory, exc.strerror or str(exc)) from None
    if not problems and not (hosts or models or sweeps):
        raise _no_inventory(directory, f"it holds none of {', '.join(FILES)}")
    for name, documents in zip(FILES, (hosts, models, sweeps), strict=True):
        for document in documents:
            _check_sections(document, name)

    definitions = Definitions()
    machines = read_hosts(directory, hosts, complete=all_hosts)
    build = reference("build", names_of(machines.sources, "builds"), complete=all_hosts)
    sweep_values = {
        name: Sweep(name=name, **sweep_tables.fields(values))
        for name, values in definitions.tables(sweeps, "sweeps", sweep_tables.keys(build))
    }
    readers = model_keys(reference("sweep", definitions.names("sweeps"), complete=all_sweeps))
    model_values = {
        name: Model(name=name, **values)
        for name, values in definitions.tables(models, "models", readers, required=("repo",))
    }
    if problems:
        raise InventoryProblems(problems)
    return Inventory(
        directory=directory,
        hosts=MappingProxyType(machines.hosts),
        groups=MappingProxyType(machines.groups),
        models=MappingProxyType(model_values),
        sweeps=MappingProxyType(sweep_values),
        builds=MappingProxyType(machines.builds),
        sources=MappingProxyType({**machines.sources, **definitions.sources}),
    )


def _no_inventory(directory: Path, cause: str) -> InventoryError:
    return InventoryError(
        f"no inventory in {directory}",
        cause=cause,
        next_step=f"name its directory with --inventory DIR or {ENVIRONMENT}=DIR",
    )


def _check_sections(document: Document, name: str) -> None:
    """Report top-level tables that do not belong into a file of that name."""
    for section in document.tables:
        if section in _SECTIONS_OF[name]:
            continue
        home = next((file for file, sections in _SECTIONS_OF.items() if section in sections), "")
        near = near_names(section, _SECTIONS_OF[name])
        advice = f"it belongs into {home}" if home else f"did you mean {near[0]}?" if near else ""
        known = f"expected {' or '.join(f'[{known}]' for known in _SECTIONS_OF[name])}"
        document.root.at(section).report(f"{known}; {advice}" if advice else known)
