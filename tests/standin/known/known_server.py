"""An OpenAI-compatible server that streams by a schedule: what a client should see is known beforehand.

What really happened is a line of JSON for each request in the file KNOWN_RECORD, by CLOCK_MONOTONIC.

    KNOWN_TTFT_S, KNOWN_TOKEN_S    the schedule (0.05, 0.01)
    KNOWN_SLOTS                    requests at a time, others wait (0: no limit)
    KNOWN_FAIL_EVERY               each such streamed request is answered with status 500 (0: none)
    KNOWN_STALL_AFTER, …_STALL_S   after so many requests nothing leaves for so long, once
    KNOWN_CACHE                    1: prompts that begin alike skip that share of the time to the first token
    KNOWN_COUNTED                  share of the generated tokens that /metrics counts (1)
    KNOWN_MODEL, KNOWN_TP, KNOWN_EAGER   what the log says runs, whatever was asked for
    KNOWN_VERSION_FILE             a file with the version to report, once it exists
    KNOWN_LOAD_S                   seconds until it answers (0.2)
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from known_counters import Counters
from known_stream import Schedule, Stream, usage_of

VERSION = os.environ.get("STANDIN_VERSION", "0.32.0")
KV_TOKENS = 100_000
BLOCK = 16
EVENT = 'data: {"id":"cmpl-0","object":"text_completion","model":"known","choices":[%s]%s}\n\n'
CHOICE = '{"index":0,"text":" w7","logprobs":null,"finish_reason":%s}'
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class Connection(asyncio.Protocol):
    """HTTP/1.1 with bodies of a declared length, as the bench clients send them."""

    def __init__(self, server: Server) -> None:
        self.server, self.buffer, self.open = server, b"", True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came; without this a token may wait for the acknowledgement of the one before."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client went: its streams end with their next token."""
        self.open = False

    def data_received(self, data: bytes) -> None:
        """Collect a request, and answer it when it is whole."""
        self.buffer += data
        head, blank, rest = self.buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        named = dict(line.lower().split(":", 1) for line in lines if ":" in line)
        length = int(named.get("content-length", "0"))
        if len(rest) >= length:
            self.buffer = rest[length:]
            method, path, _ = first.split(" ", 2)
            self.server.answer(self, method, path.partition("?")[0], rest[:length])

    def reply(self, status: int, text: str, kind: str = "application/json") -> None:
        """Send a whole answer."""
        body = text.encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def token(self, stream: Stream, *, head: bool, over: bool) -> None:
        """Send a token, with the head before the first and the usage after the last."""
        events = [EVENT % (CHOICE % ('"length"' if over else "null"), "")]
        if over:
            events += [EVENT % ("", f',"usage":{usage_of(stream)}'), "data: [DONE]\n\n"]
        sent = b"".join(f"{len(event):x}\r\n{event}\r\n".encode() for event in events)
        self.transport.write((HEAD if head else b"") + sent + (b"0\r\n\r\n" if over else b""))

    def whole(self, stream: Stream) -> None:
        """Send all tokens at once, to a client that did not ask for a stream."""
        text = json.dumps(" word" * stream.sent)
        choice = f'{{"index":0,"text":{text},"finish_reason":"length"}}'
        self.reply(200, f'{{"object":"text_completion","choices":[{choice}],"usage":{usage_of(stream)}}}')


class Server:
    """The streams of one server, and what it has counted."""

    def __init__(self, name: str, length: int, schedule: Schedule, record: str = "") -> None:
        self.name, self.length, self.schedule = name, length, schedule
        self.counters = Counters(KV_TOKENS, schedule.counted)
        self.waiting: collections.deque[Stream] = collections.deque()
        self.blocks: set[int] = set()
        self.asked = self.done = 0
        self.frozen_until = 0.0
        self.record = Path(record).open("a", encoding="utf-8") if record else None  # noqa: SIM115

    def answer(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        """Answer one request: what streams is begun here and goes on by itself."""
        if method == "POST" and path == "/v1/completions":
            self._complete(connection, json.loads(body))
        elif path == "/health":
            connection.reply(200, "{}")
        elif path == "/metrics":
            connection.reply(200, self.counters.text(self.name), "text/plain; version=0.0.4")
        elif path == "/version":
            connection.reply(200, json.dumps({"version": version()}))
        elif path == "/v1/models":
            model = {"id": self.name, "object": "model", "max_model_len": self.length}
            connection.reply(200, json.dumps({"object": "list", "data": [model]}))
        else:
            connection.reply(404, '{"detail":"Not Found"}')

    def _complete(self, connection: Connection, body: dict[str, object]) -> None:
        if body.get("model") != self.name:
            connection.reply(404, '{"error":{"message":"the model does not exist","code":404}}')
            return
        stream = Stream(self, connection, body, time.monotonic())
        self.asked += stream.streamed
        if stream.streamed and self.schedule.fails(self.asked):
            connection.reply(500, '{"error":{"message":"failed as it was told to","code":500}}')
            self._write({"got": stream.got, "status": 500, "streamed": True})
        elif self.schedule.slots and self.counters.running >= self.schedule.slots:
            self.waiting.append(stream)
            self.counters.waiting = len(self.waiting)
        else:
            stream.begin(stream.got)

    def cached(self, words: list[str]) -> int:
        """Return how many tokens a prompt shares with earlier ones, in whole blocks, and remember it."""
        if not self.schedule.cache:
            return 0
        keys = [hash(tuple(words[:end])) for end in range(BLOCK, len(words), BLOCK)]
        known = next((n for n, key in enumerate(keys) if key not in self.blocks), len(keys))
        self.blocks.update(keys)
        return known * BLOCK

    def ended(self, stream: Stream, reason: str) -> None:
        """Let the next one begin, and stall when it is time."""
        self.done += stream.streamed
        self._write(
            {
                "got": stream.got,
                "began": stream.began,
                "first": stream.first,
                "last": stream.last,
                "tokens": stream.sent,
                "prompt": len(stream.words),
                "cached": stream.cached,
                "late_s": round(stream.late_s, 6),
                "longest_gap_s": round(stream.longest_gap_s, 6),
                "status": 200 if reason == "length" else 499,
                "streamed": stream.streamed,
            }
        )
        now = time.monotonic()
        if stream.streamed and self.schedule.stall_s and self.done == self.schedule.stall_after:
            self.frozen_until = now + self.schedule.stall_s
        if self.waiting:
            self.waiting.popleft().begin(now)
            self.counters.waiting = len(self.waiting)

    def _write(self, line: dict[str, object]) -> None:
        if self.record is not None:
            self.record.write(json.dumps(line) + "\n")
            self.record.flush()


def version() -> str:
    """Return the version that is reported now."""
    path = Path(os.environ.get("KNOWN_VERSION_FILE", "/nonexistent"))
    return path.read_text("utf-8").strip() if path.exists() else VERSION


def listener(host: str, port: int) -> socket.socket:
    """Return a socket as vLLM up to 0.24 opened it: a second server may take the same port (#39762)."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((host, port))
    made.listen(4096)
    return made


def say(options: argparse.Namespace, words: list[str]) -> None:
    """Print the lines in which a server of this version says what it runs with."""
    told = os.environ.get
    eager = told("KNOWN_EAGER", "1" if "--enforce-eager" in words else "") == "1"
    stamp = "INFO 01-01 00:00:00"
    for line in (
        f"INFO known vLLM {VERSION}: {' '.join(words)}",
        f"{stamp} [core.py:1] Initializing a V1 LLM engine (v{version()}) with config:"
        f" model='{told('KNOWN_MODEL', options.model)}', dtype=torch.bfloat16,"
        f" max_seq_len={options.max_model_len}, download_dir=None, load_format=auto,"
        f" tensor_parallel_size={told('KNOWN_TP', options.tensor_parallel_size)}, pipeline_parallel_size=1,"
        f" data_parallel_size=1, quantization=None, enforce_eager={eager}, kv_cache_dtype=auto,"
        " enable_prefix_caching=True",
        f"{stamp} [cuda.py:1] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].",
        f"{stamp} [runner.py:1] Model loading took 14.25 GiB memory and 0.5 seconds",
        f"{stamp} [kv_cache_utils.py:1] GPU KV cache size: {KV_TOKENS:,} tokens, Maximum concurrency for"
        f" {options.max_model_len:,} tokens per request: {KV_TOKENS / options.max_model_len:.2f}x",
    ):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve(server: Server, made: socket.socket) -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    await loop.create_server(lambda: Connection(server), sock=made)
    sys.stdout.write("INFO Application startup complete.\n")
    sys.stdout.flush()
    await over.wait()


def main(words: list[str]) -> None:
    """Be `vllm serve`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    options, _ = parser.parse_known_args(words)
    made = listener(options.host, options.port)
    made.close()  # a port that is taken for itself alone is refused before the model is loaded
    time.sleep(float(os.environ.get("KNOWN_LOAD_S", "0.2")))
    say(options, words)
    name = options.served_model_name or options.model
    record = os.environ.get("KNOWN_RECORD", "")
    server = Server(name, options.max_model_len, Schedule.from_environment(), record)
    asyncio.run(serve(server, listener(options.host, options.port)))
