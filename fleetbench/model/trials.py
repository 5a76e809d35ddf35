"""What runs: a configuration on GPUs of a host, its unit, what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from fleetbench.model.fleet import EMPTY, Device
from fleetbench.model.sweeps import Config, Workload


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPU indices in PCI bus order (`CUDA_DEVICE_ORDER=PCI_BUS_ID`), as nvidia-smi prints them."""

    indices: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.indices))

    @classmethod
    def parse(cls, text: str) -> GpuSet:
        """Given `0,1` or `0-3` or both, return the set in ascending order; ValueError on anything else."""
        found: set[int] = set()
        for part in filter(None, text.replace(" ", "").split(",")):
            match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part)
            if match is None:
                raise ValueError(f"not a GPU index or range: {part!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise ValueError(f"range runs backwards: {part!r}")
            found.update(range(first, last + 1))
        return cls(tuple(sorted(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """What a unit is rendered from; two equal specs render to the same text and hash.

    Attributes:
        name: unit name without `.service`: `vllm-8001`, or `vllm-sweep-8101` for a sweep unit.
        persistent: enabled, below /etc, restarted; a sweep unit lives in /run and is never restarted.
        bind: address the server listens on.
        credential: whether the unit loads the host's HF token.
        venv: path that ExecStart runs from (the link for persistent units, the venv itself in sweeps).
        build: name of the venv behind it: after an upgrade the spec is another one, and a restart is due.
        cache: directory below `cache/` for what it compiles; empty: the unit's own, or that of all sweeps.
        promoted: which trial it was made from, `RUN/N` and what that measured; no part of the hash.
    """

    name: str
    model: str
    port: int
    gpus: GpuSet
    config: Config
    user: str
    prefix: str
    venv: str
    build: str = ""
    device: Device = Device.CUDA
    served_name: str = ""
    bind: str = "0.0.0.0"  # noqa: S104  the source serves the network; firewalld stays closed by default
    serve_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    credential: bool = False
    cache: str = ""
    persistent: bool = True
    promoted: str = ""

    @property
    def unit(self) -> str:
        """Full unit name."""
        return f"{self.name}.service"

    @property
    def unit_path(self) -> str:
        """Where the unit file belongs: /run for sweeps, so that a reboot alone restores production."""
        return f"{'/etc' if self.persistent else '/run'}/systemd/system/{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something did not work: `kind` is a name of the signature table, `evidence` the decisive line."""

    kind: str
    cause: str
    evidence: str = ""
    advice: str = ""
    retryable: bool = False


class TrialState(StrEnum):
    """What became of a trial; every trial of a run ends in exactly one of the last four."""

    PENDING = "pending"
    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    IMPLIED = "implied"
    NOT_RUN = "not run"


class Step(StrEnum):
    """What a host does at a moment.

    STOP: production units and old servers end, facts are read. DRAIN: wait until the GPUs are free.
    LOAD: from the start of a server until its weights are loaded, imports included. COMPILE: from there until
    it is ready (compile, warm-up of the engine, graph capture). WARM_UP, MEASURE: a bench client runs.
    FETCH: what client and server left is fetched. RESTORE: production is given back. IDLE: nothing to do,
    the host does not answer, or no controller was there.
    """

    STOP = "stop"
    DRAIN = "drain"
    LOAD = "load"
    COMPILE = "compile"
    WARM_UP = "warm-up"
    MEASURE = "measure"
    FETCH = "fetch"
    RESTORE = "restore"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration on one GPU set of one host, and the workloads that are measured in it.

    `skipped` is why the planner rules it out (None: it is run), `predicted` what it expects of it. `gpus` are
    those of all its units; where these are several, `port` is the balancer's and `member_ports` are theirs.
    `gpu_name` is what the host's GPUs are called (`NVIDIA H200`), empty without GPUs.
    """

    number: int
    host: str
    gpus: GpuSet
    port: int
    config: Config
    workloads: tuple[Workload, ...]
    repeats: int
    skipped: Failure | None = None
    predicted: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    member_ports: tuple[int, ...] = ()
    gpu_name: str = ""
