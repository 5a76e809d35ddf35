"""What the known server wrote down of itself, and what a client should therefore report."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

KNOWN = Path(__file__).parent / "standin" / "known"
FILES = ("vllm", "known_server.py", "known_stream.py", "known_counters.py", "known_client.py")


@dataclass(frozen=True, slots=True)
class Truth:
    """One measurement as the server saw it; each name is that of vLLM's result JSON.

    Attributes:
        late_ms: median over requests of the worst lateness of a token against the schedule.
    """

    completed: int
    failed: int
    output_tokens: int
    prompt_tokens: int
    duration: float
    output_throughput: float
    mean_ttft_ms: float
    median_ttft_ms: float
    mean_tpot_ms: float
    median_tpot_ms: float
    mean_e2el_ms: float
    median_e2el_ms: float
    late_ms: float


def lines_of(text: str) -> tuple[Mapping[str, float], ...]:
    """Return the streamed requests of a record, in the order in which they ended."""
    lines = [json.loads(line) for line in text.splitlines()]
    return tuple(line for line in lines if line["streamed"])


def truth_of(lines: Iterable[Mapping[str, float]]) -> Truth:
    """Given the lines of one measurement, at least one of them answered, return what is true of it."""
    every = list(lines)
    good = [line for line in every if line["status"] == 200]
    ttft = [1000 * (line["first"] - line["got"]) for line in good]
    tpot = [1000 * (line["last"] - line["first"]) / max(1, line["tokens"] - 1) for line in good]
    e2el = [1000 * (line["last"] - line["got"]) for line in good]
    tokens = int(sum(line["tokens"] for line in good))
    duration = max(line["last"] for line in good) - min(line["got"] for line in every)
    return Truth(
        completed=len(good),
        failed=len(every) - len(good),
        output_tokens=tokens,
        prompt_tokens=int(sum(line["prompt"] for line in good)),
        duration=duration,
        output_throughput=tokens / duration,
        mean_ttft_ms=statistics.fmean(ttft),
        median_ttft_ms=statistics.median(ttft),
        mean_tpot_ms=statistics.fmean(tpot),
        median_tpot_ms=statistics.median(tpot),
        mean_e2el_ms=statistics.fmean(e2el),
        median_e2el_ms=statistics.median(e2el),
        late_ms=1000 * statistics.median(line["late_s"] for line in good),
    )
