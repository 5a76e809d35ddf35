"""What the store hands out: one frozen value for each row. Nothing here knows a database.

Times are UTC in ISO 8601 with seconds (`2026-11-30T14:12:33Z`), so that they sort as text and read the same
in SQLite, PostgreSQL and CSV.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from types import MappingProxyType

from fleetbench.model import Config, Failure, GpuSet, TrialState, Workload
from fleetbench.results.values import BenchResult

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
NOTHING: Mapping[str, Json] = MappingProxyType({})


class RunKind(StrEnum):
    """Which command made a run."""

    BENCH = "bench"
    SWEEP = "sweep"


class RunState(StrEnum):
    """Where a run stands. The first two are unfinished: a controller may find and resume them."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    FAILED = "failed"


UNFINISHED = (RunState.RUNNING, RunState.INTERRUPTED)


class MeasurementKind(StrEnum):
    """Only `measure` counts: a warm-up is shown, and a control (a repeat while other trials run on the host)
    decides whether trials may run side by side."""

    WARMUP = "warmup"
    CONTROL = "control"
    MEASURE = "measure"


class MeasurementState(StrEnum):
    """`running` also means: started by a controller that is gone; its unit name tells where to look."""

    RUNNING = "running"
    FINISHED = "finished"


class Verdict(StrEnum):
    """What a measurement is worth. Rankings, charts and findings use `valid` ones only."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that speaks against a number, or that its reader has to know.

    Attributes:
        rule: name of the rule that found it, as in the table of docs/measurement.md.
        verdict: what it makes of the measurement at least; `valid` is a remark.
        text: one sentence with the numbers in it.
        numbers: what the sentence rests on, by name, units in the names.
    """

    rule: str
    verdict: Verdict
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One `invoke bench` or `invoke sweep`.

    Attributes:
        hosts: inventory names, in the order given.
        repo: what was served: Hugging Face name or path.
        arguments: everything that a resumed controller needs to go on.
        fingerprint: hash of what was asked for; equal fingerprints mean the same work.
        controller: `host:pid:start` of the process that works on it, or worked last.
        note: why it stands where it stands, one sentence.
        origin: archive that it was added from, and when; empty: it was made in this store.
    """

    id: str
    kind: RunKind
    state: RunState
    model: str
    repo: str = ""
    sweep: str = ""
    hosts: tuple[str, ...]
    arguments: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    fingerprint: str = ""
    controller: str = ""
    note: str = ""
    fleetbench_version: str = ""
    created_at: str
    updated_at: str
    ended_at: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """A configuration on a GPU set of a host, what was served for it and what became of it.

    Attributes:
        unit_text, spec_hash: the unit as it was installed on the host.
        vllm_version: what the live server reported, not what was asked for.
        ready_s: seconds from start to ready; None: it never was, or is not yet.
        effective: values that the server settled on (`max_model_len`, `kv_cache_tokens` …).
        predicted: what the planner expected (`verdict`, `weights_gib`, `kv_tokens` …); empty: not judged.
        packed_with: numbers of the trials that ran beside it on other GPUs of the host (`--pack`).
        member_ports: of several units, whose balancer has `port`; `gpus` are those of all of them.
        gpu_name: what the host's GPUs are called; empty: it has none, or an older
            version stored the row.
    """

    run_id: str
    number: int
    host: str
    gpus: GpuSet
    port: int
    config: Config
    workloads: tuple[Workload, ...]
    repeats: int
    state: TrialState
    failure: Failure | None = None
    unit_name: str = ""
    unit_text: str = ""
    spec_hash: str = ""
    vllm_version: str = ""
    ready_s: float | None = None
    effective: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    predicted: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    started_at: str = ""
    ended_at: str = ""
    packed_with: tuple[int, ...] = ()
    member_ports: tuple[int, ...] = ()
    gpu_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRow:
    """One execution of the bench client.

    Attributes:
        workload_index: position in the trial's workloads, from 0. repeat: from 1.
        unit_name: transient unit on the client host that runs it.
        client: inventory name of the host that the client runs on.
        attempt: how often it was started; more than 1 means that an earlier one left no result.
        directory: where its raw files are, relative to the run's directory.
        exit_status: of the client; None when unknown. 0 proves nothing, see the verdict.
        client_program: what measured: `python`, `python, preloaded` or `rust`; empty: not known.
        client_version: vLLM that it belongs to.
        findings: what the rules say; reasons: all that is said of it, those of the findings among them.
        result: None until it is finished.
        telemetry: what was sampled while it ran, by name (`kv_usage_max`, `gpu_power_w_mean` …).
        ceiling: how near it came to what the hardware could do at most (`decode_percent`, `binds` …).
    """

    run_id: str
    trial: int
    workload_index: int
    repeat: int
    kind: MeasurementKind
    seed: int
    unit_name: str
    client: str
    state: MeasurementState
    attempt: int = 1
    started_at: str = ""
    ended_at: str = ""
    exit_status: int | None = None
    directory: str = ""
    client_program: str = ""
    client_version: str = ""
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    result: BenchResult | None = None
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self.state is MeasurementState.FINISHED


@dataclass(frozen=True, slots=True)
class TrialCount:
    """How many trials of a run are in a state."""

    run_id: str
    state: TrialState
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRow:
    """A persistent unit whose GPUs were borrowed, and in which state it was found.

    Attributes:
        active_state, enabled_state: as `systemctl show` gave them (`ActiveState`, `UnitFileState`).
        spec_hash: of the unit's text when it was taken.
        returned_at: empty while the loan is open. proof: what showed that it serves again.
    """

    run_id: str
    host: str
    unit: str
    active_state: str
    enabled_state: str = ""
    spec_hash: str = ""
    taken_at: str = ""
    returned_at: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and every finding behind it, the worst first; a valid one may still carry remarks."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences of the findings."""
        return tuple(finding.text for finding in self.findings)


def as_json(value: object) -> Json:
    """Given any of these values, return it as plain JSON, field names as keys; GPU sets as lists."""
    if isinstance(value, GpuSet):
        return list(value.indices)
    if is_dataclass(value):
        return {entry.name: as_json(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
