"""How long a trial's steps take, guessed from weights, disk and GPU: for want of anything measured.

A step of the engine takes as long as reading the weights it touches or as its arithmetic (`work` has both),
whichever is longer, and the host's own work for each sequence. `data/durations.toml` says where its figures
come from.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import Config, Device, Host, Workload
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.hardware import card_of
from fleetbench.plan.weights import GIB, count
from fleetbench.plan.work import Work, expert_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The figures of one kind of host; `data/durations.toml` says what each is."""

    stop_s: float
    drain_s: float
    fetch_s: float
    process_s: float
    engine_s: float
    compile_layer_s: float
    capture_s: float
    capture_experts_s: float
    client_s: float
    sequence_s: float
    step_s: float
    share: float
    disk_gb_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a model takes time. `experts_gib` of the weights are experts, of which a token uses
    `experts_share`."""

    weights_gib: float
    layers: float
    experts_gib: float = 0.0
    experts_share: float = 1.0
    known: bool = True

    @classmethod
    def of(cls, architecture: Architecture | None) -> Shape:
        """Return the shape of a model; a usual one where its config.json is not there."""
        if architecture is None:
            usual = _usual("model")
            return cls(weights_gib=usual["weights_gib"], layers=usual["layers"], known=False)
        weights = count(architecture)
        return cls(
            weights_gib=weights.total / GIB,
            layers=architecture.layers,
            experts_gib=weights.experts / GIB,
            experts_share=expert_share(architecture),
        )

    @property
    def work(self) -> Work:
        """What a token costs all GPUs together; as if each weight had 16 bit, context not counted."""
        dense, experts = (self.weights_gib - self.experts_gib) * GIB, self.experts_gib * GIB
        return Work(
            dense_bytes=dense,
            expert_bytes=experts,
            expert_share=self.experts_share,
            token_flop=dense + experts * self.experts_share,  # two operations for two bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What of a host takes time: figures of one GPU, or of all its cores."""

    cpu: bool
    bandwidth_gb_s: float
    tflops: float

    @classmethod
    def of(cls, host: Host, facts: HostFacts) -> Machine:
        """Return the figures of a host's GPUs, from the catalogue of the data sheets."""
        gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
        if host.build.device is Device.CPU or not gpus:
            usual = _usual("cpu")
            return cls(cpu=True, bandwidth_gb_s=usual["bandwidth_gb_s"], tflops=usual["tflops"])
        card = card_of(gpus[0])
        if card is None:
            return cls.usual()
        return cls(cpu=False, bandwidth_gb_s=card.bandwidth_gb_s, tflops=card.tflops)

    @classmethod
    def usual(cls) -> Machine:
        """Return the figures of a GPU that is not in the catalogue."""
        usual = _usual("gpu")
        return cls(cpu=False, bandwidth_gb_s=usual["bandwidth_gb_s"], tflops=usual["tflops"])

    @property
    def table(self) -> Table:
        """The figures of its kind."""
        return _tables()["cpu" if self.cpu else "gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What to go by where nothing was measured: a model on a machine."""

    shape: Shape
    machine: Machine

    def load_s(self, config: Config) -> float:
        """Return the time from a server's start until its weights are there, imports included."""
        table = self.machine.table
        copies = config.dp * config.units
        weights_gb = self.shape.weights_gib * GIB / 1e9
        # Further ranks of a GPU host start side by side and read what is in page cache by then.
        return table.process_s * (copies if self.machine.cpu else 1) + weights_gb / table.disk_gb_s

    def compile_s(self, config: Config, arguments: Sequence[str] = ()) -> float:
        """Return the time from there until it is ready; `arguments` are those that the server gets."""
        table = self.machine.table
        if "--enforce-eager" in (*arguments, *config.serve_args):
            return table.engine_s
        capture = table.capture_experts_s if self.shape.experts_gib else table.capture_s
        return table.engine_s + table.compile_layer_s * self.shape.layers / config.pp + capture

    def measure_s(self, config: Config, workload: Workload) -> float:
        """Return the time of one execution of the bench client, its own start included."""
        engines = config.dp * config.units
        together = min(workload.max_concurrency or workload.num_prompts, workload.num_prompts)
        batch = max(1, math.ceil(together / engines))
        waves = workload.num_prompts / together
        decoding = workload.output_len * self._step_s(config, batch)
        prefill = batch * workload.input_len * self._work_s(config, 1)
        served = waves * (decoding + prefill)
        if workload.request_rate:
            served = max(served, workload.num_prompts / workload.request_rate)
        return self.machine.table.client_s + served

    def _step_s(self, config: Config, batch: int) -> float:
        """Return the time of one step that gives each of `batch` sequences a token."""
        table = self.machine.table
        reading = self.shape.work.weight_bytes(batch) / (
            self.machine.bandwidth_gb_s * 1e9 * self._gpus(config)
        )
        return max(reading, self._work_s(config, batch)) + table.sequence_s * batch + table.step_s

    def _work_s(self, config: Config, tokens: int) -> float:
        """Return the time of the arithmetic of so many tokens."""
        operations = self.shape.work.token_flop * tokens
        return operations / (self.machine.tflops * 1e12 * self.machine.table.share * self._gpus(config))

    def _gpus(self, config: Config) -> int:
        return 1 if self.machine.cpu else config.tp * config.pp


@cache
def _tables() -> Mapping[str, Table]:
    return {kind: Table(**_data()[kind]) for kind in ("gpu", "cpu")}


def _usual(what: str) -> Mapping[str, float]:
    found: Mapping[str, float] = _data()["unknown"][what]
    return found


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((resources.files("fleetbench") / "data" / "durations.toml").read_text("utf-8"))
