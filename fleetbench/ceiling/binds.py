"""What holds a measurement back: the hardware, room for keys and values, client, API server or scheduler.

Values in, one word and one sentence out. Where nothing was sampled that could tell, it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleetbench.ceiling.limits import BANDWIDTH, COMPUTE, LINK, Ceiling
from fleetbench.results.rows import Json

# Nothing that is sampled has larger numbers; it also keeps out what is not finite.
_LARGEST = 1e18


class Binding(StrEnum):
    """What more of would make it faster."""

    BANDWIDTH = BANDWIDTH
    COMPUTE = COMPUTE
    LINK = LINK
    KV_ROOM = "kv-room"
    CLIENT = "client"
    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where a conclusion is drawn.

    Attributes:
        near: share of the serial estimate from which on the hardware binds, whatever else is seen; kernels of
            large batches reach 60 to 80 % of the data sheet.
        plain: the share from which on it does when nothing speaks for another cause.
        kv_full: use of the KV cache that counts as full.
        client_cores: a client of one process that uses so much of a core sends as fast as it can.
        under_way: below this share of the limit the server is not given enough to do.
        busy: a GPU that runs kernels for a smaller share of the time waits for its host; a full one proves
            nothing. An H200 with a 7B model and 256 streams: 66 % busy at 68 % of its power, and 1.8 cores of
            API server and engine behind it.
        power: below this share of its limit it waits, where nobody says how busy it was.
        outside: share of a request's time in the server, outside of its engine, from which on the API server
            binds: one process that takes in, hands out and makes text of tokens. The same H200: 1 % with one
            stream, 13 % with 128, 32 to 46 % with 256, 75 % with 1,000.
    """

    near: float = 0.7
    plain: float = 0.4
    kv_full: float = 0.95
    client_cores: float = 0.9
    under_way: float = 0.6
    busy: float = 0.8
    power: float = 0.6
    outside: float = 0.3


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests may be under way: what is asked for, what keys and values leave room for, and what
    the scheduler takes (None: unknown)."""

    asked: float
    room: float | None = None
    sequences: float | None = None

    @property
    def in_flight(self) -> float:
        """The least of them; at least one."""
        known = [number for number in (self.asked, self.room, self.sequences) if number is not None]
        return max(1.0, min(known))


def binds(
    found: Ceiling,
    share: float,
    limits: Limits,
    telemetry: Mapping[str, Json],
    *,
    power_w: float = 0.0,
    one_process: bool = True,
    rate: float | None = None,
    bounds: Bounds = BOUNDS,
) -> tuple[Binding, str]:
    """Return what binds, and why in one sentence.

    Args:
        found: the ceiling of the load; share: what was measured of its serial estimate.
        limits: how many requests may be under way.
        telemetry: as `MeasurementRow.telemetry`; empty where nothing was sampled.
        power_w: limit of all its GPUs together, 0: unknown.
        one_process: whether the client is one, as vLLM's Python client is.
        rate: requests a second that are sent, None: as many as the server answers.
    """
    seen = _Seen(telemetry)
    if rate is not None and (seen["waiting_mean"] or 0) < 1:  # whatever could be faster has nothing to do
        return Binding.CLIENT, f"no more than {rate:g} requests a second are sent"
    if share >= bounds.near:
        return _hardware(found, share)
    other = next(_others(limits, seen, power_w, one_process, bounds, share), None)
    if other is not None:
        return other
    if share >= bounds.plain:
        return _hardware(found, share)
    sampled = "nothing that was sampled says why" if seen.any else "nothing was sampled that says why"
    return Binding.UNKNOWN, f"{share:.0%} of the serial estimate, and {sampled}"


def expected(found: Ceiling, limits: Limits) -> tuple[Binding, str]:
    """Return what will bind where nothing has been measured."""
    if limits.room is not None and limits.room < limits.asked:
        text = f"keys and values leave room for about {limits.room:,.0f} of {limits.asked:,.0f} requests"
        return Binding.KV_ROOM, text
    if limits.sequences is not None and limits.sequences < limits.asked:
        text = f"the server takes {limits.sequences:,.0f} of {limits.asked:,.0f} requests at a time"
        return Binding.SCHEDULER, text
    return Binding(found.cost.binds), _parts(found)


class _Seen:
    """Numbers that were sampled; None: not, or no number."""

    def __init__(self, telemetry: Mapping[str, Json]) -> None:
        self._telemetry = telemetry
        self.any = bool(telemetry)

    def __getitem__(self, name: str) -> float | None:
        value = self._telemetry.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
            return None
        return float(value)


def _others(
    limits: Limits,
    seen: _Seen,
    power_w: float,
    one_process: bool,
    bounds: Bounds,
    share: float,
) -> Iterator[tuple[Binding, str]]:
    usage, waiting, running = seen["kv_usage_max"], seen["waiting_mean"], seen["running_mean"]
    queued = waiting is not None and waiting >= 1
    if usage is not None and usage >= bounds.kv_full and (queued or (seen["preemptions"] or 0) > 0):
        text = f"the KV cache was {usage:.0%} full while {waiting or 0:,.0f} requests waited on average"
        yield Binding.KV_ROOM, text
    if usage is None and limits.room is not None and limits.room < limits.asked * 0.98:
        text = f"keys and values leave room for about {limits.room:,.0f} of {limits.asked:,.0f} requests"
        yield Binding.KV_ROOM, text
    cores = seen["client_cpu_cores_mean"]
    if one_process and cores is not None and cores >= bounds.client_cores:
        yield Binding.CLIENT, f"the client, one process, used {cores:.2f} cores"
    if share < bounds.plain:
        yield from _outside(seen, bounds)
    enough = limits.in_flight * bounds.under_way
    if running is not None and waiting is not None and not queued and running < enough:
        text = f"{running:,.0f} of {limits.in_flight:,.0f} requests were under way and none waited"
        yield Binding.CLIENT, text
    if limits.sequences is not None and limits.sequences < limits.asked and (queued or not seen.any):
        text = f"the server takes {limits.sequences:,.0f} of {limits.asked:,.0f} requests at a time"
        yield Binding.SCHEDULER, text
    busy, power = seen["gpu_util_mean"], seen["gpu_power_w_mean"]
    part = power / power_w if power is not None and power_w > 0 else None
    by_power = part is not None and part < bounds.power
    waits = busy / 100 < bounds.busy if busy is not None else by_power
    if share < bounds.plain and waits:
        told = [f"{busy / 100:.0%} busy"] if busy is not None else []
        told += [f"{part:.0%} of their power"] if part else []
        text = f"the GPUs wait for their host: {', '.join(told)}, {share:.0%} of the serial estimate"
        yield Binding.SCHEDULER, text


def _outside(seen: _Seen, bounds: Bounds) -> Iterator[tuple[Binding, str]]:
    """Yield the API server where a request spends much of its time in the server outside of the engine."""
    whole = seen["e2e_s_mean"]
    parts = [seen[name] for name in ("queue_s_mean", "prefill_s_mean", "decode_s_mean")]
    inside = sum(part for part in parts if part is not None)
    if not whole or None in parts or whole - inside < bounds.outside * whole:
        return
    yield (
        Binding.API_SERVER,
        f"of {whole:.1f} s in the server a request was in the engine for {inside:.1f} s:"
        " the API server, which takes in and hands out, has the rest",
    )


def _hardware(found: Ceiling, share: float) -> tuple[Binding, str]:
    return Binding(found.cost.binds), f"{share:.0%} of the serial estimate; {_parts(found)}"


def _parts(found: Ceiling) -> str:
    """What one request costs, the most first."""
    words = {BANDWIDTH: "reading", COMPUTE: "arithmetic", LINK: "sending between GPUs"}
    parts = sorted(found.cost.parts_s.items(), key=lambda part: -part[1])
    shown = [f"{words[name]} {seconds * 1000:,.1f} ms" for name, seconds in parts if seconds > 0]
    return f"a request takes its engine {', '.join(shown)}"
