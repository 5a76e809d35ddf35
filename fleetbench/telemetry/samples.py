"""The files of samples, read back: hostile, cut off or missing, they are what can be read of them.

Their formats stand in docs/telemetry.md; `sweep/on_server` writes them.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetbench.telemetry.exposition import LARGEST, Snapshot, snapshot, together

METRICS = "metrics-samples.jsonl.gz"
HOST = "host-samples.jsonl.gz"
CLIENT = "client-samples.jsonl.gz"
GPUS = "gpu-samples.csv.gz"
ABOUT = "poller.json"

# Of one file, unpacked: 1,000 times what an hour of one server comes to.
LARGEST_FILE = 256 * 1024 * 1024
LONGEST_LINE = 1024 * 1024
MOST_SERVERS = 64
_PART = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All servers together at one tick; `at_s` is the epoch by their host's clock."""

    tick: int
    at_s: float
    seen: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPair:
    """One moment by two clocks of a host: seconds since the epoch, and of CLOCK_MONOTONIC."""

    epoch_s: float
    mono_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Processor seconds spent so far, by group of units and by the whole host; None or absent: not known."""

    at_s: float
    cpu_s: Mapping[str, float]
    busy_s: float | None = None
    all_s: float | None = None
    power_w: float | None = None


def unpacked(data: bytes) -> str:
    """Return the text of a gzip file, as far as it can be read: a killed writer leaves no end."""
    packer, parts, size = zlib.decompressobj(31), [], 0
    for start in range(0, len(data), _PART):
        try:
            part = packer.decompress(data[start : start + _PART], LARGEST_FILE - size + 1)
        except zlib.error:
            break
        parts.append(part)
        size += len(part)
        if packer.eof or size > LARGEST_FILE:
            break
    return b"".join(parts).decode("utf-8", "replace")


def metric_samples(data: bytes) -> tuple[Sample, ...]:
    """Return the ticks at which every server answered, in their order; the others are gaps."""
    ticks: dict[int, dict[int, tuple[float, str]]] = defaultdict(dict)
    servers = 1
    for entry in _entries(data):
        tick, of = _whole(entry.get("tick")), _whole(entry.get("of"))
        if tick is None or of is None or of >= MOST_SERVERS:
            continue
        servers = max(servers, of + 1)
        at, text = finite(entry.get("at")), entry.get("text")
        if at is not None and isinstance(text, str):
            ticks[tick][of] = at, text
    found = [
        Sample(
            tick=tick,
            at_s=max(at for at, _ in answers.values()),
            seen=together(snapshot(text) for _, text in answers.values()),
        )
        for tick, answers in sorted(ticks.items())
        if len(answers) == servers
    ]
    return tuple(sorted(found, key=lambda sample: sample.at_s))


def host_samples(data: bytes) -> tuple[ClockPair | None, tuple[Usage, ...]]:
    """Return the clocks at the start, and what the processors had done at each tick."""
    clock: ClockPair | None = None
    found: list[Usage] = []
    for entry in _entries(data):
        pair = entry.get("clock")
        if clock is None and isinstance(pair, dict):
            epoch, mono = finite(pair.get("epoch")), finite(pair.get("mono"))
            clock = ClockPair(epoch_s=epoch, mono_s=mono) if epoch is not None and mono is not None else None
        at = finite(entry.get("at"))
        if at is None:
            continue
        groups = entry.get("cpu")
        times = {
            str(group)[:40]: seconds
            for group, value in (groups.items() if isinstance(groups, dict) else ())
            if (seconds := finite(value)) is not None
        }
        found.append(
            Usage(
                at_s=at,
                cpu_s=times,
                busy_s=finite(entry.get("busy")),
                all_s=finite(entry.get("all")),
                power_w=finite(entry.get("bmc_w")),
            )
        )
    return clock, tuple(sorted(found, key=lambda usage: usage.at_s))


def about(data: bytes) -> Mapping[str, object]:
    """Return what the controller wrote down about the samples; empty when that cannot be read."""
    return _entry(data.decode("utf-8", "replace")[:LONGEST_LINE])


def finite(value: object) -> float | None:
    """Return a finite number from 0 on; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def _whole(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000
    return value if whole and isinstance(value, int) else None


def _entries(data: bytes) -> Iterator[dict[str, object]]:
    for line in unpacked(data).splitlines():
        if len(line) <= LONGEST_LINE:
            yield _entry(line)


def _entry(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
