"""The ceiling of a measurement is made from what the host, the store and the unit say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nouns import BUILD, HOST, MODEL, facts, gpu, spec
from plan_cases import MODELS

from fleetbench.model import Config, Device, GpuSet, Trial, Workload
from fleetbench.results.rows import MeasurementKind, MeasurementRow, MeasurementState, RunKind, TrialRow
from fleetbench.results.store import Store, open_store
from fleetbench.results.values import BenchResult
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.nearness import Nearness
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession
from fleetbench.units import render

WORKLOAD = Workload(num_prompts=2000, max_concurrency=1000)
RESULT = BenchResult(
    completed=2000,
    num_prompts=2000,
    duration=30.0,
    total_input_tokens=256_000,
    total_output_tokens=256_000,
    output_throughput=8533.3,
)
GPUS = (gpu(0), gpu(1))
READ = "model.safetensors.index.json"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(runs_directory=tmp_path) as opened:
        yield opened


class Case:
    """A trial with tp=2 on a host that has the model's config.json."""

    def __init__(self, store: Store, config: str = "", device: Device = Device.CUDA, **changed: Any) -> None:
        self.store = store
        host = replace(HOST, build=replace(BUILD, device=device))
        answer = config or (MODELS / "qwen3-coder-30b-a3b.json").read_text("utf-8")
        missing = CommandResult(command="", exit_status=1, stdout="", stderr="")
        self.fake = FakeSession(host, [(READ, missing if config == "none" else answer)])
        trial = Trial(
            number=1,
            host=host.name,
            gpus=GpuSet((0, 1)),
            port=8101,
            config=Config(tp=2),
            workloads=(WORKLOAD,),
            repeats=1,
        )
        run = store.create_run(
            kind=RunKind.SWEEP, model="m", hosts=[host.name], arguments={}, trials=[replace(trial, **changed)]
        )
        self.stale: TrialRow = store.trials(run.id)[0]
        self.ground = Ground(
            store=store,
            host=host,
            model=MODEL,
            session=DurableSession(host, lambda: self.fake),
            read_facts=lambda _: facts(),
            borrowed=(),
            ready_timeout_s=1,
            said=lambda _: None,
        )
        self.nearness = Nearness(self.ground, self.stale)

    @property
    def row(self) -> MeasurementRow:
        return MeasurementRow(
            run_id=self.stale.run_id,
            trial=1,
            workload_index=0,
            repeat=1,
            kind=MeasurementKind.MEASURE,
            seed=1,
            unit_name="u",
            client="h",
            state=MeasurementState.RUNNING,
            client_program="rust",
        )


def test_a_row_is_compared_with_what_two_h100s_can_do(store: Store) -> None:
    case = Case(store)
    found = case.nearness.of(case.row, RESULT, {"prefix_hit_share": 0.017}, GPUS)
    assert found["gpu"] == "NVIDIA H100 80GB HBM3"
    assert found["in_flight"] == 1000
    assert 5 < float(str(found["of_ceiling_percent"])) < 15
    assert float(str(found["of_strict_percent"])) < 10
    case.nearness.of(case.row, RESULT, {}, GPUS)
    assert len([line for line in case.fake.commands if READ in line]) == 1


def test_what_the_server_settled_on_counts_though_the_trial_was_read_before(store: Store) -> None:
    case = Case(store)
    store.set_trial(
        case.stale.run_id,
        1,
        unit_text=render(spec(serve_args=("--speculative-config", '{"method": "ngram"}'))),
        effective={"kv_cache_tokens": 64_000},
        vllm_version="0.25.1",
    )
    found = case.nearness.of(case.row, RESULT, {}, GPUS)
    assert found["in_flight"] == 250
    assert "of_strict_percent" not in found
    assert "--speculative-config" in str(found["basis"])


def test_a_model_whose_config_is_not_there_is_known_by_its_name(store: Store) -> None:
    case = Case(store, config="none")
    assert "of_strict_percent" in case.nearness.of(case.row, RESULT, {}, GPUS)
    strange = Nearness(replace(case.ground, model=replace(MODEL, repo="org/nobody-knows")), case.stale).of(
        case.row, RESULT, {}, GPUS
    )
    assert strange["binds"] == "unknown"


def test_a_cpu_host_has_no_ceiling_and_is_not_asked(store: Store) -> None:
    for case, gpus in ((Case(store), ()), (Case(store, device=Device.CPU), GPUS)):
        assert case.nearness.of(case.row, RESULT, {}, gpus) == {}
        assert case.fake.commands == []


def test_a_measurement_without_a_result_has_none(store: Store) -> None:
    case = Case(store)
    assert case.nearness.of(case.row, None, {}, GPUS) == {}
