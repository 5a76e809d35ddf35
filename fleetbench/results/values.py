"""What one execution of a bench client reported, in vLLM's own names.

`None` always means unknown: a line that is not there is never read as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """The numbers of one report. Names and units are those of vLLM's result JSON.

    Attributes:
        duration: seconds.
        request_throughput: requests/s; output_throughput, total_token_throughput: tokens/s.
        request_rate: requests/s, `"inf"` for all at once.
        latencies: `mean_ttft_ms`, `median_tpot_ms`, `p99_itl_ms`, `std_e2el_ms` …: any percentile.
        extra: every other numeric key or line, under vLLM's name where it has one.
    """

    completed: int | None = None
    failed: int | None = None
    num_prompts: int | None = None
    max_concurrency: int | None = None
    request_rate: float | str | None = None
    duration: float | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: float | None = None
    request_goodput: float | None = None
    output_throughput: float | None = None
    total_token_throughput: float | None = None
    max_output_tokens_per_s: float | None = None
    max_concurrent_requests: float | None = None
    model_id: str | None = None
    backend: str | None = None
    date: str | None = None
    latencies: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    extra: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One report found in a text or file, and how well it could be read.

    Attributes:
        source: file name, `-` for standard input.
        dialect: `vllm`, `vllm-rust`, `sglang`, `gpustack` …, told apart by labels; `vllm-json` for JSON.
        first_line, last_line: where it stands, counted from 1.
        complete: the report has its end, and all counts and throughputs are numbers.
        problems: what could not be read, each with line number and reason.
    """

    source: str
    dialect: str
    first_line: int
    last_line: int
    result: BenchResult
    complete: bool
    problems: tuple[str, ...] = ()
