"""How GPUs are connected: `nvidia-smi topo -m` and `rocm-smi --showtopo`."""

from __future__ import annotations

import re

from fleetbench.facts.fields import clean, whole
from fleetbench.facts.values import Missing, Topology

_LINK_LIMIT = 16
_GPU_LIMIT = 128
_UNDERLINE = re.compile(r"\x1b?\[[0-9;]{0,8}m")  # nvidia-smi underlines its header even into a pipe
_GPU = re.compile(r"GPU[0-9]{1,3}")
_NUMA = re.compile(r"GPU\[([0-9]{1,3})\]\s*: \(Topology\) Numa Node: (-?[0-9]{1,4})")


def parse(text: str) -> Topology | Missing:
    """Given the output of either tool, return the matrix between GPUs; NIC rows and columns are left out."""
    lines = _UNDERLINE.sub("", text).split("\n")
    titles = [number for number, line in enumerate(lines) if "Link Type between two GPUs" in line]
    start = titles[0] if titles else 0
    header = next((n for n in range(start, len(lines)) if _is_header(lines[n])), None)
    if header is None:
        return Missing(clean(text) or "no topology was printed")
    names = [word for word in lines[header].split() if _GPU.fullmatch(word)][:_GPU_LIMIT]
    matrix: list[tuple[str, ...]] = []
    nodes: list[int | None] = []
    for line in lines[header + 1 :]:
        words = line.split()
        if len(matrix) == len(names) or not words or words[0] != names[len(matrix)]:
            if matrix:
                break
            continue
        cells = [word[:_LINK_LIMIT] for word in words[1 : len(names) + 1]]
        if len(cells) < len(names):
            break
        matrix.append(tuple("X" if n == len(matrix) else clean(cell) for n, cell in enumerate(cells)))
        nodes.append(_node(lines[header], line))
    if len(matrix) != len(names):
        return Missing(f"the topology was cut off after {len(matrix)} of {len(names)} GPUs")
    if titles:
        stated = {int(match[1]): int(match[2]) for match in _NUMA.finditer(text)}
        nodes = [_not_negative(stated.get(number)) for number in range(len(names))]
    return Topology(links=tuple(matrix), numa_nodes=tuple(nodes))


def weak_links(topology: Topology) -> tuple[str, ...]:
    """Name each GPU whose best NVLink is narrower than the widest of the host, `GPU2: NV16, others NV18`."""
    best = [max((_lanes(link) for link in row), default=0) for row in topology.links]
    widest = max(best, default=0)
    return tuple(
        f"GPU{index}: {f'NV{lanes}' if lanes else 'no NVLink'}, others NV{widest}"
        for index, lanes in enumerate(best)
        if lanes < widest
    )


def _is_header(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] == "GPU0" and (len(words) == 1 or not re.fullmatch(r"X|0", words[1]))


def _lanes(link: str) -> int:
    match = re.fullmatch(r"NV([0-9]{1,3})", link)
    return int(match[1]) if match else 0


def _node(header: str, line: str) -> int | None:
    """The row's NUMA affinity: by tab column; a paste that lost its tabs is read from its last words."""
    columns = [column.strip() for column in header.split("\t")]
    cells = [cell.strip() for cell in line.split("\t")]
    if "NUMA Affinity" in columns and columns.index("NUMA Affinity") < len(cells):
        return whole(cells[columns.index("NUMA Affinity")])
    words = line.split()
    return whole(words[-2]) if "NUMA Affinity" in header and words[-1] == "N/A" else None


def _not_negative(node: int | None) -> int | None:
    return node if node is not None and node >= 0 else None
