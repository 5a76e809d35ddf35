"""An honest bench client for lab hosts without vLLM: it streams, and reports what it saw, as vLLM's JSON.

It is light enough for a few dozen streams. What it does wrong on purpose is in the file KNOWN_CLIENT, a JSON
object (none: nothing): `input_share` sends that share of the prompt, `seed` takes this one instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import sys
import time
from pathlib import Path

WRONG = Path(os.environ.get("KNOWN_CLIENT", "/opt/vllm/cache/known-client.json"))
PERCENTILES = (50, 90, 95, 99)


class Sample:
    """One request as its client saw it; seconds."""

    def __init__(self, start: float) -> None:
        self.start, self.last = start, start
        self.ttft = 0.0
        self.itls: list[float] = []
        self.prompt = self.output = 0
        self.error = ""

    @property
    def latency(self) -> float:
        """From the request to its last token."""
        return self.last - self.start


async def stream(host: str, port: int, body: bytes) -> Sample:
    """Send one request on a connection of its own and read its events."""
    sample = Sample(time.perf_counter())
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
        if status != 200:
            sample.error = f"status {status}"
            return sample
        while True:
            line = await reader.readline()
            if not line or line.startswith(b"data: [DONE]"):
                return sample
            if line.startswith(b"data: "):
                _event(sample, json.loads(line[6:]))
    finally:
        writer.close()


def _event(sample: Sample, event: dict[str, object]) -> None:
    now = time.perf_counter()
    usage = event.get("usage")
    if event.get("choices"):
        if sample.ttft == 0:
            sample.ttft = now - sample.start
        else:
            sample.itls.append(now - sample.last)
        sample.last = now
    if isinstance(usage, dict):
        sample.prompt, sample.output = int(usage["prompt_tokens"]), int(usage["completion_tokens"])


def bodies(options: argparse.Namespace, wrong: dict[str, float]) -> list[bytes]:
    """Return the requests: random words, each a token, the same for the same seed."""
    chosen = random.Random(int(wrong.get("seed", options.seed)))  # noqa: S311  prompts, no secrets
    length = max(1, int(options.random_input_len * wrong.get("input_share", 1)))
    made = []
    for _ in range(options.num_prompts):
        prompt = " ".join(f"w{chosen.randrange(10_000)}" for _ in range(length))
        body = {
            "model": options.served_model_name or options.model,
            "prompt": prompt,
            "max_tokens": options.random_output_len,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        made.append(json.dumps(body).encode())
    return made


async def measure(host: str, port: int, requests: list[bytes], streams: int) -> tuple[list[Sample], float]:
    """Keep so many streams open until all is sent; return the samples and the seconds."""
    left = iter(requests)
    samples: list[Sample] = []

    async def worker() -> None:
        for body in left:
            samples.append(await stream(host, port, body))
            gone = int(time.perf_counter() - began)
            bar = f"{len(samples)}/{len(requests)} [{gone // 60:02}:{gone % 60:02}<00:01]"
            sys.stderr.write(f"\r  1%|#| {bar}")
            sys.stderr.flush()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(streams or len(requests))))
    return samples, time.perf_counter() - began


def report(options: argparse.Namespace, samples: list[Sample], duration: float) -> dict[str, object]:
    """Return the result under vLLM's names, with each request's own numbers."""
    good = [sample for sample in samples if not sample.error]
    inputs, outputs = sum(one.prompt for one in good), sum(one.output for one in good)
    found: dict[str, object] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "backend": "vllm",
        "endpoint_type": "vllm",
        "model_id": options.model,
        "tokenizer_id": options.model,
        "num_prompts": options.num_prompts,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": options.max_concurrency or None,
        "duration": duration,
        "completed": len(good),
        "failed": len(samples) - len(good),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(good) / duration,
        "output_throughput": outputs / duration,
        "total_token_throughput": (inputs + outputs) / duration,
    }
    measures = {
        "ttft": [one.ttft for one in good],
        "tpot": [(one.latency - one.ttft) / (one.output - 1) for one in good if one.output > 1],
        "itl": [gap for one in good for gap in one.itls],
        "e2el": [one.latency for one in good],
    }
    for name, values in measures.items():
        found |= _statistics(name, [1000 * value for value in values])
    if options.save_detailed:
        found |= {
            "input_lens": [one.prompt for one in samples],
            "output_lens": [one.output for one in samples],
            "ttfts": [one.ttft for one in samples],
            "itls": [one.itls for one in samples],
            "start_times": [one.start for one in samples],
            "generated_texts": [" w7" * one.output for one in samples],
            "errors": [one.error for one in samples],
        }
    return found


def _statistics(name: str, values: list[float]) -> dict[str, float]:
    values = sorted(values) or [0.0]
    found = {
        f"mean_{name}_ms": statistics.fmean(values),
        f"median_{name}_ms": statistics.median(values),
        f"std_{name}_ms": statistics.pstdev(values),
    }
    for percent in PERCENTILES:
        place = (len(values) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(values) - 1)
        found[f"p{percent}_{name}_ms"] = values[low] + (values[high] - values[low]) * (place - low)
    return found


def main(words: list[str]) -> None:
    """Be `vllm bench serve`."""
    parser = argparse.ArgumentParser()
    for option in ("--host", "--model", "--served-model-name", "--result-dir", "--result-filename"):
        parser.add_argument(option, default="")
    for option, default in (("--port", 8000), ("--num-prompts", 10), ("--max-concurrency", 0), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--random-input-len", type=int, default=8)
    parser.add_argument("--random-output-len", type=int, default=8)
    parser.add_argument("--save-detailed", action="store_true")
    options, _ = parser.parse_known_args(words)
    wrong = json.loads(WRONG.read_text("utf-8")) if WRONG.exists() else {}
    requests = bodies(options, wrong)
    samples, duration = asyncio.run(measure(options.host, options.port, requests, options.max_concurrency))
    found = report(options, samples, duration)
    if options.result_filename:
        Path(options.result_dir, options.result_filename).write_text(json.dumps(found), "utf-8")
    shown = {"Successful requests:": found["completed"], "Benchmark duration (s):": f"{duration:.2f}"}
    sys.stdout.write("{s:{c}^{n}}\n".format(s=" Serving Benchmark Result ", n=50, c="="))
    sys.stdout.write("".join(f"{label:<40} {value:<10}\n" for label, value in shown.items()))
    sys.stdout.write("=" * 50 + "\n")
