"""The files of one measurement to its telemetry: figures by name, as the store keeps them.

Pure, so that `fleetbench verify` comes to the same figures from the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from fleetbench.telemetry import hardware, samples, servers
from fleetbench.telemetry.exposition import LARGEST, Snapshot, snapshot
from fleetbench.telemetry.window import Window, window

RESULT, BEFORE, AFTER = "result.json", "metrics-before.txt", "metrics-after.txt"
# What a summary is made from, as it lies in the measurement's directory.
FILES = (RESULT, BEFORE, AFTER, *(samples.METRICS, samples.HOST, samples.CLIENT, samples.GPUS, samples.ABOUT))
NOT_READ = "# not read: "

Figures = Mapping[str, float | str]


def summary(content: Mapping[str, bytes], duration_s: float | None) -> Figures:
    """Given the files of a measurement by name, return what was sampled while it ran.

    Args:
        content: those of `FILES` that there are; any of them may be missing, cut off or anything else.
        duration_s: seconds that the client reports, for the window; None when it reports nothing.

    Returns figures with the unit in the name, see docs/telemetry.md. What is not known is not there.
    """
    about = samples.about(content.get(samples.ABOUT, b""))
    offset_ms = _number(about.get("clock_offset_ms"))
    every_s = samples.finite(about.get("every_s")) or 1.0
    taken = samples.metric_samples(content.get(samples.METRICS, b""))
    clock, usages = samples.host_samples(content.get(samples.HOST, b""))
    client_clock, client_usages = samples.host_samples(content.get(samples.CLIENT, b""))
    offset_s = (offset_ms or 0.0) / 1000
    seen = window(content.get(RESULT, b""), duration_s, client_clock or clock, offset_s, taken)
    found: dict[str, float | str] = {}
    # By the counters around the measurement: exact, whatever was missed between.
    around = _around(content)
    found.update(servers.totals(_grown(*around)))
    if offset_ms is not None:
        found["clock_offset_ms"] = offset_ms
    if about.get("problem"):
        found["problem"] = str(about["problem"])[:200]
    if seen is None or seen.seconds <= 0:
        return _rounded(found)
    found |= dict(_of_servers(taken, seen, around, every_s))
    found.update(hardware.gpus(hardware.gpu_rows(content.get(samples.GPUS, b"")), seen))
    xid = samples.finite(about.get("xid"))
    if xid is not None:
        found["gpu_xid"] = int(xid)
    beside = Window(start_s=seen.start_s - offset_s, end_s=seen.end_s - offset_s, source=seen.source)
    found.update(
        chain(
            hardware.cores(usages, "server", seen),
            hardware.cores(client_usages, "client", beside)
            if client_usages
            else hardware.cores(usages, "client", seen),
            hardware.machine(usages, seen),
        )
    )
    for name, value in hardware.cores(usages, "poller", seen):
        if name.endswith("_mean"):
            found["poller_cpu_share"] = value
    return _rounded(found)


def _of_servers(
    taken: tuple[samples.Sample, ...],
    seen: Window,
    around: tuple[Snapshot | None, Snapshot | None],
    every_s: float,
) -> Iterator[tuple[str, float | str]]:
    inside = servers.within(taken, seen)
    yield "window_s", seen.seconds
    yield "window_from", seen.source
    yield "samples", len(inside)
    yield "missed_samples", max(0, int(seen.seconds / every_s) - len(inside))
    before, after = servers.edges(taken, seen)
    first, last = before or around[0], after or around[1]
    grown = _grown(first, last)
    yield from servers.rates(grown, seen.seconds)
    if None in around:
        yield from servers.totals(grown)
    yield from servers.gauges(inside)
    stall = servers.longest_stall_s(inside)
    if stall is not None:
        yield "longest_stall_s", stall


def _around(content: Mapping[str, bytes]) -> tuple[Snapshot | None, Snapshot | None]:
    """Return the readings before and after, if both are of one server, which their first line names."""
    heads = {content.get(name, b"").partition(b"\n")[0] for name in (BEFORE, AFTER)}
    return (_reading(content, BEFORE), _reading(content, AFTER)) if len(heads) == 1 else (None, None)


def _grown(before: Snapshot | None, after: Snapshot | None) -> Mapping[str, float]:
    return servers.counted(before, after) if before is not None and after is not None else {}


def _reading(content: Mapping[str, bytes], name: str) -> Snapshot | None:
    """Return the counters of a kept reading; None where it says that there was none."""
    text = content.get(name, b"").decode("utf-8", "replace")
    if not text or any(line.startswith(NOT_READ) for line in text.split("\n", 4)[:4]):
        return None
    return snapshot(text)


def _number(value: object) -> float | None:
    """Return a finite number of either sign."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    return float(value) if known and isinstance(value, int | float) else None


def _rounded(found: Mapping[str, float | str]) -> Figures:
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in found.items()}
