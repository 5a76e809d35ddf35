"""A store with one run of three splits at four loads, for tests of what is exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from report_rows import TOO_LITTLE_MEMORY, result

from fleetbench.model import Config, GpuSet, Trial, TrialState, Workload
from fleetbench.results.rows import MeasurementKind, RunKind, RunState, Verdict
from fleetbench.results.store import Store

CONCURRENCIES = (1, 8, 32, 128)
WORKLOADS = tuple(Workload(num_prompts=10 * c, max_concurrency=c) for c in CONCURRENCIES)
CONFIGS = (Config(tp=1), Config(tp=2), Config(units=2), Config(tp=4))
HOSTILE = "=cmd|' /c calc'!A0 <b>|`x`\"q\\ \x1b[31m\n../../etc"


def output_tps(config: Config, concurrency: int, repeat: int) -> float:
    """What the made-up server gives, in tokens/s."""
    return 50.0 * config.gpus**0.9 * concurrency**0.7 * (1 + repeat / 100)


def fill(store: Store, *, host: str = "lab-01", model: str = "tiny", seal: bool = True) -> str:
    """Put the run into a store and return its id; the last split does not fit."""
    trials = [
        Trial(
            number=number,
            host=host,
            gpus=GpuSet(tuple(range(config.gpus))),
            port=8101,
            config=config,
            workloads=WORKLOADS,
            repeats=3,
            gpu_name="NVIDIA H200",
        )
        for number, config in enumerate(CONFIGS, start=1)
    ]
    run_id = store.create_run(
        kind=RunKind.SWEEP, model=model, repo=f"org/{model}", hosts=[host], trials=trials
    ).id
    for trial in trials[:-1]:
        for index, workload in enumerate(WORKLOADS):
            for kind, repeat in (
                (MeasurementKind.WARMUP, 1),
                *((MeasurementKind.MEASURE, repeat) for repeat in (1, 2, 3)),
            ):
                concurrency = workload.max_concurrency or 1
                found = result(
                    output_tps(trial.config, concurrency, repeat),
                    max_concurrency=concurrency,
                    num_prompts=workload.num_prompts,
                    request_rate="inf",
                    max_concurrent_requests=float(concurrency + 2),
                    extra={"rtfx": 0.0},
                )
                verdict = Verdict.INVALID if (trial.number, index, repeat) == (2, 3, 3) else Verdict.VALID
                if verdict is Verdict.INVALID:
                    found = replace(found, failed=5)
                key = (run_id, trial.number, index, repeat, kind)
                store.start_measurement(*key, seed=repeat, unit_name="u", client=host)
                store.finish_measurement(*key, result=found, verdict=verdict, exit_status=0)
        store.set_trial(run_id, trial.number, state=TrialState.MEASURED, vllm_version="0.32.0", ready_s=9.5)
    store.set_trial(run_id, len(CONFIGS), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)
    if seal:
        store.set_run_state(run_id, RunState.DONE)
    return run_id


def filled(place: Path) -> str:
    """Make a store at a place that FLEETBENCH_RUNS may name, and return the run's id."""
    from fleetbench.results.store import open_store

    with open_store(f"sqlite:///{place}/fleetbench.sqlite", place) as store:
        return fill(store)
