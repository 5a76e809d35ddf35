"""Which processes of this host hold GPU memory.

CUDA knows; here it is derived. A service `vllm*.service` holds the GPUs that its environment names, through
its workers where it has some. A process whose parent is gone and that still carries such an environment
holds them too: that is what a killed server leaves behind. vLLM renames its processes (setproctitle), which
may overwrite /proc/PID/environ and cmdline; the unit's own Environment= answers then.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .cards import AMD, NVIDIA, AmdCard, NvidiaCard
from .gpus import Box, Holder, held_mib, indexed

VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
RECORDED = "/run/fake-gpu-apps"
UNIT = re.compile(r"/((?:vllm|fleetbench)[^/]*\.service)(?:/|$)")
WORKER = re.compile(r"VLLM::Worker|VllmWorker")
ENGINE = re.compile(r"VLLM::EngineCore")
# Children of a server that never touch a GPU.
BYSTANDER = re.compile(r"multiprocessing\.(resource_tracker|forkserver)|VLLM::(APIServer_|DPCoordinator)")


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it; `environment` is empty when unreadable or overwritten."""

    pid: int
    parent: int
    unit: str
    title: str
    environment: Mapping[str, str]

    @property
    def devices(self) -> str | None:
        """What its environment says of visible devices; None when it says nothing."""
        return next((self.environment[name] for name in VARIABLES if name in self.environment), None)


def device_indices(text: str, count: int, uuids: Sequence[str] = ()) -> tuple[int, ...]:
    """Given CUDA_VISIBLE_DEVICES, return indices; as in CUDA the list ends at the first invalid entry."""
    found: list[int] = []
    for part in text.split(","):
        word = part.strip()
        matches = [
            index for index, uuid in enumerate(uuids) if word.startswith("GPU-") and uuid.startswith(word)
        ]
        index = int(word) if re.fullmatch(r"\d{1,3}", word) else matches[0] if len(matches) == 1 else -1
        if not 0 <= index < count:
            break
        found.append(index)
    return tuple(found)


def families(processes: Iterable[Process]) -> tuple[tuple[Process, ...], ...]:
    """Group the processes of each unit (and those of none) into trees; the root comes first in each."""
    known = {process.pid: process for process in processes}
    trees: dict[int, list[Process]] = {}
    for process in known.values():
        root = process
        # Everything descends from PID 1: a tree ends below it.
        while root.parent > 1 and root.parent in known and known[root.parent].unit == root.unit:
            root = known[root.parent]
        trees.setdefault(root.pid, [])
        if process is root:
            trees[root.pid].insert(0, process)
        else:
            trees[root.pid].append(process)
    return tuple(tuple(tree) for _, tree in sorted(trees.items()))


def workers(family: Sequence[Process]) -> tuple[Process, ...]:
    """Return those of a server's processes that hold the memory: workers, else engines, else its root."""
    by_title = sorted(family, key=lambda process: (process.title, process.pid))
    for pattern in (WORKER, ENGINE):
        found = tuple(process for process in by_title if pattern.search(process.title))
        if found:
            return found
    return tuple(family[:1])


def is_server(family: Sequence[Process]) -> bool:
    """True for a service's tree, and for orphans; false for what serves neither (a bench client, a shell)."""
    root = family[0]
    if BYSTANDER.search(root.title) or "MAINPID" in root.environment:  # systemd's ExecStartPost and ExecStop
        return False
    return root.unit.startswith("vllm") or (root.parent == 1 and not root.unit and root.devices is not None)


def holders(
    processes: Iterable[Process],
    held: Sequence[int],
    unit_environment: Callable[[str], Mapping[str, str]],
    uuids: Sequence[str] = (),
) -> tuple[Holder, ...]:
    """Given the host's processes and what one server holds on each GPU (MiB), return who holds what."""
    found: list[Holder] = []
    for family in families(processes):
        if not is_server(family):
            continue
        devices = next((process.devices for process in family if process.devices is not None), None)
        if devices is None and family[0].unit:
            environment = unit_environment(family[0].unit)
            devices = next((environment[name] for name in VARIABLES if name in environment), None)
        indices = device_indices(devices or "", len(held), uuids)
        hands = workers(family)
        for position, index in enumerate(indices):
            hand = hands[position * len(hands) // len(indices)]
            found.append(Holder(index, hand.pid, held[index], hand.title.split("\0")[0].split(" ")[0][:60]))
    return tuple(sorted(found, key=lambda holder: (holder.gpu, holder.pid)))


def _bytes(pid: str, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123  see gpus.read
            return file.read().decode(errors="replace")
    except OSError:  # it ended, or belongs to somebody else
        return ""


def _environment(pid: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in _bytes(pid, "environ").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def read_processes() -> tuple[Process, ...]:
    """Return the processes of this host that could matter: those with a command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  see gpus.read
        title = _bytes(pid, "cmdline").rstrip("\0")
        status = re.search(r"^PPid:\s+(\d+)", _bytes(pid, "status"), flags=re.MULTILINE)
        if not title or status is None:
            continue
        unit = UNIT.search(_bytes(pid, "cgroup").replace("\n", "/"))
        found.append(Process(int(pid), int(status[1]), unit[1] if unit else "", title, _environment(pid)))
    return tuple(found)


def parse_unit_environment(text: str) -> dict[str, str]:
    """Given `systemctl show -P Environment`, return the variables."""
    try:
        words = shlex.split(text)
    except ValueError:  # an unbalanced quote inside a value
        words = text.split()
    pairs = (word.partition("=") for word in words)
    return {name: value for name, equals, value in pairs if equals}


def read_unit_environment(unit: str) -> Mapping[str, str]:
    """Ask systemd for a unit's environment; works without privileges."""
    argv = ["systemctl", "show", "--property=Environment", "--value", "--", unit]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    return parse_unit_environment(done.stdout)


def recorded(directory: str = RECORDED) -> tuple[Holder, ...]:
    """Return holders that a test wrote down: `GPU MIB NAME` lines in a file named after a process."""
    found: list[Holder] = []
    if not os.path.isdir(directory):  # noqa: PTH112  see gpus.read
        return ()
    for pid in filter(str.isdigit, sorted(os.listdir(directory))):  # noqa: PTH208
        if not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110
            continue
        with open(f"{directory}/{pid}", encoding="utf-8") as file:  # noqa: PTH123
            for line in file:
                gpu, mib, name = line.split(None, 2)
                found.append(Holder(int(gpu), int(pid), int(mib), name.strip()))
    return tuple(found)


def read_holders(box: Box, uuids: Sequence[str] = ()) -> tuple[Holder, ...]:
    """Return everything that holds memory on this host's GPUs now."""
    cards: Mapping[str, NvidiaCard | AmdCard] = {**NVIDIA, **AMD}
    slots = indexed(box, NVIDIA) or indexed(box, AMD)
    totals = [int(slot.options.get("mem", cards[slot.card].memory_mib)) for _, slot in slots]
    held = [held_mib(box, slot, total) for (_, slot), total in zip(slots, totals, strict=True)]
    return (*recorded(), *holders(read_processes(), held, read_unit_environment, uuids))
