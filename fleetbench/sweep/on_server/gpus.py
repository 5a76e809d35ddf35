"""What the GPUs say of themselves: one nvidia-smi that stays, or the files of AMD's driver."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from .clock import Clock, Log

AGAIN_S = 5.0
_UNKNOWN_FIELD = "is not a valid field to query"


def watch_nvidia(
    command: list[str], fields: list[str], clock: Clock, log: Log, stop: threading.Event
) -> None:
    """Keep one nvidia-smi that prints a line for each GPU each second, without fields it refuses."""
    fields = list(fields)
    log.add("at," + ",".join(fields))
    while fields and not stop.is_set():
        refused = _follow([*command, "--query-gpu=" + ",".join(fields)], len(fields), clock, log, stop)
        if refused in fields:
            fields.remove(refused)
            log.add("at," + ",".join(fields))
        else:
            stop.wait(AGAIN_S)


def _follow(argv: list[str], count: int, clock: Clock, log: Log, stop: threading.Event) -> str:
    """Write down what one nvidia-smi says until it ends; return the field that it refuses."""
    refused = ""
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as exc:
        log.add(f"# {exc}"[:200])
        return ""
    with child:
        said = child.stdout.readline(4096) if child.stdout else b""
        while said and child.stdout and not stop.is_set():
            line = said.decode("utf-8", "replace").strip()
            if _UNKNOWN_FIELD in line and line.count('"') > 1:
                refused = line.split('"')[1]
            elif line:
                log.add(f"{clock.now():.3f},{line}" if line.count(",") == count - 1 else f"# {line}"[:200])
            said = child.stdout.readline(4096)
        child.kill()
    return refused


# What amdgpu says of a GPU: field, files below its PCI device, factor
# (https://docs.kernel.org/gpu/amdgpu/thermal.html).
AMD_FIELDS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("utilization.gpu", ("gpu_busy_percent",), 1),
    ("memory.used", ("mem_info_vram_used",), 1 / 1048576),
    ("power.draw", ("hwmon/*/power1_average", "hwmon/*/power1_input"), 1e-6),
    ("clocks.current.sm", ("hwmon/*/freq1_input",), 1e-6),
    ("temperature.gpu", ("hwmon/*/temp2_input", "hwmon/*/temp1_input"), 1e-3),
)
AMD_HEAD = ",".join(["at", "index", *(field for field, _, _ in AMD_FIELDS)])


def first_number(base: Path, patterns: tuple[str, ...]) -> float | None:
    """Return the number in the first file that there is."""
    for pattern in patterns:
        for path in base.glob(pattern):
            with contextlib.suppress(OSError, ValueError):
                return float(path.read_text()[:40])
    return None


def amd_lines(gpus: dict[str, str], now: float) -> Iterator[str]:
    """Yield a line for each AMD GPU; amd-smi itself would cost a third of a core."""
    for index, bus in gpus.items():
        base = Path("/sys/bus/pci/devices", bus.lower())
        numbers = (first_number(base, patterns) for _, patterns, _ in AMD_FIELDS)
        cells = [
            "[N/A]" if number is None else f"{number * factor:.6g}"
            for number, (_, _, factor) in zip(numbers, AMD_FIELDS)  # noqa: B905  Python 3.9 has no strict
        ]
        yield ",".join([f"{now:.3f}", index, *cells])
