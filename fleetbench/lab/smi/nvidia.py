"""nvidia-smi: options, lists and topology."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .answer import Answer
from .gpus import Box, Holder, NvidiaGpu
from .gpus import nvidia as nvidia_gpus
from .nvidia_query import query_apps, query_gpus
from .nvidia_table import table

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)


@dataclass(frozen=True)
class Request:
    """What the command line asks for; `unknown` is the first option that is refused."""

    mode: str = "table"
    selected: str | None = None
    gpu_fields: str | None = None
    app_fields: str | None = None
    form: str = "csv"
    loop_s: float = 0.0
    unknown: str = ""


VALUED = {
    "-i": "selected",
    "--id": "selected",
    "--query-gpu": "gpu_fields",
    "--query-compute-apps": "app_fields",
    "--format": "form",
}
LOOPS = {"-l": 1.0, "--loop": 1.0, "-lms": 0.001, "--loop-ms": 0.001}  # the unit in seconds
MODES = {"-L": "list", "--list-gpus": "list", "topo": "topo", "--version": "version"}


def parse(arguments: Sequence[str]) -> Request:
    """Read a command line; values follow `=` or stand in the next word, as NVIDIA's tool takes both."""
    words = list(arguments)
    texts: dict[str, str] = {}
    mode, loop_s, unknown = "table", 0.0, ""
    while words and not unknown:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in VALUED or name in LOOPS:
            text = value if equals else words.pop(0) if words else ""
            if name in VALUED:
                texts[VALUED[name]] = text
            elif text.isdigit():
                loop_s = int(text) * LOOPS[name]
        elif word in MODES:
            mode = MODES[word]
        elif not (mode == "topo" and word in ("-m", "--matrix")):
            unknown = word
    return Request(
        mode=mode,
        selected=texts.get("selected"),
        gpu_fields=texts.get("gpu_fields"),
        app_fields=texts.get("app_fields"),
        form=texts.get("form", "csv"),
        loop_s=loop_s,
        unknown=unknown,
    )


def answer(arguments: Sequence[str], box: Box, holders: Sequence[Holder]) -> Answer:
    """Return what nvidia-smi would."""
    if box.broken:
        return Answer(NO_DRIVER, 9)
    request = parse(arguments)
    if request.unknown:
        return Answer(
            f"ERROR: Option {request.unknown} is not recognized. Please run 'nvidia-smi -h'.\n\n", 255
        )
    if request.mode == "version":
        return Answer(_version(box))
    gpus = [gpu for gpu in nvidia_gpus(box, holders) if _chosen(gpu, request.selected)]
    return _about(gpus, request, box) if gpus else Answer("No devices were found\n", 6)


def _about(gpus: Sequence[NvidiaGpu], request: Request, box: Box) -> Answer:
    if request.mode == "list":
        return Answer("".join(f"GPU {gpu.index}: {gpu.card.name} (UUID: {gpu.uuid})\n" for gpu in gpus))
    if request.mode == "topo":
        return Answer(topology(gpus, int(box.options.get("cpus", os.cpu_count() or 1))))
    if request.app_fields is not None:
        return query_apps(request.app_fields, request.form, gpus)
    if request.gpu_fields is not None:
        return query_gpus(request.gpu_fields, request.form, gpus, box)
    return Answer(table(gpus, box))


def _chosen(gpu: NvidiaGpu, selected: str | None) -> bool:
    """True when `-i` names the GPU by index, UUID or bus id, or is not given."""
    return selected is None or bool({str(gpu.index), gpu.uuid, gpu.bus} & set(selected.split(",")))


def _version(box: Box) -> str:
    library = box.driver.rpartition(".")[0]
    return (
        f"NVIDIA-SMI version  : {box.driver}\nNVML version        : {library}\n"
        f"DRIVER version      : {box.driver}\nCUDA Version        : {box.cuda}\n"
    )


def topology(gpus: Sequence[NvidiaGpu], cpus: int) -> str:
    """Return `topo -m`: two sockets when there are more than four GPUs.

    The header is underlined by terminal escapes even into a pipe.
    """
    half = len(gpus) // 2
    two = len(gpus) > 4

    def node(gpu: NvidiaGpu) -> int:
        return 1 if two and gpu.index >= half else 0

    def between(row: NvidiaGpu, column: NvidiaGpu) -> str:
        if row is column:
            return " X "
        return "NODE" if row.link == "SYS" and node(row) == node(column) else row.link

    affinity = ("0-55,112-167", "56-111,168-223") if two else (f"0-{cpus - 1}",)
    header = "".join(f"GPU{gpu.index}\t" for gpu in gpus)
    lines = [f"\t\x1b[4m{header}CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"]
    for row in gpus:
        cells = "".join(f"{between(row, column)}\t" for column in gpus)
        lines.append(f"GPU{row.index}\t{cells}{affinity[node(row)]}\t{node(row)}\t\tN/A")
    return "\n".join(lines) + "\n" + LEGEND
