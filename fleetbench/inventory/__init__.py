"""The inventory: hosts, models and sweeps as people write them in TOML, read into the nouns of `model`.

`load` reads a directory, `select` finds the hosts that `--hosts` means, `ssh_options.resolve` asks the real
ssh how to reach one of them.
"""

from fleetbench.inventory.loader import default_directory, load
from fleetbench.inventory.patterns import expand_names, fold_names
from fleetbench.inventory.problems import InventoryProblems, Problem
from fleetbench.inventory.selection import select
from fleetbench.inventory.values import (
    Inventory,
    Source,
    find_build,
    find_host,
    find_model,
    find_sweep,
)

__all__ = [
    "Inventory",
    "InventoryProblems",
    "Problem",
    "Source",
    "default_directory",
    "expand_names",
    "find_build",
    "find_host",
    "find_model",
    "find_sweep",
    "fold_names",
    "load",
    "select",
]
