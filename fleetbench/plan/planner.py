"""The plan of a sweep on one host: every configuration with a verdict, the numbers behind it, and its GPUs.

Pure: inventory, config.json and facts in, values out. `document` makes the plan JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from fleetbench.facts.values import Gpu, HostFacts, Missing
from fleetbench.model import Build, Config, Device, GpuSet, Host, Model, Sweep
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.arguments import ServeArguments, read_arguments
from fleetbench.plan.candidates import candidates, every_split, with_axes
from fleetbench.plan.divisibility import split_reasons
from fleetbench.plan.flags import SAME_NUMBERING, check_flags, flag_reasons, serve_words
from fleetbench.plan.gates import gate_reasons
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.plan.hardware import devices, hardware_reasons
from fleetbench.plan.memory import Device as MemoryDevice
from fleetbench.plan.memory import Estimate, estimate
from fleetbench.plan.reason import Effect, Reason, impossible, remark
from fleetbench.vllm_features import parse_version


class Verdict(StrEnum):
    """What becomes of a configuration. `VALID`: it can be split so, its memory is not predicted."""

    FITS = "fits"
    TIGHT = "tight"
    CANNOT = "cannot"
    IMPOSSIBLE = "impossible"
    VALID = "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration of the plan.

    Attributes:
        vllm: version that it is judged for.
        run: whether the sweep will try it.
        reasons: what decided first, remarks last.
        estimate: of one GPU of one engine; None where it makes no sense (impossible) or cannot be made.
        gpus: one set for each unit; empty for what is not run.
    """

    config: Config
    vllm: str
    verdict: Verdict
    run: bool
    reasons: tuple[Reason, ...] = ()
    estimate: Estimate | None = None
    gpus: tuple[GpuSet, ...] = ()

    @property
    def engines(self) -> int:
        """Engines with a KV cache of their own: data parallel ranks of all units."""
        return self.config.dp * self.config.units


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one sweep of one model on one host. Memory in GiB, as torch sees it; `vllm` names every
    version that is to serve."""

    sweep: str
    model: str
    repo: str
    host: str
    vllm: str
    gpu: str
    gpu_count: int
    gpu_memory_gib: float | None
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()

    @property
    def to_run(self) -> tuple[Candidate, ...]:
        """The candidates that the sweep will try, in order."""
        return tuple(candidate for candidate in self.candidates if candidate.run)


def plan_sweep(
    sweep: Sweep,
    model: Model,
    architecture: Architecture,
    facts: HostFacts,
    host: Host,
    *,
    builds: Mapping[str, Build] = MappingProxyType({}),
    try_all: bool = False,
    every: bool = False,
    overhead_gib: float | None = None,
) -> Plan:
    """Return the plan. UsageError when the sweep has no configuration for the host, or an argument is wrong.

    `builds` are those of the inventory: each configuration is judged by the rules of the version that is to
    serve it. `tight` is tried. `cannot` and `impossible` are not, unless `try_all`; what needs more GPUs than
    there are never is. `every` judges every split that there is instead of those that the sweep names.
    `overhead_gib` is what an earlier start of the model on such a GPU was seen to need (`overhead_of`).
    """
    check_flags(sweep, model, [builds[name] for name in sweep.builds] or [host.build])
    cards = () if host.build.device is Device.CPU else devices(facts)  # a CPU build leaves GPUs alone
    smallest = min(cards, key=lambda card: card[1].visible_gib, default=None)
    found = () if isinstance(facts.gpus, Missing) else facts.gpus
    count = len(found)
    if every:
        configs = with_axes(every_split(count, moe=architecture.experts is not None), sweep, model)
    else:
        configs = candidates(sweep, model, count)
    judge = _Judge(
        sweep=sweep,
        model=model,
        architecture=architecture,
        host=host,
        builds=builds,
        card=smallest,
        gpus=found,
        overhead_gib=overhead_gib,
    )
    available = GpuSet(tuple(sorted(gpu.index for gpu in found)))
    judged = []
    for config in configs:
        candidate = judge.candidate(config)
        missing = any(reason.rule == "gpus" for reason in candidate.reasons)
        wanted = candidate.verdict not in (Verdict.CANNOT, Verdict.IMPOSSIBLE) or (try_all and not missing)
        sets = gpu_sets(config, available, facts.topology) if wanted and count else ()
        judged.append(replace(candidate, run=wanted, gpus=sets))
    return Plan(
        sweep=sweep.name,
        model=model.name,
        repo=model.repo,
        host=host.name,
        vllm=", ".join(dict.fromkeys(candidate.vllm for candidate in judged)),
        gpu=smallest[0].name if smallest else (found[0].name if found else host.build.device.value),
        gpu_count=count,
        gpu_memory_gib=smallest[1].visible_gib if smallest else None,
        candidates=tuple(judged),
        notes=(*architecture.notes, *_notes(facts, found, architecture)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """What is the same for all configurations of a plan."""

    sweep: Sweep
    model: Model
    architecture: Architecture
    host: Host
    builds: Mapping[str, Build]
    card: tuple[Gpu, MemoryDevice] | None
    gpus: tuple[Gpu, ...]
    overhead_gib: float | None

    def candidate(self, config: Config) -> Candidate:
        """Return one configuration with its verdict; whether it runs is decided by the caller."""
        build = self.builds[config.build] if config.build else self.host.build
        version = parse_version(build.version)
        words = serve_words(self.model, config)
        arguments = read_arguments(words)
        # Expert parallelism may come by the model's arguments too; then every configuration has it.
        real = replace(config, ep=config.ep or arguments.expert_parallel)
        # On a CPU host a rank is a process; as many as one likes.
        cpu = build.device is Device.CPU and not self.gpus
        reasons = [
            *flag_reasons(words, build, version),
            *split_reasons(self.architecture, real, real.gpus if cpu else len(self.gpus)),
            *self._of_the_model(real, arguments, build),
        ]
        estimated = None
        if self.card is not None and not _stops(reasons):
            estimated = estimate(
                self.architecture,
                real,
                self.card[1],
                version,
                arguments,
                request_tokens=max((load.request_tokens for load in self.sweep.workloads), default=256),
                overhead_gib=self.overhead_gib,
            )
        headroom = estimated.headroom_gib if estimated is not None else None
        reasons += gate_reasons(self.architecture, real, version, headroom)
        if estimated is not None:
            reasons += [*estimated.reasons, *self._of_the_load(real, estimated)]
        return Candidate(
            config=config,
            vllm=build.version,
            verdict=_verdict(reasons, estimated),
            run=False,
            reasons=tuple(sorted(reasons, key=lambda reason: list(Effect).index(reason.effect))),
            estimate=estimated,
        )

    def _of_the_model(self, config: Config, arguments: ServeArguments, build: Build) -> Iterator[Reason]:
        least, version = self.model.min_vllm, parse_version(build.version)
        if least and build.package in SAME_NUMBERING and version < parse_version(least):
            whose = f"build {config.build}" if config.build else "host"
            yield impossible("version", f"{self.model.name} needs vLLM {least}, the {whose} has {version}")
        if self.card is not None:
            yield from hardware_reasons(self.architecture, arguments, self.card[0], build, version)
        length = config.max_model_len or self.architecture.max_positions
        for workload in self.sweep.workloads:
            tokens = workload.request_tokens
            if workload.dataset == "random" and tokens > length:
                yield impossible("context", f"requests of {tokens} tokens do not go into {length}")
                return

    def _of_the_load(self, config: Config, found: Estimate) -> Iterator[Reason]:
        experts = self.architecture.experts is not None
        if config.dp > 1:
            whole = found.weights_gib - found.experts_gib
            split = f" over tp={config.tp}" if config.tp > 1 else ""
            more = f" + {found.experts_gib:.1f} of experts, divided by tp×dp={config.tp * config.dp}"
            yield remark(
                "weights on each gpu",
                f"{whole:.1f} GiB that each data parallel rank holds in full{split}{more if experts else ''}",
            )
        wanted = max((workload.max_concurrency or 0 for workload in self.sweep.workloads), default=0)
        together = found.sequences * config.dp * config.units
        if 0 < together < wanted:
            yield remark(
                "concurrency",
                f"about {together} requests of {found.request_tokens} tokens run at a time,"
                f" the load has {wanted}",
            )
        if any(workload.dataset != "random" for workload in self.sweep.workloads):
            yield remark(
                "load",
                f"how long a file's prompts are is not known: counted as {found.request_tokens} tokens",
            )


def _stops(reasons: list[Reason]) -> bool:
    """True when a split cannot be: then there is no GPU whose memory could be estimated."""
    return any(reason.effect is Effect.IMPOSSIBLE and reason.rule != "gpus" for reason in reasons)


def _verdict(reasons: list[Reason], estimated: Estimate | None) -> Verdict:
    effects = {reason.effect for reason in reasons}
    if Effect.IMPOSSIBLE in effects:
        return Verdict.IMPOSSIBLE
    if Effect.CANNOT in effects:
        return Verdict.CANNOT
    if Effect.DOUBT in effects:
        return Verdict.TIGHT
    return Verdict.VALID if estimated is None else Verdict.FITS


def _notes(facts: HostFacts, found: tuple[Gpu, ...], architecture: Architecture) -> Iterator[str]:
    if isinstance(facts.gpus, Missing):
        yield f"memory is not predicted: {facts.gpus.reason}"
    kinds = {(gpu.name, gpu.memory_mib) for gpu in found}
    if len(kinds) > 1:
        yield "the GPUs are not alike: judged by the smallest"
    if architecture.sliding_layers:
        yield (
            f"{architecture.sliding_layers} of {architecture.layers} layers keep the last"
            f" {architecture.window} tokens only"
        )
