"""amd-smi, as ROCm 6 documents it: list, static, metric, process, version; as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .answer import Answer
from .gpus import AmdGpu, Box, Holder
from .gpus import amd as amd_gpus

NO_DRIVER = "ERROR: AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded\n"
VERSION = {
    "tool": "AMDSMI Tool",
    "version": "25.5.1+41065ee",
    "amdsmi_library_version": "25.5.1",
    "rocm_version": "6.4.2",
}


def _amount(value: int, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit}


def _list(gpu: AmdGpu) -> dict[str, Any]:
    ids = {"kfd_id": 12261 + gpu.index, "node_id": gpu.index + 1, "partition_id": 0}
    return {"bdf": gpu.bdf, "uuid": gpu.uuid, **ids}


def _static(gpu: AmdGpu) -> dict[str, Any]:
    return {
        "asic": {
            "market_name": gpu.card.name,
            "vendor_id": "0x1002",
            "device_id": gpu.card.device_id,
            "asic_serial": f"0x{gpu.serial[:16].upper()}",
            "target_graphics_version": gpu.card.gfx,
        },
        "bus": {"bdf": gpu.bdf},
        "limit": {
            "max_power": _amount(gpu.card.power_w, "W"),
            "socket_power": _amount(gpu.card.power_w, "W"),
        },
        "driver": {"name": "amdgpu", "version": "6.12.12"},
        "vram": {"type": "HBM", "size": _amount(gpu.total, "MB")},
    }


def _metric(gpu: AmdGpu) -> dict[str, Any]:
    memory = {"total_vram": gpu.total, "used_vram": gpu.used, "free_vram": gpu.total - gpu.used}
    return {
        "usage": {"gfx_activity": _amount(95 if gpu.holders else 0, "%")},
        "mem_usage": {name: _amount(value, "MB") for name, value in memory.items()},
    }


def _process(gpu: AmdGpu) -> dict[str, Any]:
    if not gpu.holders:
        return {"process_list": [{"process_info": "No running processes detected"}]}
    return {
        "process_list": [
            {
                "process_info": {
                    "name": holder.name,
                    "pid": holder.pid,
                    "memory_usage": {"vram_mem": _amount(holder.mib << 20, "B")},
                    "mem_usage": _amount(holder.mib << 20, "B"),
                }
            }
            for holder in gpu.holders
        ]
    }


PARTS = {"list": _list, "static": _static, "metric": _metric, "process": _process}


def answer(arguments: Sequence[str], box: Box, holders: Sequence[Holder]) -> Answer:
    """Return what amd-smi would."""
    gpus = amd_gpus(box, holders)
    if box.broken or not gpus:
        return Answer(NO_DRIVER, 255)
    command = next((word for word in arguments if not word.startswith("-")), "")
    as_json = "--json" in arguments
    if command == "version":
        return Answer(_version(as_json))
    if command not in PARTS:
        return Answer("usage: amd-smi [-h] {version,list,static,metric,process} ...\n", 2)
    entries: list[dict[str, Any]] = [{"gpu": gpu.index, **PARTS[command](gpu)} for gpu in gpus]
    if as_json:
        return Answer(json.dumps(entries, indent=4) + "\n")
    return Answer("".join(f"GPU: {entry['gpu']}\n{_text(entry, 4)}\n" for entry in entries))


def _version(as_json: bool) -> str:
    if as_json:
        return json.dumps([VERSION]) + "\n"
    return (
        f"{VERSION['tool']}: {VERSION['version']} | AMDSMI Library version: "
        f"{VERSION['amdsmi_library_version']} | ROCm version: {VERSION['rocm_version']}\n"
    )


def _text(entry: Mapping[str, Any], indent: int) -> str:
    """Return an entry in the indented form, without its leading GPU number."""
    lines = []
    for key, value in entry.items():
        pad = " " * indent
        if key == "gpu":
            continue
        if isinstance(value, dict) and "unit" in value:
            lines.append(f"{pad}{key.upper()}: {value['value']} {value['unit']}\n")
        elif isinstance(value, dict):
            lines.append(f"{pad}{key.upper()}:\n{_text(value, indent + 4)}")
        elif isinstance(value, list):
            lines += [_text(item, indent) for item in value]
        else:
            lines.append(f"{pad}{key.upper()}: {value}\n")
    return "".join(lines)
