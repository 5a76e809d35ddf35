"""What the samples of GPUs and processors come to over a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from fleetbench.telemetry.exposition import number
from fleetbench.telemetry.samples import LONGEST_LINE, Usage, unpacked
from fleetbench.telemetry.window import Window

# Asked of nvidia-smi; it says which of them it does not know. The mask was called clocks_throttle_reasons
# before driver 535, and both names are known since.
MASK = "clocks_throttle_reasons.active"
ECC = "ecc.errors.uncorrected.volatile.total"
FIELDS = (
    *("index", "utilization.gpu", "memory.used", "power.draw", "clocks.current.sm", "clocks.max.sm"),
    *("temperature.gpu", MASK, ECC),
)
# Bits of the mask (nvml.h, nvmlClocksEventReasons). A power cap is how a GPU under full load works: it is
# counted apart. Idle, application clocks, sync boost and display are no throttling.
_THROTTLED = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_POWER_CAP = 0x04
_MOST_GPUS = 64

Row = Mapping[str, float]


def gpu_rows(data: bytes) -> tuple[Row, ...]:
    """Return the samples of all GPUs, numbers by nvidia-smi's field; what is no number is not there."""
    rows: list[Row] = []
    head: list[str] = []
    for line in unpacked(data).splitlines():
        cells = [cell.strip() for cell in line[:LONGEST_LINE].split(",")]
        if cells[0] == "at":
            head = cells
        elif len(cells) == len(head):
            row = {
                name: value
                for name, cell in zip(head, cells, strict=True)
                if (value := _cell(cell)) is not None
            }
            if "at" in row and row.get("index", _MOST_GPUS) < _MOST_GPUS:
                rows.append(row)
    return tuple(rows)


def gpus(rows: Sequence[Row], window: Window) -> Iterator[tuple[str, float | str]]:
    """Yield what a GPU set did: watts of all together, the rest of each; clocks while it computed."""
    inside = [row for row in rows if window.start_s <= row["at"] <= window.end_s]
    if not inside:
        return
    yield from _statistic("gpu_util_mean", _mean(_column(inside, "utilization.gpu")))
    yield from _statistic("gpu_memory_mib_max", max(_column(inside, "memory.used"), default=None))
    by_gpu: dict[float, list[float]] = defaultdict(list)
    for row in inside:
        if "power.draw" in row:
            by_gpu[row["index"]].append(row["power.draw"])
    if by_gpu:
        watts = sum(sum(values) / len(values) for values in by_gpu.values())
        yield "gpu_power_w_mean", watts
        yield "gpu_energy_j", watts * window.seconds
    clocks = _column([row for row in inside if row.get("utilization.gpu", 0) > 0], "clocks.current.sm")
    yield from _statistic("gpu_sm_mhz_mean", _mean(clocks))
    yield from _statistic("gpu_sm_mhz_min", min(clocks, default=None))
    yield from _statistic("gpu_sm_mhz_max_possible", min(_column(inside, "clocks.max.sm"), default=None))
    yield from _statistic("gpu_temperature_c_max", max(_column(inside, "temperature.gpu"), default=None))
    masks = [int(mask) for mask in _column(inside, MASK)]
    if masks:
        every = sum(_THROTTLED)
        yield "gpu_throttled_share", sum(bool(mask & every) for mask in masks) / len(masks)
        yield "gpu_power_capped_share", sum(bool(mask & _POWER_CAP) for mask in masks) / len(masks)
        seen = [name for bit, name in _THROTTLED.items() if any(mask & bit for mask in masks)]
        if seen:
            yield "gpu_throttle_reasons", ", ".join(seen)
    errors = [
        _column([row for row in rows if row["index"] == gpu], ECC) for gpu in {row["index"] for row in rows}
    ]
    if any(errors):
        yield "gpu_ecc", int(sum(max(0.0, each[-1] - each[0]) for each in errors if each))


def cores(usages: Sequence[Usage], group: str, window: Window) -> Iterator[tuple[str, float]]:
    """Yield the mean and the highest number of processor cores that a group of units kept busy."""
    known = [
        (usage.at_s, usage.cpu_s[group])
        for usage in usages
        if group in usage.cpu_s and window.start_s <= usage.at_s <= window.end_s
    ]
    pairs = [(end - start, after - before) for (start, before), (end, after) in pairwise(known)]
    # A unit that ends takes its cgroup along: what was spent seems to shrink.
    busy = [(seconds, spent) for seconds, spent in pairs if seconds > 0 and spent >= 0]
    if busy:
        seconds = sum(seconds for seconds, _ in busy)
        yield f"{group}_cpu_cores_mean", sum(spent for _, spent in busy) / seconds
        yield f"{group}_cpu_cores_max", max(spent / seconds for seconds, spent in busy)


def machine(usages: Sequence[Usage], window: Window) -> Iterator[tuple[str, float]]:
    """Yield the share of all processors of the host that was busy, and the power of the whole machine."""
    inside = [usage for usage in usages if window.start_s <= usage.at_s <= window.end_s]
    known = [(usage.busy_s, usage.all_s) for usage in inside if usage.busy_s is not None and usage.all_s]
    if len(known) > 1:
        busy, passed = (
            last - first
            for first, last in zip(known[0], known[-1], strict=True)
            if first is not None and last is not None
        )
        if passed > 0 and busy >= 0:
            yield "host_cpu_share_mean", min(1.0, busy / passed)
    yield from _statistic(
        "bmc_power_w_mean", _mean([usage.power_w for usage in inside if usage.power_w is not None])
    )


def _cell(text: str) -> float | None:
    if text.startswith("0x"):
        try:
            return float(int(text[:20], 16))
        except ValueError:
            return None
    return number(text[:40])


def _column(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if name in row]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _statistic(name: str, value: float | None) -> Iterator[tuple[str, float]]:
    if value is not None:
        yield name, value
