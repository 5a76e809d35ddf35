"""What amd-smi and rocm-smi print: JSON, the indented text, and the tables for people.

A device is what HIP calls one: MI250 and MI250X are two devices a board, and the second one of a board states
no power and a power cap of 0 W. Shapes: amd-smi 24 to 26 (ROCm 6 and 7), rocm-smi of ROCm 4 to 7; public
documentation and pasted output, not seen on hardware of ours.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from fleetbench.facts.fields import clean, decimal, known, whole
from fleetbench.facts.values import Gpu, GpuProcess, Missing

_MAX_DEPTH = 8
_MIB = {"b": 1 / 1048576, "kb": 1 / 1024, "kib": 1 / 1024, "mb": 1, "mib": 1, "gb": 1024, "gib": 1024}
_ROW = re.compile(r"([0-9]{1,3})\s+\S")
_DEVICE_ID = re.compile(r"0x[0-9a-fA-F]{4}")
_BANNER = "ROCm System Management Interface"
_TABLE_NAME = re.compile(
    r"\|\s*([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])\s+(\S[^|]*?)\s*\|"
)
_TABLE_MEMORY = re.compile(r"\|\s*([0-9]{1,4})\s[^|]*\|.*?\s([0-9]{1,9})/([0-9]{1,9}) MB\s*\|")
_TABLE_POWER = re.compile(r"/([0-9]{1,5}) W\s*\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdDevice:
    """What a PCI device id stands for."""

    name: str
    gfx: str
    memory_mib: int | None


@cache
def devices() -> Mapping[str, AmdDevice]:
    """Known AMD Instinct devices by PCI device id (`0x740f`)."""
    text = (resources.files("fleetbench") / "data" / "amd_devices.toml").read_text("utf-8")
    return {
        key: AmdDevice(name=value["name"], gfx=value["gfx"], memory_mib=value.get("memory_mib"))
        for key, value in tomllib.loads(text).items()
    }


def static(text: str) -> tuple[Gpu, ...]:
    """Given `amd-smi static`, as JSON or as indented text, return its GPUs."""
    found = []
    for leaves in _amd_smi_entries(text):
        index = whole(leaves.get("gpu", ""))
        if index is None:
            continue
        device_id = leaves.get("asic.device_id", "").lower()
        listed = devices().get(device_id)
        found.append(
            Gpu(
                index=index,
                vendor="amd",
                name=known(leaves.get("asic.market_name", ""))
                or (listed.name if listed else clean(device_id)),
                uuid=known(leaves.get("uuid", "")) or known(leaves.get("asic.asic_serial", "")),
                memory_mib=_mib(leaves.get("vram.size", "")),
                driver=known(leaves.get("driver.version", "") or leaves.get("driver.driver_version", "")),
                compute_capability=known(leaves.get("asic.target_graphics_version", ""))
                or (listed.gfx if listed else ""),
                power_limit_w=_watts(
                    leaves.get("limit.socket_power", "") or leaves.get("limit.max_power", "")
                ),
                bus_id=known(leaves.get("bus.bdf", "")),
                numa_node=whole(leaves.get("numa.node", "")),
            )
        )
    return tuple(found)


def used_mib(text: str) -> dict[int, int]:
    """Given `amd-smi metric` (JSON or text), return used memory in MiB by GPU index."""
    found = {}
    for leaves in _amd_smi_entries(text):
        index, used = whole(leaves.get("gpu", "")), _mib(leaves.get("mem_usage.used_vram", ""))
        if index is not None and used is not None:
            found[index] = used
    return found


def processes(text: str, units: dict[int, str]) -> dict[int, tuple[GpuProcess, ...]]:
    """Given `amd-smi process --json` and the unit of each pid, return processes by GPU index."""
    found: dict[int, tuple[GpuProcess, ...]] = {}
    for entry in _entries(_json(text)):
        index = whole(str(entry.get("gpu", "")))
        listed = entry.get("process_list")
        if index is None or not isinstance(listed, list):
            continue
        found[index] = tuple(
            GpuProcess(
                pid=pid,
                name=clean(leaves.get("name", "")),
                used_mib=_mib(leaves.get("memory_usage.vram_mem", "")),
                unit=units.get(pid, ""),
            )
            for leaves in (dict(_leaves(_inner(one))) for one in listed)
            if (pid := whole(leaves.get("pid", ""))) is not None
        )
    return found


def rocm_json(text: str) -> tuple[Gpu, ...]:
    """Given rocm-smi's JSON of the probe's question, return its GPUs."""
    document = _json(text)
    if not isinstance(document, dict):
        return ()
    system = document.get("system")
    driver = str(system.get("Driver version", "")) if isinstance(system, dict) else ""
    found = []
    for key, value in document.items():
        match = re.fullmatch(r"card([0-9]{1,3})", key)
        if match is None or not isinstance(value, dict):
            continue
        card = {name: field for name, field in value.items() if isinstance(field, str)}
        listed = devices().get((card.get("Device ID") or card.get("Card Model") or "").lower())
        name = known(card.get("Card Series", "") or card.get("Card series", ""))
        found.append(
            Gpu(
                index=int(match[1]),
                vendor="amd",
                name=listed.name if listed and not name.startswith("AMD Instinct") else name,
                uuid=known(card.get("Unique ID", "")),
                memory_mib=_mib(card.get("VRAM Total Memory (B)", "") + " B"),
                used_mib=_mib(card.get("VRAM Total Used Memory (B)", "") + " B"),
                driver=known(driver),
                compute_capability=known(card.get("GFX Version", "")) or (listed.gfx if listed else ""),
                power_limit_w=_watts(card.get("Max Graphics Package Power (W)", "")),
                bus_id=known(card.get("PCI Bus", "")),
            )
        )
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def rocm_tables(text: str) -> tuple[tuple[Gpu, ...] | Missing, ...]:
    """Given text with rocm-smi's concise tables, return the GPUs of each; an empty table is Missing.

    The table states memory as whole percent only: `used_mib` is that share of the memory that the device id
    stands for, and None where the table prints no device id.
    """
    return tuple(_rocm_table(part) for part in text.split(_BANNER)[1:])


def smi_table(text: str) -> tuple[Gpu, ...]:
    """Given the table that amd-smi prints without arguments (ROCm 7), return its GPUs."""
    found: list[Gpu] = []
    open_row: tuple[str, str, float | None] | None = None
    for line in text.split("\n"):
        part = line[:200]
        if name := _TABLE_NAME.search(part):
            power = _TABLE_POWER.search(part)
            open_row = name[1], clean(name[2]), _watts(power[1]) if power else None
        elif open_row and (memory := _TABLE_MEMORY.search(part)):
            found.append(
                Gpu(
                    index=int(memory[1]),
                    vendor="amd",
                    name=open_row[1],
                    bus_id=open_row[0],
                    power_limit_w=open_row[2],
                    used_mib=int(memory[2]),
                    memory_mib=int(memory[3]),
                )
            )
            open_row = None
    return tuple(found)


def _rocm_table(text: str) -> tuple[Gpu, ...] | Missing:
    found: list[Gpu] = []
    columns: list[str] = []
    for line in text.split("\n"):
        part = line[:300].strip()
        if part.startswith(("Device ", "GPU ")):
            columns = part.split()
        elif columns and _ROW.match(part):
            found.append(_rocm_row(part, columns))
        elif found and part.startswith("AMD "):
            found[-1] = replace(found[-1], name=clean(part))  # ROCm 6.0 and 6.1 print the name below
        elif "WARNING" in part and "No AMD GPU" in part:
            return Missing(f"rocm-smi: {clean(part)}")
    return tuple(found) or Missing("rocm-smi: the table has no GPU")


def _rocm_row(part: str, columns: list[str]) -> Gpu:
    """The last columns are the same in each layout: … PwrCap VRAM% GPU%."""
    words = part.split()
    stated = _DEVICE_ID.search(part)
    listed = devices().get(stated[0].lower()) if stated else None
    share = decimal(words[-2]) if columns[-2:] == ["VRAM%", "GPU%"] and len(words) > 3 else None
    memory = listed.memory_mib if listed else None
    return Gpu(
        index=int(words[0]),
        vendor="amd",
        name=listed.name if listed else stated[0] if stated else "",
        memory_mib=memory,
        used_mib=round(memory * share / 100) if memory is not None and share is not None else None,
        compute_capability=listed.gfx if listed else "",
        power_limit_w=_watts(words[-3]) if len(words) > 3 else None,
    )


def _amd_smi_entries(text: str) -> list[dict[str, str]]:
    """Each GPU's values by dotted lower-case path, from JSON or from indented `KEY: value` text."""
    document = _json(text)
    if document is not None:
        return [dict(_leaves(entry)) for entry in _entries(document)]
    entries: list[dict[str, str]] = []
    path: list[tuple[int, str]] = []
    for line in text.split("\n"):
        key, colon, value = line[:400].strip().partition(":")
        indent = len(line) - len(line.lstrip())
        if not colon or not key.replace("_", "").isalnum():
            continue
        if key == "GPU":
            entries.append({})
        path = [step for step in path if step[0] < indent][-_MAX_DEPTH:]
        if entries and value.strip():
            entries[-1][".".join([*(step[1] for step in path if step[1] != "gpu"), key.lower()])] = (
                value.strip()
            )
        path.append((indent, key.lower()))
    return entries


def _entries(document: object) -> list[dict[str, object]]:
    """ROCm 6 prints a list; ROCm 7 an object with the list under `gpu_data`."""
    if isinstance(document, dict):
        document = document.get("gpu_data")
    return [entry for entry in document if isinstance(entry, dict)] if isinstance(document, list) else []


def _inner(process: object) -> object:
    """ROCm 6 wraps each process in `process_info`."""
    return process.get("process_info", process) if isinstance(process, dict) else None


def _leaves(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and "value" in value and "unit" in value:
        yield path, f"{value['value']} {value['unit']}"
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}".lower().lstrip("."), depth + 1)
    elif isinstance(value, str | int | float):
        yield path, str(value) if not isinstance(value, str) else value


def _json(text: str) -> object:
    """The JSON document in a tool's output; both tools print warnings in front of it."""
    for match in re.finditer(r"(?m)^[\[{]", text):
        try:
            document: object = json.JSONDecoder().raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            return None
        return document
    return None


def _mib(text: str) -> int | None:
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([A-Za-z]{1,3})\s*", text)
    if match is None or match[2].lower() not in _MIB:
        return None
    return round(float(match[1]) * _MIB[match[2].lower()])


def _watts(text: str) -> float | None:
    """A power cap of 0 W means that the device has none of its own."""
    return decimal(text) or None
