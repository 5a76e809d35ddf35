"""Runs, trials and measurements made up for tests of the report."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.model import Config, Failure, GpuSet, TrialState, Workload
from fleetbench.results.rows import (
    MeasurementKind,
    MeasurementRow,
    MeasurementState,
    RunKind,
    RunRow,
    RunState,
    TrialRow,
    Verdict,
)
from fleetbench.results.values import BenchResult

CLOSED = Workload(num_prompts=640, max_concurrency=64)
SMALL = Workload(num_prompts=640, max_concurrency=8)
TOO_LITTLE_MEMORY = Failure(
    kind="oom",
    cause="CUDA out of memory",
    evidence="torch.OutOfMemoryError: Tried to allocate 3.20 GiB | `x` <b>",
    advice="use tp=2",
)


def run(**changes: object) -> RunRow:
    """A finished sweep on one host."""
    given = RunRow(
        id="20261130-141233-tiny-3f2a",
        kind=RunKind.SWEEP,
        state=RunState.DONE,
        model="tiny",
        repo="org/tiny",
        hosts=("lab-01",),
        created_at="2026-11-30T14:12:33Z",
        updated_at="2026-11-30T14:22:33Z",
        ended_at="2026-11-30T14:22:33Z",
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def trial(number: int, config: Config, **changes: object) -> TrialRow:
    """A measured trial of one workload and three repeats."""
    given = TrialRow(
        run_id=run().id,
        number=number,
        host="lab-01",
        gpus=GpuSet(tuple(range(config.gpus))),
        port=8101,
        config=config,
        workloads=(CLOSED,),
        repeats=3,
        state=TrialState.MEASURED,
        vllm_version="0.11.2",
        ready_s=12.5,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def result(output: float, **changes: object) -> BenchResult:
    """A whole result with a given output throughput in tokens/s; latencies follow from it."""
    given = BenchResult(
        completed=640,
        failed=0,
        num_prompts=640,
        duration=640 * 128 / output,
        total_input_tokens=640 * 128,
        total_output_tokens=640 * 128,
        request_throughput=output / 128,
        output_throughput=output,
        total_token_throughput=2 * output,
        latencies={
            "mean_ttft_ms": 2e5 / output,
            "median_ttft_ms": 1e5 / output,
            "p99_ttft_ms": 4e5 / output,
            "median_tpot_ms": 1e4 / output,
            "p99_tpot_ms": 2e4 / output,
        },
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def measurement(
    number: int,
    repeat: int,
    found: BenchResult | None,
    verdict: Verdict = Verdict.VALID,
    *reasons: str,
    kind: MeasurementKind = MeasurementKind.MEASURE,
    workload_index: int = 0,
) -> MeasurementRow:
    """A finished measurement."""
    return MeasurementRow(
        run_id=run().id,
        trial=number,
        workload_index=workload_index,
        repeat=repeat,
        kind=kind,
        seed=100 + repeat,
        unit_name="fleetbench-bench-1",
        client="lab-01",
        state=MeasurementState.FINISHED,
        exit_status=0,
        verdict=verdict,
        reasons=reasons,
        result=found,
        directory=f"trial-{number:02d}/workload-{workload_index}/{kind.value}-{repeat}",
        started_at="2026-11-30T14:13:00Z",
        ended_at="2026-11-30T14:13:20Z",
    )


def repeats(number: int, *outputs: float, workload_index: int = 0) -> list[MeasurementRow]:
    """A slow warm-up, and one valid measurement for each output throughput."""
    warmup = measurement(
        number, 1, result(outputs[0] / 2), kind=MeasurementKind.WARMUP, workload_index=workload_index
    )
    measured = [
        measurement(number, place, result(output), workload_index=workload_index)
        for place, output in enumerate(outputs, start=1)
    ]
    return [warmup, *measured]
