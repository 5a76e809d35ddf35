"""nvidia-smi --query-gpu and --query-compute-apps: comma-separated fields with canonical headers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from .answer import Answer
from .gpus import Box, Holder, NvidiaGpu

ABSENT = "[N/A]"
ALIASES = {
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",  # its name before driver 535
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
}
APP_ALIASES = {"used_memory": "used_gpu_memory", "name": "process_name"}

Field = tuple[str, Callable[[NvidiaGpu], object]]
AppField = tuple[str, Callable[[tuple[NvidiaGpu, Holder]], object]]


def _professional(value: Callable[[NvidiaGpu], object]) -> Callable[[NvidiaGpu], object]:
    """Consumer cards have no such thing."""
    return lambda gpu: ABSENT if gpu.card.geforce else value(gpu)


def timestamp() -> str:
    """Local time with milliseconds, as nvidia-smi writes it."""
    now = time.time()
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03d}"


# Canonical name: (unit, value).
FIELDS: Mapping[str, Field] = {
    "index": ("", lambda g: g.index),
    "name": ("", lambda g: g.card.name),
    "uuid": ("", lambda g: g.uuid),
    "serial": ("", _professional(lambda g: g.serial)),
    "pci.bus_id": ("", lambda g: g.bus),
    "timestamp": ("", lambda _: timestamp()),
    "memory.total": ("MiB", lambda g: g.total),
    "memory.used": ("MiB", lambda g: g.used),
    "memory.free": ("MiB", lambda g: g.free),
    "memory.reserved": ("MiB", lambda g: g.reserved),
    "utilization.gpu": ("%", lambda g: g.util),
    "utilization.memory": ("%", lambda g: g.util // 2),
    "temperature.gpu": ("", lambda g: g.temperature),
    "temperature.memory": ("", lambda g: "N/A" if g.card.geforce else g.temperature + 1),
    "power.draw": ("W", lambda g: f"{g.draw:.2f}"),
    "power.limit": ("W", lambda g: f"{g.card.power_w}.00"),
    "power.max_limit": ("W", lambda g: f"{g.card.power_w}.00"),
    "compute_cap": ("", lambda g: g.card.compute_capability),
    "mig.mode.current": ("", lambda g: ABSENT if g.mig == "N/A" else g.mig),
    "ecc.mode.current": ("", _professional(lambda _: "Enabled")),
    "pstate": ("", lambda g: g.state),
    "persistence_mode": ("", lambda g: "Enabled" if g.persistence else "Disabled"),
    "fan.speed": ("%", lambda g: ABSENT if g.card.fan == "N/A" else g.card.fan),
    "compute_mode": ("", lambda _: "Default"),
    "vbios_version": ("", lambda _: "96.00.A5.00.1A"),
    "display_active": ("", lambda _: "Disabled"),
    "clocks.current.sm": ("MHz", lambda g: g.sm_mhz),
    "clocks.current.memory": ("MHz", lambda g: g.card.memory_mhz),
    "clocks.max.sm": ("MHz", lambda g: g.card.sm_mhz),
    "clocks_event_reasons.active": ("", lambda g: f"0x{g.reasons:016X}"),
    "pcie.link.gen.current": ("", lambda g: 5 if float(g.card.compute_capability) >= 9 else 4),
    "pcie.link.gen.max": ("", lambda g: 5 if float(g.card.compute_capability) >= 9 else 4),
    "pcie.link.width.current": ("", lambda _: 16),
    "pcie.link.width.max": ("", lambda _: 16),
    "ecc.errors.uncorrected.volatile.total": ("", _professional(lambda g: g.ecc)),
    "inforom.img": ("", lambda _: "G520.0282.02.02"),
}

APP_FIELDS: Mapping[str, AppField] = {
    "pid": ("", lambda row: row[1].pid),
    "process_name": ("", lambda row: row[1].name),
    "gpu_name": ("", lambda row: row[0].card.name),
    "gpu_uuid": ("", lambda row: row[0].uuid),
    "gpu_bus_id": ("", lambda row: row[0].bus),
    "used_gpu_memory": ("MiB", lambda row: row[1].mib),
    "timestamp": ("", lambda _: timestamp()),
}


def render(
    names: Sequence[str], units: Sequence[str], rows: Sequence[Sequence[str]], modifiers: Sequence[str]
) -> str:
    """Return CSV as nvidia-smi writes it: `nounits` drops units, but [N/A] stays [N/A]."""
    bare = "nounits" in modifiers
    lines = []
    if "noheader" not in modifiers:
        heads = (
            name + (f" [{unit}]" if unit and not bare else "")
            for name, unit in zip(names, units, strict=True)
        )
        lines.append(", ".join(heads))
    for row in rows:
        cells = zip(row, units, strict=True)
        lines.append(", ".join(v if bare or not unit or v == ABSENT else f"{v} {unit}" for v, unit in cells))
    return "".join(f"{line}\n" for line in lines)


def _columns(asked: str, aliases: Mapping[str, str], known: Mapping[str, object]) -> tuple[list[str], str]:
    """Return the canonical names of the fields asked for, and the first one that does not exist."""
    names = []
    for field in asked.split(","):
        name = aliases.get(field.strip(), field.strip())
        if name not in known:
            return [], field.strip()
        names.append(name)
    return names, ""


def _modifiers(form: str) -> list[str]:
    return [part.strip() for part in form.split(",")]


def _refuse(form: str, wrong: str) -> Answer | None:
    if not set(_modifiers(form)) <= {"csv", "noheader", "nounits"}:
        return Answer("Format modifier is not recognized.\n", 2)
    return Answer(f'Field "{wrong}" is not a valid field to query.\n\n', 2) if wrong else None


def query_gpus(asked: str, form: str, gpus: Sequence[NvidiaGpu], box: Box) -> Answer:
    """Answer --query-gpu."""
    fields: dict[str, Field] = {
        **FIELDS,
        "driver_version": ("", lambda _: box.driver),
        "count": ("", lambda _: len(gpus)),
    }
    names, wrong = _columns(asked, ALIASES, fields)
    refused = _refuse(form, wrong)
    if refused is not None:
        return refused
    rows = [[str(fields[name][1](gpu)) for name in names] for gpu in gpus]
    return Answer(render(names, [fields[name][0] for name in names], rows, _modifiers(form)))


def query_apps(asked: str, form: str, gpus: Sequence[NvidiaGpu]) -> Answer:
    """Answer --query-compute-apps: one row per process and GPU."""
    names, wrong = _columns(asked, APP_ALIASES, APP_FIELDS)
    refused = _refuse(form, wrong)
    if refused is not None:
        return refused
    pairs = [(gpu, holder) for gpu in gpus for holder in gpu.holders]
    rows = [[str(APP_FIELDS[name][1](pair)) for name in names] for pair in pairs]
    return Answer(render(names, [APP_FIELDS[name][0] for name in names], rows, _modifiers(form)))
