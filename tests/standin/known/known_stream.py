"""One request of the known server, from its last byte to its last token, by a schedule.

Its first token leaves `ttft_s` after its last byte has come (or after it has got one of `slots`), each
further token `token_s` after the one before, whatever else the server does: lateness does not add up.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from known_server import Connection, Server


@dataclass(frozen=True)
class Schedule:
    """What is known; see the module."""

    ttft_s: float = 0.05
    token_s: float = 0.01
    slots: int = 0
    fail_every: int = 0
    stall_after: int = 0
    stall_s: float = 0.0
    cache: int = 0
    counted: float = 1.0

    @classmethod
    def from_environment(cls) -> Schedule:
        """Read KNOWN_…; what is not there keeps its default."""
        given = {}
        for name, default in vars(cls()).items():
            text = os.environ.get(f"KNOWN_{name.upper()}")
            if text is not None:
                given[name] = type(default)(text)
        return cls(**given)

    def first_s(self, prompt: int, cached: int) -> float:
        """Return the seconds until the first token of a prompt of which so many tokens are cached."""
        return self.ttft_s * (1 - cached / prompt) if prompt else self.ttft_s

    def fails(self, number: int) -> bool:
        """True when the streamed request with this number, from 1 on, is answered with an error."""
        return self.fail_every > 0 and number % self.fail_every == 0


class Stream:
    """One request on its way; times are of the loop's clock."""

    def __init__(self, server: Server, connection: Connection, body: dict[str, object], got: float) -> None:
        self.server, self.connection, self.got = server, connection, got
        self.streamed = bool(body.get("stream"))
        self.wanted = int(str(body.get("max_tokens") or 16))
        self.words = str(body.get("prompt") or "").split()
        self.cached = server.cached(self.words)
        self.sent = 0
        self.began = self.first = self.last = self.due = self.late_s = self.longest_gap_s = 0.0

    def begin(self, now: float) -> None:
        """Have a slot: the first token is due."""
        self.began = now
        self.server.counters.running += 1
        self.server.counters.kv_used += len(self.words)
        self._at(now + self.server.schedule.first_s(len(self.words), self.cached))

    def _at(self, due: float) -> None:
        self.due = due
        asyncio.get_running_loop().call_at(due, self.emit)

    def emit(self) -> None:
        """Let the next token leave, unless the server stalls."""
        now = time.monotonic()
        if now < self.server.frozen_until:
            self._at(self.server.frozen_until)
            return
        counters = self.server.counters
        self.late_s = max(self.late_s, now - self.due)
        if self.sent == 0:
            self.first = now
            counters.prompt += len(self.words)
            counters.hits += self.cached
            counters.took("time_to_first_token_seconds", now - self.got)
        else:
            self.longest_gap_s = max(self.longest_gap_s, now - self.last)
            counters.took("inter_token_latency_seconds", now - self.last)
        self.last = now
        self.sent += 1
        counters.generated += 1
        counters.kv_used += 1
        over = self.sent >= self.wanted
        if self.streamed:
            self.connection.token(self, head=self.sent == 1, over=over)
        if over:
            self.end("length")
        elif not self.connection.open:
            self.end("abort")
        else:
            self._at(self.due + self.server.schedule.token_s)

    def end(self, reason: str) -> None:
        """Give the slot back, count, and write down what happened."""
        counters = self.server.counters
        counters.running -= 1
        counters.kv_used -= len(self.words) + self.sent
        counters.outcomes[reason] += 1
        counters.took("e2e_request_latency_seconds", self.last - self.got)
        counters.took("request_queue_time_seconds", self.began - self.got)
        counters.took("request_prefill_time_seconds", self.first - self.began)
        counters.took("request_decode_time_seconds", self.last - self.first)
        if not self.streamed:
            self.connection.whole(self)
        self.server.ended(self, reason)


def usage_of(stream: Stream) -> str:
    """Return a request's usage as vLLM states it."""
    prompt, sent = len(stream.words), stream.sent
    return json.dumps({"prompt_tokens": prompt, "completion_tokens": sent, "total_tokens": prompt + sent})
