"""The server whose truth is known does what its schedule says, and its counters agree with what it did."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from known_truth import KNOWN, lines_of, truth_of

from fleetbench.results.parse import parse
from fleetbench.service.metrics import Reading, read

TTFT_S, TOKEN_S = 0.03, 0.002
PROMPTS, INPUT, OUTPUT, STREAMS = 20, 40, 10, 4


@dataclass(frozen=True)
class Known:
    """A known server on this machine, and a place for its files."""

    port: int
    place: Path

    def get(self, path: str) -> str:
        """What it answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def reading(self) -> Reading:
        """Its counters, as the product reads them."""
        return read(self.get("/metrics"))

    def record(self) -> tuple[Mapping[str, float], ...]:
        """What it wrote down."""
        return lines_of((self.place / "record").read_text("utf-8"))

    def measure(self, seed: int = 1, streams: int = STREAMS, **wrong: float) -> dict[str, Any]:
        """Let the honest client measure it."""
        (self.place / "wrong").write_text(json.dumps(wrong))
        words = ("--host", "127.0.0.1", "--port", self.port, "--model", "m", "--seed", seed)
        words += ("--num-prompts", PROMPTS, "--max-concurrency", streams, "--random-input-len", INPUT)
        words += ("--random-output-len", OUTPUT, "--result-dir", self.place, "--result-filename", "result")
        argv = [sys.executable, str(KNOWN / "vllm"), "bench", "serve", *map(str, words), "--save-detailed"]
        env = os.environ | {"KNOWN_CLIENT": str(self.place / "wrong")}
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)
        found = json.loads((self.place / "result").read_text("utf-8"))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Known]]:
    """Start a known server; its schedule is given as `KNOWN_…` in lower case, without the prefix."""
    processes = []

    def begin(port: int = 0, **schedule: float) -> Known:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = port or free.getsockname()[1]
        settings = {"ttft_s": TTFT_S, "token_s": TOKEN_S, "load_s": 0, **schedule}
        env = {f"KNOWN_{name.upper()}": str(value) for name, value in settings.items()}
        env |= {"KNOWN_RECORD": str(tmp_path / "record"), "KNOWN_VERSION_FILE": str(tmp_path / "version")}
        argv = [sys.executable, str(KNOWN / "vllm"), "serve", "m", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(argv, env=os.environ | env, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert any("Application startup complete" in line for line in process.stdout)
        return Known(port, tmp_path)

    yield begin
    for process in processes:
        process.terminate()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def test_client_server_and_counters_agree_on_what_was_sent(serve: Callable[..., Known]) -> None:
    known = serve()
    result, truth, counted = known.measure(), truth_of(known.record()), known.reading()
    assert (result["completed"], result["failed"]) == (truth.completed, truth.failed) == (PROMPTS, 0)
    assert result["total_output_tokens"] == truth.output_tokens == PROMPTS * OUTPUT
    assert result["total_input_tokens"] == truth.prompt_tokens == PROMPTS * INPUT
    assert (counted.requests, counted.prompt_tokens, counted.generation_tokens) == (
        PROMPTS,
        PROMPTS * INPUT,
        PROMPTS * OUTPUT,
    )
    assert (counted.running, counted.waiting, counted.prefix_hits) == (0, 0, 0)


def test_no_token_leaves_before_it_is_due_and_none_is_seen_before_it_left(
    serve: Callable[..., Known],
) -> None:
    known = serve()
    result, record = known.measure(), known.record()
    for line in record:
        assert line["first"] - line["got"] >= TTFT_S - 1e-4
        assert line["last"] - line["got"] >= TTFT_S + (OUTPUT - 1) * TOKEN_S - 1e-4
    truth = truth_of(record)
    assert result["mean_ttft_ms"] >= truth.mean_ttft_ms >= 1000 * TTFT_S
    assert result["mean_e2el_ms"] >= truth.mean_e2el_ms
    assert result["output_throughput"] <= truth.output_throughput
    assert min(result["ttfts"]) >= TTFT_S


def test_the_result_of_the_honest_client_is_one_that_the_product_reads(serve: Callable[..., Known]) -> None:
    result = serve().measure()
    (block,) = parse(json.dumps(result))
    assert block.complete
    assert (block.result.completed, block.result.num_prompts) == (PROMPTS, PROMPTS)
    assert block.result.latencies["p99_ttft_ms"] == pytest.approx(result["p99_ttft_ms"])


@pytest.mark.parametrize(("every", "failed"), [(5, 4), (1, PROMPTS)])
def test_each_so_manieth_request_fails(serve: Callable[..., Known], every: int, failed: int) -> None:
    known = serve(fail_every=every)
    result = known.measure()
    assert (result["completed"], result["failed"]) == (PROMPTS - failed, failed)
    assert sum(bool(error) for error in result["errors"]) == failed
    assert sum(line["status"] == 500 for line in known.record()) == failed


def test_a_stall_holds_what_runs_once(serve: Callable[..., Known]) -> None:
    known = serve(stall_after=8, stall_s=0.5)
    result = known.measure()
    # Each of the streams is held: before its first token or between two, and what comes after is not.
    late = [line for line in known.record() if line["last"] - line["got"] >= 0.5]
    assert 1 <= len(late) <= STREAMS
    assert max(result["ttfts"] + [gap for gaps in result["itls"] for gap in gaps]) >= 0.4
    assert (result["completed"], result["total_output_tokens"]) == (PROMPTS, PROMPTS * OUTPUT)


def test_prompts_that_were_sent_before_come_from_the_cache(serve: Callable[..., Known]) -> None:
    known = serve(cache=1)
    known.measure(seed=1)
    assert known.reading().prefix_hits == 0
    known.measure(seed=1)
    assert known.reading().prefix_hits == PROMPTS * 32, "two whole blocks of each prompt"
    again = known.record()[PROMPTS:]
    assert all(line["cached"] == 32 for line in again)
    assert all(line["first"] - line["got"] >= TTFT_S * 0.2 - 1e-4 for line in again)
    known.measure(seed=2)
    assert known.reading().prefix_hits == PROMPTS * 32


def test_no_more_than_its_slots_run_at_a_time(serve: Callable[..., Known]) -> None:
    known = serve(slots=2)
    known.measure(streams=6)
    record = known.record()
    for line in record:
        beside = [other for other in record if other["began"] <= line["began"] < other["last"]]
        assert len(beside) <= 2
    waited = sum(line["began"] - line["got"] for line in record)
    text = known.get("/metrics")
    found = [line for line in text.splitlines() if line.startswith("vllm:request_queue_time_seconds_sum")]
    assert float(found[0].split()[-1]) == pytest.approx(waited, abs=1e-3)
    assert waited > 0


def test_what_it_may_misreport_is_only_what_it_was_told_to(serve: Callable[..., Known]) -> None:
    known = serve(counted=0.5)
    result = known.measure(input_share=0.5)
    assert known.reading().generation_tokens == PROMPTS * OUTPUT // 2
    assert result["total_input_tokens"] == PROMPTS * INPUT // 2
    assert json.loads(known.get("/version")) == {"version": "0.32.0"}
    (known.place / "version").write_text("0.33.0\n")
    assert json.loads(known.get("/version")) == {"version": "0.33.0"}


def test_a_second_server_takes_the_same_port(serve: Callable[..., Known]) -> None:
    known = serve()
    other = serve(port=known.port)
    deadline = time.monotonic() + 30
    seen: set[int | None] = set()
    while len(seen) < 2:
        known.measure()
        seen |= {known.reading().requests for _ in range(20)}
        assert time.monotonic() < deadline
    assert other.port == known.port
    assert None not in seen
