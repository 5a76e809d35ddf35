"""rocm-smi, as ROCm 6 documents it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from .answer import Answer
from .gpus import AmdGpu, Box, Holder
from .gpus import amd as amd_gpus

WIDTH = 122
NO_DRIVER = (
    "cat: /sys/module/amdgpu/initstate: No such file or directory\n"
    "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"
)
HEAD = (
    "Device  Node  IDs              Temp    Power  Partitions          "
    "SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%  \n"
    "              (DID,     GUID)  (Edge)  (Avg)  (Mem, Compute, ID)"
    "                                                   \n"
)


def _product(gpu: AmdGpu) -> dict[str, str]:
    return {
        "Card Series": gpu.card.name,
        "Card Model": gpu.card.device_id,
        "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
        "GFX Version": gpu.card.gfx,
    }


def _memory(gpu: AmdGpu) -> dict[str, str]:
    return {"VRAM Total Memory (B)": str(gpu.total << 20), "VRAM Total Used Memory (B)": str(gpu.used << 20)}


OPTIONS: Mapping[str, Callable[[AmdGpu], dict[str, str]]] = {
    "--showproductname": _product,
    "--showmeminfo": _memory,
    "--showuse": lambda gpu: {"GPU use (%)": "95" if gpu.holders else "0"},
    "--showuniqueid": lambda gpu: {"Unique ID": f"0x{gpu.serial[:16]}"},
    "--showmaxpower": lambda gpu: {"Max Graphics Package Power (W)": f"{gpu.card.power_w}.0"},
    "--showbus": lambda gpu: {"PCI Bus": gpu.bdf},
}


def answer(arguments: Sequence[str], box: Box, holders: Sequence[Holder]) -> Answer:
    """Return what rocm-smi would."""
    gpus = amd_gpus(box, holders)
    if box.broken or not gpus:
        return Answer(NO_DRIVER, 1)
    if "--json" in arguments:
        return Answer(_json(arguments, gpus, box))
    return Answer(_topology(gpus) if "--showtopo" in arguments else _table(gpus))


def _json(arguments: Sequence[str], gpus: Sequence[AmdGpu], box: Box) -> str:
    cards: dict[str, dict[str, str]] = {}
    for gpu in gpus:
        asked = [part(gpu) for option, part in OPTIONS.items() if option in arguments]
        cards[f"card{gpu.index}"] = {key: value for part in asked for key, value in part.items()}
    if "--showdriverversion" in arguments:
        cards["system"] = {"Driver version": box.options.get("driver", "6.12.12")}
    return json.dumps(cards) + "\n"


def _table(gpus: Sequence[AmdGpu]) -> str:
    rows = ""
    for gpu in gpus:
        filled, busy = gpu.used * 100 // gpu.total, 95 if gpu.holders else 0
        rows += (
            f"{gpu.index:<8}{gpu.index + 1:<6}{gpu.card.device_id},   {12261 + gpu.index:<7}"
            f"{35 + gpu.index}.0°C  41.0W  N/A, N/A, 0         800Mhz  1600Mhz  0%   auto  "
            f"{gpu.card.power_w}.0W  {filled}%     {busy}%    \n"
        )
    title = " ROCm System Management Interface ".center(WIDTH, "=")
    return (
        f"\n\n{title}\n{' Concise Info '.center(WIDTH, '=')}\n{HEAD}{'=' * WIDTH}\n{rows}{'=' * WIDTH}\n"
        f"{' End of ROCm SMI Log '.center(WIDTH, '=')}\n"
    )


def _topology(gpus: Sequence[AmdGpu]) -> str:
    header = "       " + "".join(f"GPU{gpu.index:<10}" for gpu in gpus)
    rows = ""
    for row in gpus:
        cells = "".join(f"{'0' if row is column else row.card.link:<13}" for column in gpus)
        rows += f"GPU{row.index:<4}{cells}\n"
    nodes = "".join(
        f"GPU[{gpu.index}]\t\t: (Topology) Numa Node: {gpu.index * 2 // max(2, len(gpus))}\n"
        f"GPU[{gpu.index}]\t\t: (Topology) Numa Affinity: {gpu.index * 2 // max(2, len(gpus))}\n"
        for gpu in gpus
    )
    return (
        f"\n\n{' ROCm System Management Interface '.center(WIDTH, '=')}\n"
        f"{' Link Type between two GPUs '.center(WIDTH, '=')}\n{header}\n{rows}"
        f"{' Numa Nodes '.center(WIDTH, '=')}\n{nodes}{' End of ROCm SMI Log '.center(WIDTH, '=')}\n"
    )
