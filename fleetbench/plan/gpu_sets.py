"""Which GPUs an engine gets: those that are connected best, where the topology is known.

NVLink before PCIe, one NUMA node before two; the lowest indices where all are alike. vLLM gives ranks to GPUs
in the order of CUDA_VISIBLE_DEVICES, tensor parallel neighbours side by side, so their links count first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from fleetbench.facts.values import Missing, Topology
from fleetbench.model import Config, GpuSet

# `nvidia-smi topo -m` and `rocm-smi --showtopo`, from best to worst; NV# is ranked by its number of links.
_PATHS = {"XGMI": 1000, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "PCIE": 15, "SYS": 10}
_NVLINK = 1000
# Beyond that the choice of the best set takes longer than it is worth; such hosts are all alike.
_MOST_SETS = 20_000


def gpu_sets(
    config: Config, available: GpuSet, topology: Topology | Missing | None = None
) -> tuple[GpuSet, ...]:
    """Return one GPU set for each of the configuration's units, disjoint, from those available.

    Without a topology these are the first GPUs: in PCI bus order neighbours share a switch. When there are
    too few, one set with all of them is returned: the server then says so itself.
    """
    size = config.tp * config.dp * config.pp
    if config.gpus > len(available.indices):
        return (GpuSet(available.indices),)
    known = topology if isinstance(topology, Topology) and _covers(topology, available) else None
    left = list(available.indices)
    found: list[GpuSet] = []
    for _ in range(config.units):
        chosen = tuple(left[:size]) if known is None else _best(left, size, config.tp, known)
        found.append(GpuSet(chosen))
        left = [index for index in left if index not in chosen]
    return tuple(found)


def _covers(topology: Topology, available: GpuSet) -> bool:
    return bool(topology.links) and max(available.indices, default=0) < len(topology.links)


def _best(left: Sequence[int], size: int, tp: int, topology: Topology) -> tuple[int, ...]:
    best: tuple[int, ...] = tuple(left[:size])
    score = _score(best, tp, topology)
    for turn, chosen in enumerate(combinations(left, size)):
        if turn >= _MOST_SETS:
            break
        here = _score(chosen, tp, topology)
        if here > score:
            best, score = chosen, here
    return best


def _score(chosen: tuple[int, ...], tp: int, topology: Topology) -> tuple[int, int, int]:
    """Weakest link between tensor parallel neighbours, weakest of all, fewest NUMA nodes."""
    inside = [
        _link(topology, one, other)
        for start in range(0, len(chosen), tp)
        for one, other in combinations(chosen[start : start + tp], 2)
    ]
    outside = [_link(topology, one, other) for one, other in combinations(chosen, 2)]
    nodes = {topology.numa_nodes[index] for index in chosen if index < len(topology.numa_nodes)}
    return min(inside, default=_NVLINK), min(outside, default=_NVLINK), -len(nodes)


def _link(topology: Topology, one: int, other: int) -> int:
    row = topology.links[one]
    text = row[other].upper() if other < len(row) else ""
    match = re.fullmatch(r"NV(\d{1,3})", text)
    return _NVLINK + int(match[1]) if match else _PATHS.get(text, 0)
