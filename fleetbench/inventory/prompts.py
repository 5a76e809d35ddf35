"""The prompt files that sweeps name: whether they are there. `load` does not ask; `inventory check` does,
because a sweep's file of gigabytes need not lie on every controller."""

from __future__ import annotations

from pathlib import Path

from fleetbench.inventory.problems import Problem
from fleetbench.inventory.values import Inventory


def missing_prompts(inventory: Inventory) -> tuple[Problem, ...]:
    """Return a problem for each file that a sweep's workload names and that cannot be found."""
    found: dict[Problem, None] = {}
    for sweep in inventory.sweeps.values():
        source = inventory.sources[f"sweeps.{sweep.name}"]
        for workload in sweep.workloads:
            if workload.prompts and not Path(workload.prompts).is_file():
                text = f"no such file: {workload.prompts}; a relative path counts from the sweep's own file"
                found[Problem(source.file, source.line, f"sweeps.{sweep.name}.workload.prompts", text)] = None
    return tuple(found)
