"""Which trial runs where: hosts with the same GPUs share the work, different ones each do all of it.

The result of a trial always names host and GPUs, so two hosts of one kind are never mixed unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts, Missing, Topology
from fleetbench.model import Config, Device, GpuSet, Host, Model, Sweep, Trial
from fleetbench.plan.candidates import candidates
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.plan.spread import longest_first
from fleetbench.preflight import units_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A host that takes part: the GPUs it has (by index), their name and how they are connected, what makes
    it like another, a port that is free, and further ones that are."""

    host: Host
    gpus: GpuSet
    kind: str
    port: int
    topology: Topology | Missing | None = None
    more_ports: tuple[int, ...] = ()
    gpu_name: str = ""

    @classmethod
    def of(cls, host: Host, facts: HostFacts) -> Place:
        """Return the place that a host is. NotPossible when its GPUs cannot be seen."""
        port, *more = free_ports(host, facts)
        if isinstance(facts.gpus, Missing):
            if host.build.device is not Device.CPU:
                raise NotPossible(
                    "no GPU can be seen",
                    host=host.name,
                    cause=facts.gpus.reason,
                    next_step="nvidia-smi (or rocm-smi) on the host has to work first",
                )
            kind = f"cpu×{facts.cpus} {host.build.venv_name}"
            return cls(host=host, gpus=GpuSet(), kind=kind, port=port, more_ports=tuple(more))
        indices = tuple(sorted(gpu.index for gpu in facts.gpus))
        names = sorted(f"{gpu.name}/{gpu.memory_mib}" for gpu in facts.gpus)
        kind = f"{names} {host.build.venv_name}"
        return cls(
            host=host,
            gpus=GpuSet(indices),
            kind=kind,
            port=port,
            topology=facts.topology,
            more_ports=tuple(more),
            gpu_name=gpu_name(host, facts),
        )

    def member_ports(self, config: Config) -> tuple[int, ...]:
        """Return a port for each of a configuration's servers, where these are several and `port` is the
        balancer's. NotPossible when there are too few."""
        if config.units == 1:
            return ()
        if config.units > len(self.more_ports):
            first, last = self.host.sweep_ports
            raise NotPossible(
                f"{config.label} needs {config.units + 1} ports, and of {first} to {last}"
                f" {len(self.more_ports) + 1} are free",
                host=self.host.name,
                next_step="give the host more sweep_ports in hosts.toml",
            )
        return self.more_ports[: config.units]


def gpu_name(host: Host, facts: HostFacts) -> str:
    """Return what the GPUs that serve are called; empty for a build that serves from the processors, whatever
    GPUs there are beside it."""
    return "" if host.build.device is Device.CPU else facts.gpu_name


def free_port(host: Host, facts: HostFacts) -> int:
    """Return the first port for sweep units that nobody listens on. NotPossible when there is none."""
    return free_ports(host, facts)[0]


def free_ports(host: Host, facts: HostFacts) -> tuple[int, ...]:
    """Return the ports for sweep units that nobody listens on. NotPossible when there is none."""
    taken = set() if isinstance(facts.listeners, Missing) else {item.port for item in facts.listeners}
    # A sweep unit that a killed controller left behind keeps its port: its trial goes on there.
    ours = {unit.port for unit in units_of(facts).values() if unit.name.startswith("vllm-sweep-")}
    first, last = host.sweep_ports
    free = tuple(port for port in range(first, last + 1) if port not in taken or port in ours)
    if not free:
        raise NotPossible(
            f"no port for a sweep unit is free between {first} and {last}",
            host=host.name,
            next_step="give the host other sweep_ports in hosts.toml",
        )
    return free


def _alike(config: Config, place: Place) -> float:
    return 1.0


def trials(
    sweep: Sweep,
    model: Model,
    places: Sequence[Place],
    *,
    expected_s: Callable[[Config, Place], float] = _alike,
) -> tuple[Trial, ...]:
    """Given the places, return the trials in order, numbered from 1: each configuration once, then again for
    each further start.

    Trials of one kind of host are dealt out the longest first. Who really does a trial shows when a host
    takes it: the plan holds as far as everything takes as long as expected.
    """
    found: list[Trial] = []
    for kind in dict.fromkeys(place.kind for place in places):
        alike = [place for place in places if place.kind == kind]
        configs = candidates(sweep, model, len(alike[0].gpus.indices)) * sweep.starts
        spans = longest_first([expected_s(config, alike[0]) for config in configs], [0.0] * len(alike))
        for config, span in zip(configs, spans, strict=True):
            place = alike[span.lane]
            found.append(
                Trial(
                    number=len(found) + 1,
                    host=place.host.name,
                    gpus=gpu_set(config, place.gpus, place.topology),
                    port=place.port,
                    config=config,
                    workloads=sweep.workloads,
                    repeats=sweep.repeats,
                    member_ports=place.member_ports(config),
                    gpu_name=place.gpu_name,
                )
            )
    return tuple(found)


def gpu_set(config: Config, available: GpuSet, topology: Topology | Missing | None = None) -> GpuSet:
    """Return the GPUs that a configuration needs, of all its units, in ascending order.

    The first ones, or those that the topology connects best. When there are too few, all are returned: the
    server then says so itself, and the trial keeps that cause.
    """
    chosen = gpu_sets(config, available, topology)
    return GpuSet(tuple(sorted(index for one in chosen for index in one.indices)))
