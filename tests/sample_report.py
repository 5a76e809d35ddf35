"""A made-up sweep with one of everything that can become of a row, and its raw files: for pages and pictures.

The numbers follow from a formula and are nobody's measurement.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unit"))
from report_rows import measurement, result, run, trial

from fleetbench.model import Config, Failure, GpuSet, ServiceSpec, TrialState, Workload
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import Finding, MeasurementKind, MeasurementRow, TrialRow, Verdict
from fleetbench.units import render, spec_hash

REPO = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
WORKLOAD = Workload(num_prompts=10_000, max_concurrency=1000, temperature=0.7)
OUT_OF_MEMORY = Failure(
    kind="gpu-out-of-memory",
    cause="GPU 0 has no room for the KV cache beside the weights",
    evidence="ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    advice="take a higher tp, or a shorter --max-model-len",
)
IMPLIED = Failure(kind="implied", cause="trial 9 failed for want of memory, and this one needs more of it")
NOT_RUN = Failure(
    kind="not-run", cause="the controller was stopped before its turn", advice="invoke sweep --resume"
)
INVALID = "2,310 of 10,000 requests failed: the throughput is that of the others"
SUSPECT = "another process was on GPU 3 for 41 s of the measurement"
JOURNAL = "2026-11-30T14:13:{second:02d}.120000+0000 gpu-01 vllm[3313]: {text}"


def everything(directory: Path | None = None, trials: int = 12) -> Report:
    """Return the report of a sweep of so many trials; its raw files are written below the directory."""
    rows, measured = [], []
    for number, config in zip(range(1, trials + 1), _configurations(), strict=False):
        row, found = _trial(number, config)
        rows.append(row)
        measured += found
        if directory is not None:
            _write(directory, row, found)
    given = run(
        id="20261130-141233-qwen3-coder-3f2a",
        model="qwen3-coder",
        repo=REPO,
        sweep="tp-dp",
        hosts=("gpu-01",),
        fleetbench_version="0.1.0",
    )
    return summarise(given, rows, measured)


def _configurations() -> Iterator[Config]:
    splits = [(8, 1), (4, 2), (2, 4), (1, 8), (4, 1), (2, 2), (1, 4), (2, 1), (1, 2), (1, 1), (1, 3), (8, 2)]
    for length, (tp, dp) in product((None, *(1024 * k for k in range(2, 200))), splits):
        yield Config(tp=tp, dp=dp, max_model_len=length)


def _trial(number: int, config: Config) -> tuple[TrialRow, list[MeasurementRow]]:
    spec = ServiceSpec(
        name=f"vllm-sweep-{8100 + number}",
        model=REPO,
        port=8100 + number,
        gpus=GpuSet(tuple(range(min(8, config.gpus)))),
        config=config,
        user="vllm",
        prefix="/opt/vllm",
        venv="/opt/vllm/venvs/vllm-0.11.2",
        persistent=False,
    )
    row = trial(
        number,
        config,
        host="gpu-01",
        workloads=(WORKLOAD,),
        gpus=spec.gpus,
        gpu_name="NVIDIA H200",
        unit_name=spec.unit,
        unit_text=render(spec),
        spec_hash=spec_hash(spec),
    )
    kind = (number - 1) % 12
    if kind == 8:
        return replace(row, state=TrialState.FAILED, failure=OUT_OF_MEMORY, ready_s=None), []
    if kind == 9:
        return replace(row, state=TrialState.IMPLIED, failure=IMPLIED, ready_s=None), []
    if kind == 11:
        return replace(row, state=TrialState.NOT_RUN, failure=NOT_RUN, ready_s=None), []
    return row, _measurements(number, config, kind)


def _measurements(number: int, config: Config, kind: int) -> list[MeasurementRow]:
    draw = random.Random(number)  # noqa: S311  no secrets
    speed = 5200 * config.gpus**0.86 / config.tp**0.22
    verdict, text = Verdict.VALID, ""
    if kind in (6, 10):
        verdict, text = (Verdict.SUSPECT, SUSPECT) if kind == 6 else (Verdict.INVALID, INVALID)
    rule = "foreign-load" if kind == 6 else "failed-requests"
    findings = (Finding(rule=rule, verdict=verdict, text=text, numbers={"seconds": 41.0}),) if text else ()
    made = []
    for repeat in range(4):
        found = result(
            speed * draw.uniform(0.99, 1.01) * (0.7 if repeat == 0 else 1),
            completed=7690 if kind == 10 else 10_000,
            failed=2310 if kind == 10 else 0,
            num_prompts=10_000,
        )
        how = MeasurementKind.MEASURE if repeat else MeasurementKind.WARMUP
        row = measurement(number, repeat or 1, found, verdict, *filter(None, [text]), kind=how)
        made.append(
            replace(row, findings=findings, client_program="rust", client_version="0.33.0", client="gpu-01")
        )
    return made


def _write(directory: Path, row: TrialRow, measured: list[MeasurementRow]) -> None:
    place = directory / f"trial-{row.number:02d}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "unit.service").write_text(row.unit_text)
    said = [
        "INFO vLLM API server version 0.11.2",
        "INFO Starting to load model",
        "INFO Loading weights took 12 s",
    ]
    said += (
        [row.failure.evidence]
        if row.failure and row.failure.evidence
        else ["INFO Application startup complete."]
    )
    lines = [JOURNAL.format(second=at, text=text) for at, text in enumerate(said)]
    (place / "server.journal").write_text("\n".join(lines) + "\n")
    side = {
        "host": "gpu-01",
        "os": "Rocky Linux 9.6 (Blue Onyx)",
        "kernel": "5.14.0-570.el9",
        "driver": "570.133.20",
        "cuda": "12.8",
        "python": "3.12.11",
        "gpus": ["NVIDIA H200"] * 8,
        "packages": {"vllm": "0.11.2", "torch": "2.9.0"},
    }
    (place / "versions.json").write_text(json.dumps({"server": side, "client": side}))
    for found in measured:
        there = directory / found.directory
        there.mkdir(parents=True, exist_ok=True)
        command = f"/opt/vllm/venvs/vllm-0.11.2/bin/vllm bench serve --model {REPO} --seed {found.seed}"
        (there / "client.json").write_text(json.dumps({"command": command}))
