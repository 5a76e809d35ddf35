"""The persistent units that a trial becomes on a host, and what makes them another service. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from fleetbench.accelerators import arch_env
from fleetbench.deploy import CREDENTIAL
from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import Build, Device, GpuSet, Host, ServiceSpec
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.preflight import (
    refuse,
    refuse_member_count,
    refuse_taken_port,
    refuse_without_nginx,
    units_of,
)
from fleetbench.promotion.candidate import Candidate
from fleetbench.promotion.measured import Measured, differences, measured_of
from fleetbench.promotion.place import Place
from fleetbench.promotion.unit_text import spec_in
from fleetbench.sweep.arrangement import MEMBER_ADDRESS, Arrangement, sets_of, streams
from fleetbench.sweep.balancer import Balancer
from fleetbench.sweep.effective import same_version
from fleetbench.units import override_path, render

# Of a balancer: production may have more requests in flight than a sweep; room for them is cheap.
LEAST_STREAMS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to serve on a host.

    Attributes:
        host: with the build that was measured. place: where it goes.
        units: the servers, and nginx in front of several.
        measured, becomes: what decides how fast it is: of the trial, and of the units that are to be written.
        doubts: each reason why it may not be what was measured; with none of them it is the very same.
    """

    host: Host
    place: Place
    units: Arrangement
    measured: Measured
    becomes: Measured
    doubts: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The units in a few words: `vllm-8001`, `vllm-8001 (nginx), vllm-8002, vllm-8003`."""
        names = [unit.removesuffix(".service") for unit in self.units.units]
        return ", ".join([f"{names[0]} (nginx)", *names[1:]] if self.units.balancer else names)


def target_of(
    found: Candidate,
    host: Host,
    place: Place,
    facts: HostFacts,
    *,
    builds: Mapping[str, Build],
    measured_on: Host | None,
) -> Target:
    """Return the units that a trial becomes at a place on a host.

    `measured_on` is the trial's host as the inventory has it, None: it is not there any more.
    NotPossible or UsageError, as at a deploy, for what cannot work there: a venv that is missing, GPUs or a
    port in the hands of others. What would work but is not what was measured is in `doubts`.
    """
    host = _with_build(found, host, builds, facts)
    config = found.trial.config
    sets: Sequence[GpuSet] = (place.gpus,)
    if config.units > 1:
        refuse_without_nginx(host, (config,), facts)
        sets = sets_of(config.units, gpu_sets(config, place.gpus, facts.topology))
        refuse_member_count(host, config, place.gpus, sets, place.member_ports)
    ports = place.member_ports or (place.port,)
    kind = _kind(found, facts, host, place.gpus)
    own = _environment(found, host, measured_on)
    if kind != found.trial.gpu_name:
        own |= arch_env(host.build, facts, host.arch_list)
    members = tuple(
        _persistent(spec, host, facts, gpus, port, own, place, found.mark)
        for spec, gpus, port in zip(found.servers, sets, ports, strict=True)
    )
    for spec in members:
        refuse(host, spec, facts, ours=place.replaces)
    if place.member_ports:  # nginx's own
        front = replace(members[0], name=f"vllm-{place.port}", port=place.port)
        refuse_taken_port(host, front, facts, {front.unit, *place.replaces})
    units = Arrangement(members=members, balancer=_balancer(found, host, place, facts))
    # What is compared is what will be read from the disk, not what it was rendered from.
    becomes = measured_of([spec_in(render(spec)) for spec in members], kind)
    return Target(
        host=host,
        place=place,
        units=units,
        measured=found.measured,
        becomes=becomes,
        doubts=(*differences(found.measured, becomes), *_changed_there(units, facts)),
    )


def refuse_unequal(found: Candidate, target: Target) -> None:
    """Raise NotPossible for units that would not be what was measured."""
    if target.doubts:
        raise NotPossible(
            f"here it would not be the service that {found.name} measured",
            host=target.host.name,
            cause="; ".join(target.doubts),
            next_step="mend that, or take it as it is with --anyway",
        )


def _with_build(found: Candidate, host: Host, builds: Mapping[str, Build], facts: HostFacts) -> Host:
    """Return the host with the build that was measured; NotPossible when its venv is not there."""
    wanted = found.servers[0].build
    build = next((each for each in (host.build, *builds.values()) if each.venv_name == wanted), None)
    again = f"invoke provision --hosts {host.name}"
    if build is None:
        raise NotPossible(
            f"{found.name} ran {wanted or 'an unknown build'}, which no build of the inventory is",
            host=host.name,
            next_step=f"a build of that version in hosts.toml, then: {again} --build NAME",
        )
    host, own = replace(host, build=build), host.build
    venv = None if isinstance(facts.venvs, Missing) else facts.venvs.get(host.venv)
    if venv is None or not venv.complete:
        raise NotPossible(
            f"{found.name} ran {wanted}, and there is no venv {host.venv}",
            host=host.name,
            next_step=again if build.venv_name == own.venv_name else f"{again} --build {build.name}",
        )
    installed = venv.packages.get(build.package.replace("_", "-"), "")
    if installed and found.trial.vllm_version and not same_version(installed, found.trial.vllm_version):
        raise NotPossible(
            f"{host.venv} holds {build.package} {installed}, vLLM {found.trial.vllm_version} was measured",
            host=host.name,
            next_step=again,
        )
    return host


def _persistent(
    spec: ServiceSpec,
    host: Host,
    facts: HostFacts,
    gpus: GpuSet,
    port: int,
    own: Mapping[str, str],
    place: Place,
    mark: str,
) -> ServiceSpec:
    """Return a measured server as a service, with the environment `own`."""
    link = facts.files.get(host.venv_link)
    follows = link is not None and link.target in (host.venv, f"venvs/{host.build.venv_name}")
    return replace(
        spec,
        name=f"vllm-{port}",
        port=port,
        gpus=gpus,
        user=host.user,
        prefix=host.prefix,
        venv=host.venv_link if follows else host.venv,
        device=host.build.device,
        served_name=place.served_name,
        bind=MEMBER_ADDRESS if place.member_ports else place.bind,
        env=own,
        credential=CREDENTIAL in facts.files and bool(facts.files[CREDENTIAL].sha256),
        cache="",
        persistent=True,
        promoted=mark,
    )


def _environment(found: Candidate, host: Host, measured_on: Host | None) -> dict[str, str]:
    """Return the measured environment; what one host has for itself is not carried to another.

    A variable is the host's own when it has the value that the inventory gives it for that host; else the
    model set it, and that wins on every host.
    """
    measured = dict(found.servers[0].env)
    if measured_on is None:
        return measured | dict(host.env)
    there, here = measured_on.env, host.env
    for name in {*there, *here}:
        if there.get(name) == here.get(name) or measured.get(name) != there.get(name):
            continue
        if name in here:
            measured[name] = here[name]
        else:
            del measured[name]
    return measured


def _balancer(found: Candidate, host: Host, place: Place, facts: HostFacts) -> Balancer | None:
    if not place.member_ports:
        return None
    return Balancer(
        port=place.port,
        bind=place.bind,
        members=place.member_ports,
        member_address=MEMBER_ADDRESS,
        user=host.user,
        streams=max(streams(found.trial.workloads), LEAST_STREAMS),
        cpus=facts.cpus,
        program=facts.tools["nginx"],
        persistent=True,
        promoted=found.mark,
    )


def _kind(found: Candidate, facts: HostFacts, host: Host, gpus: GpuSet) -> str:
    """Return what the GPUs are called. A trial keeps what all of its host are called, whichever it had."""
    if host.build.device is Device.CPU:
        return ""
    if (host.name, gpus, facts.gpu_name) == (found.trial.host, found.trial.gpus, found.trial.gpu_name):
        return facts.gpu_name
    there = () if isinstance(facts.gpus, Missing) else facts.gpus
    return " + ".join(sorted({gpu.name for gpu in there if gpu.index in gpus.indices}))


def _changed_there(units: Arrangement, facts: HostFacts) -> tuple[str, ...]:
    """Return what of the host would change the units beside their text."""
    known = units_of(facts)
    drop_ins = [
        path
        for name in units.units
        for path in (known[name].drop_ins if name in known else sorted(_left_for(name, facts)))
    ]
    files = [override_path(spec) for spec in units.members]
    read = [path for path in files if (file := facts.files.get(path)) is not None and _says(file.text)]
    return tuple(f"{path} changes the unit" for path in (*drop_ins, *read))


def _left_for(name: str, facts: HostFacts) -> Iterator[str]:
    """Yield the drop-ins of a unit that is not there: they outlive it, and apply once it is there again."""
    for path in map(PurePosixPath, facts.files):
        if path.parent.name in (f"{name}.d", "vllm-.service.d") and path.suffix == ".conf":
            yield str(path)


def _says(text: str | None) -> bool:
    """Tell whether an environment file sets anything; one that cannot be read may."""
    lines = ["?"] if text is None else [line.strip() for line in text.splitlines()]
    return any(line and line[0] not in "#;" for line in lines)
