"""Rows that are judged in tests: a report whose numbers follow from each other, and requests of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleetbench.model import Config, GpuSet, TrialState, Workload
from fleetbench.results.rows import Finding, Judgement, TrialRow
from fleetbench.results.samples import Request, Samples
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import judge

WORKLOAD = Workload(input_len=512, output_len=128, num_prompts=1000, max_concurrency=100)
TRIAL = TrialRow(
    run_id="20261130-141233-tiny-3f2a",
    number=2,
    host="lab-01",
    gpus=GpuSet((0, 1)),
    port=8101,
    config=Config(tp=2),
    workloads=(WORKLOAD,),
    repeats=3,
    state=TrialState.RUNNING,
    vllm_version="0.32.0",
    started_at="2026-11-30T14:12:33Z",
    effective={"tp": 2, "pp": 1, "dp": 1, "enforce_eager": False, "prefix_caching": True},
)


def report(
    workload: Workload = WORKLOAD,
    *,
    ttft_ms: float = 400.0,
    tpot_ms: float = 20.0,
    in_flight: float = 0.97,
    **changes: object,
) -> BenchResult:
    """Return what a sound client reports of a closed loop, `in_flight` of its limit being open on average."""
    prompts, made = workload.num_prompts, workload.num_prompts * workload.output_len
    sent = workload.num_prompts * workload.input_len
    e2el_ms = ttft_ms + (workload.output_len - 1) * tpot_ms
    rate = in_flight * (workload.max_concurrency or prompts) / (e2el_ms / 1000)
    duration = prompts / rate
    latencies = {}
    for name, mean in (("ttft", ttft_ms), ("tpot", tpot_ms), ("itl", tpot_ms), ("e2el", e2el_ms)):
        shares = {"mean": 1.0, "median": 0.98, "p90": 1.1, "p95": 1.15, "p99": 1.3}
        latencies |= {f"{kind}_{name}_ms": mean * share for kind, share in shares.items()}
    given = BenchResult(
        completed=prompts,
        failed=0,
        num_prompts=prompts,
        max_concurrency=workload.max_concurrency,
        duration=duration,
        total_input_tokens=sent,
        total_output_tokens=made,
        request_throughput=rate,
        output_throughput=made / duration,
        total_token_throughput=(made + sent) / duration,
        latencies=latencies,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def judged(result: BenchResult | None = None, workload: Workload = WORKLOAD, **known: object) -> Judgement:
    """Judge a row of our own; the report is a sound one unless given."""
    return judge(result or report(workload), workload, exit_status=0, **known)  # type: ignore[arg-type]


def found(judgement: Judgement, rule: str) -> Finding:
    """Return the only finding of a rule."""
    (finding,) = (finding for finding in judgement.findings if finding.rule == rule)
    return finding


def rules(judgement: Judgement) -> set[str]:
    """Return which rules found something."""
    return {finding.rule for finding in judgement.findings}


def requests(times: Iterable[tuple[float, float, float]], *, tokens: int = 20) -> Samples:
    """Given start, TTFT and time per token of each request in seconds, return the samples of a run."""
    made = []
    for start, ttft, each in times:
        gaps = [each] * (tokens - 1)
        made.append(
            Request(
                started_s=start,
                ttft_s=ttft,
                e2el_s=ttft + sum(gaps),
                input_tokens=64,
                output_tokens=tokens,
                itl_s=gaps,
            )
        )
    return Samples(requests=tuple(made))
