"""Runs in a store with what they leave beside it, for tests of `compare`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from report_rows import CLOSED, result

from fleetbench.model import Config, Failure, GpuSet, Trial, TrialState, Workload
from fleetbench.results.rows import Json, MeasurementKind, RunKind, RunState, Verdict
from fleetbench.results.store import Store, open_store

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
UNIT = (
    "[Service]\nEnvironment=FLEETBENCH_PORT=8101\nEnvironment=VLLM_NO_USAGE_STATS=1\n"
    "ExecStart=/opt/vllm/bin/vllm serve org/tiny --host 0.0.0.0 --port 8101 --tensor-parallel-size 1 {more}\n"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One trial: what its repeats came to (output tokens/s, one list for each workload), or why it failed."""

    config: Config = field(default_factory=Config)
    outputs: tuple[float, ...] = ()
    workloads: tuple[Workload, ...] = (CLOSED,)
    scale: tuple[float, ...] = (1.0,)
    host: str = "lab-01"
    gpu: str = H100
    version: str = "0.11.2"
    client: str = "python"
    verdict: Verdict = Verdict.VALID
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    state: TrialState = TrialState.MEASURED
    arguments: str = "--enforce-eager"
    effective: Mapping[str, Json] = field(default_factory=dict)
    telemetry: Mapping[str, Json] = field(default_factory=dict)


class Clock:
    """A clock that goes on by an hour with each run."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


def store_in(place: Path) -> Store:
    """An empty store whose clock `put_run` moves."""
    return open_store(runs_directory=place / "runs", clock=Clock())


def put_run(
    store: Store,
    *cases: Case,
    model: str = "tiny",
    sweep: str = "nightly",
    seed: int = 100,
    driver: str = "580.1",
    evidence: bool = True,
) -> str:
    """Store a finished run of the cases, an hour after the one before; return its id."""
    clock = store._clock
    assert isinstance(clock, Clock)
    clock.now += timedelta(hours=1)
    hosts = dict.fromkeys(case.host for case in cases)
    run_id = store.create_run(
        kind=RunKind.SWEEP, model=model, repo=f"org/{model}", hosts=hosts, sweep=sweep
    ).id
    store.add_trials(run_id, [_trial(number, case) for number, case in enumerate(cases, start=1)])
    for number, case in enumerate(cases, start=1):
        store.set_trial(
            run_id,
            number,
            state=case.state,
            failure=case.failure,
            unit_text=UNIT.format(more=case.arguments),
            vllm_version=case.version if case.state is TrialState.MEASURED else None,
            effective={"dtype": "bfloat16", **case.effective},
        )
        for index, scale in enumerate(case.scale[: len(case.workloads)]):
            _measure(store, run_id, (number, index), case, [value * scale for value in case.outputs], seed)
        if evidence:
            _leave(store.directory(run_id) / f"trial-{number:02d}", case, driver)
    store.set_run_state(run_id, RunState.DONE)
    return run_id


def _trial(number: int, case: Case) -> Trial:
    return Trial(
        number=number,
        host=case.host,
        gpus=GpuSet(tuple(range(case.config.gpus))),
        port=8101,
        config=case.config,
        workloads=case.workloads,
        repeats=max(1, len(case.outputs)),
        gpu_name=case.gpu,
    )


def _measure(
    store: Store, run_id: str, place: tuple[int, int], case: Case, outputs: Iterable[float], seed: int
) -> None:
    for repeat, output in enumerate(outputs, start=1):
        key = (run_id, *place, repeat, MeasurementKind.MEASURE)
        store.start_measurement(*key, seed=seed + repeat, unit_name="u", client=case.host)
        store.finish_measurement(
            *key,
            result=result(output),
            verdict=case.verdict,
            reasons=case.reasons,
            exit_status=0,
            client_program=case.client,
            client_version=case.version,
            telemetry=case.telemetry,
        )


def _leave(directory: Path, case: Case, driver: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    server = {
        "kernel": "6.1",
        "os": "Rocky Linux 9.6",
        "python": "3.12.1",
        "driver": driver,
        "cuda": "13.0",
        "packages": {"vllm": f"{case.version}+cu129", "torch": "2.9.0"},
    }
    gpus = [{"index": n, "name": case.gpu, "power_limit_w": 700.0} for n in range(8)]
    (directory / "versions.json").write_text(json.dumps({"server": server}))
    (directory / "facts-before.json").write_text(json.dumps({"facts": {"cpus": 64, "gpus": gpus}}))
