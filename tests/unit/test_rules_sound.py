"""Sound runs are never flagged: real reports of every vLLM version, and closed loops on busy hosts."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest
import shared_material
from judged_rows import TRIAL, report, rules

from fleetbench.errors import Unreadable
from fleetbench.model import Workload
from fleetbench.results.parse import parse
from fleetbench.results.rows import Judgement, Verdict
from fleetbench.results.samples import Request, Samples, read_samples
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import judge

# What is said of short runs, and of a busy client, however sound they are.
REMARKS = {"percentile-samples", "bundled-tokens", "client-bound", "offered-rate"}
REPORTS = [
    name
    for pattern in ("captures/cpu/**/*.json", "captures/gpu/**/*.bench.json")
    for name in shared_material.names(pattern)
]


def workload_of(result: BenchResult, raw: dict[str, object]) -> Workload:
    """Return what a captured run was asked for: lengths as it counted them, rounded to what one types."""
    completed = result.completed or 1
    return Workload(
        dataset="random" if "chat" not in (result.backend or "") else "hf",
        input_len=32 * round((result.total_input_tokens or 0) / completed / 32),
        output_len=round((result.total_output_tokens or 0) / completed),
        num_prompts=result.num_prompts or 0,
        max_concurrency=result.max_concurrency,
        request_rate=result.request_rate if isinstance(result.request_rate, float | int) else None,
        extra_args=("--ramp-up-strategy", "linear") if raw.get("ramp_up_strategy") else (),
    )


@pytest.mark.parametrize("name", REPORTS)
def test_a_real_report_without_failures_has_nothing_against_it_but_its_shortness(name: str) -> None:
    text = shared_material.read(shared_material.shared(name))
    try:
        blocks = parse(text, name)
    except Unreadable:
        pytest.skip("no report")
    raw = json.loads(text) if text.lstrip()[:1] == "{" and "}\n{" not in text else {}
    for block in blocks:
        result = block.result
        if not result.completed or result.completed != result.num_prompts:
            continue
        judgement = judge(
            result,
            workload_of(result, raw),
            complete=block.complete,
            exit_status=0,
            client_program="python",
            samples=read_samples(text),
            trial=replace(TRIAL, effective={}),
        )
        assert rules(judgement) <= REMARKS | {"waves"}, judgement.reasons


# ---------------------------------------------------------------- closed loops of a busy host


def run(seed: int) -> tuple[Workload, Samples, BenchResult]:
    """Return one run of a closed loop: many shapes, uneven tokens, hiccups of up to two seconds."""
    draw = random.Random(seed)  # noqa: S311  no secrets
    streams, waves = draw.choice((1, 2, 4, 16, 64)), draw.choice((10, 11, 20))
    tokens, each = draw.choice((2, 16, 64)), draw.choice((0.002, 0.02, 0.1))
    noise, prefill = draw.choice((0.05, 0.5, 1.0)), draw.choice((0.01, 0.3))
    hiccups = [(draw.uniform(0, 60), draw.uniform(0.2, 2.0)) for _ in range(draw.choice((0, 2, 6)))]
    workload = Workload(input_len=64, output_len=tokens, num_prompts=streams * waves, max_concurrency=streams)

    def wall(moment: float) -> float:
        return moment + sum(length for at, length in hiccups if at < moment)

    free, requests = [0.0] * streams, []
    for _ in range(workload.num_prompts):
        start = min(free)
        place = free.index(start)
        moments = [start + prefill * draw.lognormvariate(0, noise)]
        for _ in range(tokens - 1):
            moments.append(moments[-1] + each * draw.lognormvariate(0, noise))
        free[place] = moments[-1] + draw.uniform(0, 0.005)
        came = [wall(moment) for moment in moments]
        requests.append(
            Request(
                started_s=wall(start),
                ttft_s=came[0] - wall(start),
                e2el_s=came[-1] - wall(start),
                input_tokens=64,
                output_tokens=tokens,
                itl_s=[after - before for before, after in itertools.pairwise(came)],
            )
        )
    samples = Samples(requests=tuple(requests))
    return workload, samples, measured(workload, samples)


def measured(workload: Workload, samples: Samples) -> BenchResult:
    """Return what vLLM's client would report of the requests."""
    count, requests = len(samples.requests), samples.requests
    duration = max((request.started_s or 0) + request.e2el_s for request in requests)
    firsts = sorted(1000 * request.ttft_s for request in requests)
    wholes = sorted(1000 * request.e2el_s for request in requests)
    each = sum(request.tpot_s or 0 for request in requests) / count
    made, sent = count * workload.output_len, count * workload.input_len
    latencies = {"mean_tpot_ms": 1000 * each}
    for name, values in (("ttft", firsts), ("e2el", wholes)):
        latencies[f"mean_{name}_ms"] = sum(values) / count
        ranks = (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
        latencies |= {f"{kind}_{name}_ms": values[int(rank * count)] for kind, rank in ranks}
    return report(
        workload,
        duration=duration,
        request_throughput=count / duration,
        output_throughput=made / duration,
        total_token_throughput=(made + sent) / duration,
        latencies=latencies,
    )


def judged(seed: int) -> Judgement:
    workload, samples, result = run(seed)
    return judge(result, workload, exit_status=0, client_program="python", samples=samples, trial=TRIAL)


@pytest.mark.parametrize("block", range(4))
def test_sound_runs_on_a_busy_host_are_valid(block: int) -> None:
    flagged = {
        seed: judgement.reasons
        for seed in range(50 * block, 50 * block + 50)
        if (judgement := judged(seed)).verdict is not Verdict.VALID
    }
    assert flagged == {}
