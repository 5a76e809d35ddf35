"""Entries made up for tests of the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleetbench.model import Config, Workload
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT, PER_GPU, PER_USER
from fleetbench.results.comparison import Observation

LOADED = Workload(num_prompts=1000, max_concurrency=64)


def entry(
    config: Config,
    outputs: Sequence[float],
    *,
    concurrency: int = 64,
    trial: int = 1,
    values: Mapping[str, float] | None = None,
    **changes: object,
) -> Entry:
    """A valid entry: output tok/s of each repeat, and further headlines in `values`."""
    workload = replace(LOADED, max_concurrency=concurrency)
    middle = sorted(outputs)[len(outputs) // 2]
    observed = {
        OUTPUT.key: tuple(Observation(value=value, start=f"start-{trial}") for value in outputs),
        PER_GPU.key: tuple(
            Observation(value=value / config.gpus, start=f"start-{trial}") for value in outputs
        ),
    }
    made = Entry(
        source="20261201-101010-tiny-abcd",
        place=f"trial {trial}, workload 0",
        name=config.label,
        model="org/tiny",
        gpu="NVIDIA H200",
        gpus=config.gpus,
        host="h200-01",
        config=config,
        workload=workload,
        load=workload.label,
        client="python 0.32.0",
        status=Status.VALID,
        repeats=len(outputs),
        completed=1000 * len(outputs),
        pooled=True,
        values={
            OUTPUT.key: middle,
            PER_GPU.key: middle / config.gpus,
            PER_USER.key: middle / concurrency,
            **(values or {}),
        },
        observations=observed,
        trial=trial,
        workload_index=0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def steady(value: float) -> tuple[float, float, float]:
    """Three repeats within 0.2 % of each other."""
    return value * 0.999, value, value * 1.001


def noisy(value: float) -> tuple[float, float, float]:
    """Three repeats within 6 % of each other."""
    return value * 0.97, value, value * 1.03
