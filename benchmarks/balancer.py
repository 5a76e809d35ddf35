"""What nginx costs a stream: the same load direct, and through a sweep's balancer with one server behind it.

    python3 benchmarks/balancer.py [--nginx /usr/sbin/nginx] > benchmarks/balancer.md

The server is a stand-in that sends one event for each token and computes nothing; the client reads events and
computes nothing. What is left is what nginx adds. Direct and through nginx in turn, so that a machine that
gets busier meets both. Needs an nginx; root is not needed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from fleetbench.sweep.balancer import Balancer, config_text

EVENT = b'data: {"choices": [{"text": " word"}]}\n\n'
CHUNK = f"{len(EVENT):x}\r\n".encode() + EVENT + b"\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b'{"prompt": "' + b"word " * 200 + b'", "stream": true}'
REQUEST = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`streams` at once, `requests` in all, each with `tokens` events, `pace_s` apart (0: at full speed)."""

    streams: int
    requests: int
    tokens: int
    pace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the client saw: medians of the time to the first event and between two of a stream, in ms; events
    per second over all streams."""

    ttft_ms: float
    token_ms: float
    tokens_per_s: float


def main() -> int:
    """Measure in turn and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nginx", default=shutil.which("nginx") or "/usr/sbin/nginx")
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    if not os.access(options.nginx, os.X_OK):
        sys.exit(f"{options.nginx} is no program; install nginx, or name one with --nginx")
    loads = {
        "1 stream, full speed": Load(streams=1, requests=400, tokens=50, pace_s=0),
        "8 streams, 20 ms a token": Load(streams=8, requests=64, tokens=50, pace_s=0.02),
        "64 streams, 50 ms a token": Load(streams=64, requests=192, tokens=40, pace_s=0.05),
    }
    member, front = _free_port(), _free_port()
    with tempfile.TemporaryDirectory(prefix="fleetbench-balancer-") as place:
        server = multiprocessing.Process(target=_serve, args=(member,), daemon=True)
        server.start()
        balancer = _balance(options.nginx, front, member, Path(place))
        try:
            for port in (member, front):
                _wait(port)
            lines = ["| load | measure | direct | through nginx | ratio |", "| --- | --- | --- | --- | --- |"]
            for name, load in loads.items():
                pairs = [
                    (asyncio.run(_measure(member, load)), asyncio.run(_measure(front, load)))
                    for _ in range(options.pairs)
                ]
                lines.append(_row(name, "time to first token, ms", pairs, lambda seen: seen.ttft_ms))
                lines.append(_row(name, "time per token, ms", pairs, lambda seen: seen.token_ms))
                lines.append(_row(name, "tokens/s", pairs, lambda seen: seen.tokens_per_s))
        finally:
            balancer.terminate()
            balancer.wait()
            server.terminate()
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _row(name: str, what: str, pairs: list[tuple[Seen, Seen]], value: Callable[[Seen], float]) -> str:
    direct = statistics.median(value(one) for one, _ in pairs)
    through = statistics.median(value(other) for _, other in pairs)
    ratio = statistics.median(value(other) / value(one) for one, other in pairs)
    return f"| {name} | {what} | {_shown(direct)} | {_shown(through)} | {ratio:.2f} |"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _balance(program: str, port: int, member: int, place: Path) -> subprocess.Popen[bytes]:
    """Start nginx with the very configuration of a sweep, in a directory of ours."""
    balancer = Balancer(
        port=port,
        bind="127.0.0.1",
        members=(member,),
        user="vllm",
        streams=256,
        cpus=os.cpu_count() or 1,
    )
    config = place / "balancer.conf"
    config.write_text(config_text(balancer).replace(balancer.runtime_directory, str(place)), "utf-8")
    return subprocess.Popen([program, "-p", str(place), "-c", str(config)])


async def _measure(port: int, load: Load) -> Seen:
    left = iter(range(load.requests))
    first: list[float] = []
    each: list[float] = []

    async def stream() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            asked = time.perf_counter()
            writer.write(_request(load))
            await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(EVENT)
            came = time.perf_counter()
            for _ in range(1, load.tokens):
                await reader.readuntil(EVENT)
            first.append(came - asked)
            each.append((time.perf_counter() - came) / (load.tokens - 1))
            await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(stream() for _ in range(load.streams)))
    seconds = time.perf_counter() - began
    return Seen(
        ttft_ms=statistics.median(first) * 1000,
        token_ms=statistics.median(each) * 1000,
        tokens_per_s=load.requests * load.tokens / seconds,
    )


def _request(load: Load) -> bytes:
    headers = f"X-Tokens: {load.tokens}\r\nX-Pace: {load.pace_s}\r\n".encode()
    return REQUEST.replace(b"Host: x\r\n", b"Host: x\r\n" + headers)


def _serve(port: int) -> None:
    """The stand-in: one event a token, at the pace that the request names."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().decode().splitlines()
                named = dict(line.split(": ", 1) for line in lines if ": " in line)
                await reader.readexactly(int(named["content-length"]))
                writer.write(HEAD)
                pace_s = float(named["x-pace"])
                for _ in range(int(named["x-tokens"])):
                    if pace_s:
                        await asyncio.sleep(pace_s)
                    writer.write(CHUNK)
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=1024)
        await server.serve_forever()

    asyncio.run(run())


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait(port: int) -> None:
    give_up = time.monotonic() + 10
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if time.monotonic() > give_up:
            raise TimeoutError(f"nobody listens on port {port}")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
