"""Files of samples as a poller leaves them, made up second by second."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping

from fleetbench.telemetry import hardware, samples
from fleetbench.telemetry.summary import RESULT, summary

EPOCH, MONO = 1_800_000_000.0, 5_000.0


def packed(lines: Iterable[object]) -> bytes:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return gzip.compress("".join(f"{text}\n" for text in texts).encode())


def exposition(**values: float) -> str:
    """/metrics of one engine with these counters and gauges, by the names of vLLM 0.32."""
    names = {
        "prompt": "prompt_tokens_total",
        "generated": "generation_tokens_total",
        "running": "num_requests_running",
        "waiting": "num_requests_waiting",
        "kv": "kv_cache_usage_perc",
        "queries": "prefix_cache_queries_total",
        "hits": "prefix_cache_hits_total",
        "preempted": "num_preemptions_total",
        "done": 'request_success_total{finished_reason="length"}',
        "queue_sum": "request_queue_time_seconds_sum",
        "queue_count": "request_queue_time_seconds_count",
        "e2e_sum": "e2e_request_latency_seconds_sum",
        "e2e_count": "e2e_request_latency_seconds_count",
    }
    return "".join(f"vllm:{names[key]} {value}\n" for key, value in values.items())


def metrics(samples: Mapping[int, str | None], *, of: int = 0) -> list[dict[str, object]]:
    """Entries of a server by second from the start; None is a gap."""
    return [
        {
            "tick": tick,
            "of": of,
            "at": EPOCH + tick,
            **({"gap": "timed out"} if text is None else {"text": text}),
        }
        for tick, text in samples.items()
    ]


def usage(at: float, groups: Mapping[str, float], **more: float) -> dict[str, object]:
    return {"at": EPOCH + at, "cpu": dict(groups), **more}


def clock(*, ahead_s: float = 0.0) -> dict[str, object]:
    return {"clock": {"epoch": EPOCH + ahead_s, "mono": MONO, "boot": "b"}}


def result(start: float, duration: float) -> bytes:
    """A result JSON of a client whose first request left `start` seconds after the poller began."""
    times = [MONO + start + 0.5, MONO + start, MONO + start + 0.1]
    return json.dumps({"duration": duration, "start_times": times}).encode()


# A client that sends from second 10 to 20: 100 prompt tokens and 50 generated ones each second.
RAMP = {
    tick: exposition(
        prompt=1000 + 100 * min(max(tick - 10, 0), 10),
        generated=500 + 50 * min(max(tick - 10, 0), 10),
        running=4 if 10 < tick < 20 else 0,
        waiting=2 if 10 < tick < 15 else 0,
        kv=0.05 * tick if 10 < tick < 20 else 0,
        done=7 + min(max(tick - 10, 0), 10),
        e2e_sum=2.0 * min(max(tick - 10, 0), 10),
        e2e_count=min(max(tick - 10, 0), 10),
    )
    for tick in range(25)
}


def figures(
    ramp: dict[int, str | None] | None = None, *, start: float = 10.0, duration: float = 10.0, **more: bytes
) -> dict[str, float | str]:
    files = {
        samples.METRICS: packed(metrics(dict(RAMP) if ramp is None else ramp)),
        samples.HOST: packed([clock()]),
        RESULT: result(start, duration),
    }
    return dict(summary(files | more, duration))


GPU_HEAD = "at,index,utilization.gpu,memory.used,power.draw,clocks.current.sm,clocks.max.sm,temperature.gpu,"
GPU_HEAD += f"{hardware.MASK},{hardware.ECC}"


def gpu(at: float, index: int, util: int, mask: str = "0x0000000000000000", **more: object) -> str:
    cells = {"memory": 60_000 + index, "watts": 500.5, "mhz": 1980, "celsius": 60, "ecc": 0, **more}
    return (
        f"{EPOCH + at},{index}, {util}, {cells['memory']}, {cells['watts']}, {cells['mhz']}, 1980,"
        f" {cells['celsius']}, {mask}, {cells['ecc']}"
    )
