"""A made-up sweep as an owner of eight H200s would have it, for charts: splits, a ladder, failures."""

from __future__ import annotations

import math
from dataclasses import replace

from report_rows import measurement, result, run, trial

from fleetbench.model import Config, Failure, TrialState, Workload
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import MeasurementRow, TrialRow, Verdict

LADDER = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEMORY = Failure(
    kind="oom",
    cause="CUDA out of memory while the KV cache was made",
    evidence="OutOfMemoryError",
    advice="x",
)
DIED = Failure(
    kind="died", cause="a worker of tensor rank 3 died (SIGSEGV in NCCL)", evidence="x", advice="x"
)
IMPLIED = Failure(kind="implied", cause="trial 6 ran out of memory with more room than this", evidence="x")
CONFIGS = (
    *(Config(tp=tp, dp=dp) for tp in (1, 2, 4, 8) for dp in (1, 2, 4, 8) if tp * dp <= 8),
    Config(tp=1, units=8),
    Config(tp=2, units=4),
    Config(tp=2, pp=4),
)
FAILED = {(2, 4, 1): (TrialState.FAILED, DIED), (4, 2, 1): (TrialState.FAILED, MEMORY)}


def workload(concurrency: int) -> Workload:
    return Workload(
        input_len=1024, output_len=256, num_prompts=max(64, concurrency * 16), max_concurrency=concurrency
    )


def tpot_ms(config: Config, concurrency: int) -> float:
    """A pace that grows with the requests of a copy, and shrinks with the GPUs of a copy, but not in
    proportion; data parallel ranks wait for each other, servers of their own do not."""
    copies = config.dp * config.units
    each = max(1.0, concurrency / copies)
    speed = config.tp**0.62 * config.pp**0.3
    waits = 1 + 0.06 * math.log2(config.dp) + 0.02 * math.log2(config.units)
    return (5.5 / speed + 0.11 * each / config.tp**0.75 / config.pp**0.5) * waits


def one(
    config: Config, number: int, place: int, concurrency: int, repeat: int, verdict: Verdict = Verdict.VALID
) -> MeasurementRow:
    wobble = 1 + 0.012 * math.sin(number * 7.1 + place * 3.3 + repeat * 2.1)
    tpot = tpot_ms(config, concurrency) * wobble
    ttft = (28 + 1.9 * concurrency / (config.dp * config.units) / config.tp**0.6) * wobble
    output = concurrency * 256 / (ttft + 256 * tpot) * 1000
    prompts = max(64, concurrency * 16)
    found = result(
        output,
        completed=prompts,
        num_prompts=prompts,
        max_concurrency=concurrency,
        latencies={
            "median_ttft_ms": ttft,
            "p99_ttft_ms": ttft * (2.4 + concurrency / 500),
            "median_tpot_ms": tpot,
            "p99_tpot_ms": tpot * 1.5,
            "mean_e2el_ms": ttft + 256 * tpot,
        },
    )
    why = ("the client kept one core busy for 97 % of the time",) if verdict is Verdict.SUSPECT else ()
    row = measurement(number, repeat, found, verdict, *why, workload_index=place)
    share = 62 / (1 + 3 / max(1, concurrency / config.dp / config.units))
    binds = "bandwidth" if concurrency < 64 else "compute" if concurrency < 1000 else "scheduler"
    if config.tp == 8:
        binds, share = "interconnect", share * 0.42
    reason = {"bandwidth": "79 % of the serial estimate", "compute": "61 % of the serial estimate"}.get(
        binds, "the GPUs were 64 % busy, and 310 requests waited"
    )
    return replace(row, ceiling={"of_ceiling_percent": share, "binds": binds, "why": reason})


def eight_gpus(ladder: tuple[int, ...] = LADDER, configs: tuple[Config, ...] = CONFIGS) -> Report:
    """Two splits fail, one row is suspect, one is invalid; three repeats of everything else."""
    trials: list[TrialRow] = []
    rows: list[MeasurementRow] = []
    loads = tuple(workload(concurrency) for concurrency in ladder)
    for number, config in enumerate(configs, start=1):
        state, failure = FAILED.get((config.tp, config.dp, config.units), (TrialState.MEASURED, None))
        if config.pp > 1:
            state, failure = TrialState.IMPLIED, IMPLIED
        gpu = "" if failure else "NVIDIA H200"
        trials.append(
            trial(number, config, host="h200-01", workloads=loads, state=state, failure=failure, gpu_name=gpu)
        )
        if failure:
            continue
        for place, concurrency in enumerate(ladder):
            suspect = config.units == 8 and concurrency == ladder[-1]
            for repeat in (1, 2, 3):
                verdict = Verdict.SUSPECT if suspect else Verdict.VALID
                rows.append(one(config, number, place, concurrency, repeat, verdict))
    return summarise(
        run(
            id="20261201-081500-qwen3-coder-7c1e",
            repo="Qwen/Qwen3-Coder-30B-A3B-Instruct",
            hosts=("h200-01",),
        ),
        trials,
        rows,
    )
