"""What a trial is served by: one server, or several on GPU sets of their own behind a balancer. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from fleetbench.deploy import Wish, service_spec
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, Host, Model, ServiceSpec, Workload
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.preflight import refuse_member_count, refuse_without_nginx
from fleetbench.results.rows import Json, TrialRow
from fleetbench.service.lifecycle import address_of
from fleetbench.sweep.balancer import Balancer, config_text, unit_text
from fleetbench.sweep.balancer import spec_hash as balancer_hash
from fleetbench.units import render, spec_hash

MEMBER_ADDRESS = "127.0.0.1"  # only the balancer talks to them


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """The servers of a trial in the order of their GPU sets, and what stands in front of several."""

    members: tuple[ServiceSpec, ...]
    balancer: Balancer | None = None

    @property
    def unit(self) -> str:
        """The unit that clients talk to: the only server's, or the balancer's."""
        return self.balancer.unit if self.balancer is not None else self.members[0].unit

    @property
    def units(self) -> tuple[str, ...]:
        """All units, what clients talk to first."""
        return tuple(dict.fromkeys((self.unit, *(member.unit for member in self.members))))

    @property
    def port(self) -> int:
        """Its port."""
        return self.balancer.port if self.balancer is not None else self.members[0].port

    @property
    def bind(self) -> str:
        """The address that it listens on."""
        return self.balancer.bind if self.balancer is not None else self.members[0].bind

    @property
    def address(self) -> str:
        """The address under which its own host reaches it."""
        return address_of(self.bind)

    @property
    def texts(self) -> Mapping[str, str]:
        """Every file that belongs to it, by its path on the host, what clients talk to first."""
        files = {member.unit_path: render(member) for member in self.members}
        if self.balancer is None:
            return files
        front = {
            self.balancer.unit_path: unit_text(self.balancer),
            self.balancer.config_path: config_text(self.balancer),
        }
        return front | files

    @property
    def text(self) -> str:
        """The unit's text; of several files each below its path, as `systemctl cat` prints them."""
        if self.balancer is None:
            return render(self.members[0])
        return "\n".join(f"# {path}\n{text}" for path, text in self.texts.items())

    @property
    def spec_hash(self) -> str:
        """The hash that tells this arrangement from any other: the only server's own, or one over all."""
        if self.balancer is None:
            return spec_hash(self.members[0])
        hashes = [balancer_hash(self.balancer), *map(spec_hash, self.members)]
        return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:12]

    @property
    def evidence(self) -> Mapping[str, str]:
        """The texts by the name that they are kept under: `unit.service` for the only one."""
        if self.balancer is None:
            return {"unit.service": self.text}
        return {PurePosixPath(path).name: text for path, text in self.texts.items()}

    def journals(self, began: Mapping[str, str]) -> Mapping[str, str]:
        """Given invocations by unit, return them by the name that a journal is kept under."""
        if self.balancer is None:
            return {"server.journal": began.get(self.unit, "")}
        return {f"{unit.removesuffix('.service')}.journal": began.get(unit, "") for unit in self.units}

    def role(self, unit: str) -> str:
        """Say which of several a unit is, as it stands in a message; empty when there is one only."""
        if self.balancer is None:
            return ""
        if unit == self.balancer.unit:
            return f"the balancer on port {self.balancer.port}"
        for number, member in enumerate(self.members, start=1):
            if unit == member.unit:
                gpus = f"GPU {member.gpus}, " if member.gpus.indices else ""
                return f"server {number} of {len(self.members)} ({gpus}port {member.port})"
        return ""


def arrange(host: Host, model: Model, row: TrialRow, facts: HostFacts) -> Arrangement:
    """Return what a trial is to be served by; NotPossible or UsageError when GPUs, ports or nginx lack.

    Which GPUs of the trial make a set is decided as the plan did, from how they are connected.
    """
    if row.config.units == 1:
        wish = Wish(model=model, port=row.port, gpus=row.gpus, config=row.config)
        return Arrangement(members=(service_spec(host, wish, facts, persistent=False),))
    refuse_without_nginx(host, (row.config,), facts)
    sets = sets_of(row.config.units, gpu_sets(row.config, row.gpus, facts.topology))
    refuse_member_count(host, row.config, row.gpus, sets, row.member_ports)
    members = [
        _member(host, model, row, facts, number)
        for number in zip(range(row.config.units), sets, row.member_ports, strict=True)
    ]
    balancer = Balancer(
        port=row.port,
        bind=Wish(model=model, port=row.port, gpus=row.gpus, config=row.config).bind,
        members=row.member_ports,
        member_address=MEMBER_ADDRESS,
        user=host.user,
        streams=streams(row.workloads),
        cpus=facts.cpus,
        program=facts.tools["nginx"],
    )
    return Arrangement(members=tuple(members), balancer=balancer)


def _member(
    host: Host, model: Model, row: TrialRow, facts: HostFacts, place: tuple[int, GpuSet, int]
) -> ServiceSpec:
    number, gpus, port = place
    config = replace(row.config, units=1)
    wish = Wish(model=model, port=port, gpus=gpus, config=config, bind=MEMBER_ADDRESS)
    spec = service_spec(host, wish, facts, persistent=False)
    # Servers that compile at the same time need caches of their own; the first has that of other trials.
    return replace(spec, cache="sweep" if number == 0 else f"sweep-{number + 1}")


def sets_of(units: int, sets: Sequence[GpuSet]) -> tuple[GpuSet, ...]:
    """Return a set for each unit; on a host without GPUs they are all empty."""
    return (GpuSet(),) * units if not any(each.indices for each in sets) else tuple(sets)


def streams(workloads: Sequence[Workload]) -> int:
    """Return how many requests may be in flight at once: the highest concurrency, or all where it is open."""
    return max(workload.max_concurrency or workload.num_prompts for workload in workloads)


def as_json(arrangement: Arrangement, invocations: Mapping[str, str]) -> list[Json]:
    """Return the servers as they are kept with a trial's row: unit, port, GPUs, and which start it was."""
    return [
        {
            "unit": member.unit,
            "port": member.port,
            "gpus": list(member.gpus.indices),
            "invocation": invocations.get(member.unit, ""),
        }
        for member in arrangement.members
    ]
