"""A run that was measured on a host played by a table, with its raw files and manifest, for tests of both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nouns import HOST, MODEL, facts
from nouns import spec as service_spec
from test_measure import CLIENT, REPORT, SERVER, ClientHost

from fleetbench.bench.left import keep_files
from fleetbench.bench.measure import Task, measure
from fleetbench.bench.prepare import Programs
from fleetbench.bench.witness import NoWitness, Seen
from fleetbench.facts.document import to_json
from fleetbench.model import Config, GpuSet, Trial, TrialState, Workload
from fleetbench.results import manifest, raw_files
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunKind, RunState, as_json
from fleetbench.results.store import Store
from fleetbench.results.values import BenchResult
from fleetbench.service.http import Served
from fleetbench.sweep import witnessed
from fleetbench.sweep.answers import Answers, files_of, together
from fleetbench.sweep.versions import document, versions_of
from fleetbench.telemetry.summary import AFTER, BEFORE, FILES, summary
from fleetbench.transport.base import CommandResult
from fleetbench.units import render, spec_hash

WORKLOAD = Workload(num_prompts=4000, max_concurrency=400)
PORT = 8101
LOG = "INFO 11-30 10:00:00 [api_server.py:1] vLLM API server version 0.33.0\n"
METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",engine="0"} 1.0\n'


COUNTERS = """# fleetbench: 127.0.0.1 port 8101
vllm:request_success_total{{engine="0",finished_reason="length"}} {requests}
vllm:prompt_tokens_total{{engine="0"}} {tokens}
vllm:prefix_cache_queries_total{{engine="0"}} {tokens}
vllm:prefix_cache_hits_total{{engine="0"}} 0
"""


class Counters:
    """A witness that keeps counters which fit to what the client sent, as the one of a sweep does."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def outlived(self, row: MeasurementRow) -> bool:
        """It never was another server."""
        return False

    def before(self, row: MeasurementRow) -> None:
        """Keep the counters of a fresh server."""
        self._keep(row, BEFORE, 0)

    def after(self, row: MeasurementRow, result: BenchResult | None) -> Seen:
        """Keep what they came to, and judge by the files."""
        self._keep(row, AFTER, 4000)
        observed = witnessed.Observed(vocabulary=151_669)
        place = self.store.directory(row.run_id) / row.directory
        keep_files(place, {witnessed.OBSERVED: witnessed.to_json(observed)})
        before, after = ((place / name).read_text() for name in (BEFORE, AFTER))
        content = {name: data for name in FILES if (data := raw_files.read(place, name)) is not None}
        return Seen(
            findings=witnessed.found(before, after, observed, result, WORKLOAD),
            telemetry=dict(summary(content, result.duration if result else None)),
        )

    def forget(self, row: MeasurementRow, *, keep: bool = False) -> None:
        """Nothing is there."""

    def _keep(self, row: MeasurementRow, name: str, requests: int) -> None:
        text = COUNTERS.format(requests=requests, tokens=requests * 128)
        head = f"# fleetbench: attempt {row.attempt}, invocation abc\n# 2026-11-30T10:00:00Z\n"
        keep_files(self.store.directory(row.run_id) / row.directory, {name: f"{head}{text}".encode()})


class Reporting(ClientHost):
    """A host whose client reports what it is told to."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        super().__init__()
        nothing = CommandResult(command="", exit_status=1, stdout="", stderr="")
        self.fake.rules.insert(0, ("systemctl is-active -q", nothing))

    def start(self, line: str) -> str:
        """Start as ever, and leave the report."""
        word = super().start(line)
        place = next(name for name in self.fake.files if name.endswith("result.json"))
        self.fake.files[place] = json.dumps(self.report).encode()
        return word


def measured_run(
    store: Store, repeats: int = 2, reports: Callable[[int], dict[str, Any]] | None = None
) -> str:
    """Measure a trial with one warm-up and so many repeats, end and seal the run; return its id."""
    unit = service_spec(PORT, (0,), persistent=False, name=f"vllm-sweep-{PORT}")
    trial = Trial(
        number=1,
        host=CLIENT.name,
        gpus=GpuSet((0,)),
        port=PORT,
        config=Config(),
        workloads=(WORKLOAD,),
        repeats=repeats,
    )
    run = store.create_run(
        kind=RunKind.SWEEP, model=MODEL.name, repo=MODEL.repo, hosts=[CLIENT.name], trials=[trial]
    )
    directory = store.directory(run.id)
    answers = Answers(
        log=LOG,
        served=Served(models=(MODEL.repo,), max_model_len=4096, version="0.33.0", completion="ok"),
        metrics=METRICS,
    )
    known = as_json(together([answers.effective]))
    assert isinstance(known, dict)
    store.set_trial(
        run.id,
        1,
        state=TrialState.RUNNING,
        unit_name=unit.unit,
        unit_text=render(unit),
        spec_hash=spec_hash(unit),
        vllm_version="0.33.0",
        ready_s=12.5,
        effective=known | {"invocation": "abc"},
    )
    versions = versions_of(facts(), HOST.venv)
    keep_files(
        directory / "trial-01",
        {
            "unit.service": render(unit).encode(),
            "facts-before.json": to_json(facts()).encode(),
            "server.journal": LOG.encode(),
            "versions.json": document("0.1.0", {"python": "3.11"}, versions, versions),
            **files_of(PORT, answers),
        },
    )
    warmup = replace(WORKLOAD, num_prompts=400)
    for kind, repeat, workload in [
        (MeasurementKind.WARMUP, 1, warmup),
        *((MeasurementKind.MEASURE, repeat, WORKLOAD) for repeat in range(1, repeats + 1)),
    ]:
        report = {**REPORT, "num_prompts": workload.num_prompts, "completed": workload.num_prompts}
        report |= reports(repeat) if reports and kind is MeasurementKind.MEASURE else {}
        host = Reporting(report)
        measure(
            store,
            Task(
                run_id=run.id,
                trial=1,
                workload_index=0,
                workload=workload,
                repeat=repeat,
                kind=kind,
                seed=1_000_000 + repeat + 500 * (kind is MeasurementKind.WARMUP),
                limit_s=60,
            ),
            SERVER,
            CLIENT,
            host.session,
            programs=Programs(),
            witness=Counters(store) if kind is MeasurementKind.MEASURE else NoWitness(),
        )
    manifest.record(directory, "trial-01", deep=False)
    store.set_trial(run.id, 1, state=TrialState.MEASURED)
    store.set_run_state(run.id, RunState.DONE)
    manifest.seal_when_over(directory, store.run(run.id))
    return run.id


def alter(path: Path, old: str, new: str) -> None:
    """Change a raw file as somebody would who changes one digit, packed or not."""
    packed = path.with_name(f"{path.name}.gz")
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    assert content.count(old.encode()) >= 1, f"{old} is not in {path}"
    changed = content.replace(old.encode(), new.encode(), 1)
    if packed.exists():
        packed.write_bytes(gzip.compress(changed))
    else:
        path.write_bytes(changed)
