"""Where a promoted service goes on a host: port, GPUs, names, and which units make room for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetbench.errors import NotPossible, UsageError
from fleetbench.facts.values import HostFacts, Missing, Unit
from fleetbench.model import GpuSet, Host
from fleetbench.preflight import units_of
from fleetbench.promotion.candidate import Candidate
from fleetbench.units import served_by

EVERYWHERE = "0.0.0.0"  # noqa: S104  as in deploy: the source serves the network
_OURS = re.compile(r"vllm-[0-9]{1,5}\.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an operator asks for; what is empty or 0 is found out."""

    port: int = 0
    gpus: GpuSet | None = None
    bind: str = ""
    served_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a service goes.

    Attributes:
        port, bind, served_name: where clients reach it, and the name that they ask for (empty: the model's).
        gpus: of all its servers. member_ports: of several servers.
        replaces: names of the units that are there now and belong to what is on the port.
    """

    port: int
    gpus: GpuSet
    bind: str = EVERYWHERE
    served_name: str = ""
    member_ports: tuple[int, ...] = ()
    replaces: tuple[str, ...] = ()


def place_of(found: Candidate, host: Host, facts: HostFacts, asked: Asked) -> Place:
    """Return where a trial's service goes on a host.

    The port is the asked one, else that of the host's service of this model, else the host's first free one.
    The GPUs are the asked ones, else the measured ones where nobody else has them, else those of the service
    that is replaced. UsageError or NotPossible says what has to be chosen.
    """
    services = _services(facts)
    port = asked.port or _port(found, host, facts, services)
    behind = _balancer_of(port, services)
    if behind is not None:
        raise NotPossible(
            f"port {port} belongs to a server behind {behind.name}",
            host=host.name,
            next_step=f"--port {behind.port}",
        )
    there = services.get(f"vllm-{port}.service")
    replaced = [] if there is None else [there, *(s for s in services.values() if s.port in there.servers)]
    names = tuple(unit.name for unit in replaced)
    bind, served_name = _names(found, there, facts)
    return Place(
        port=port,
        gpus=_gpus(found, host, facts, asked, replaced),
        bind=asked.bind or bind or EVERYWHERE,
        served_name=asked.served_name or served_name,
        member_ports=_member_ports(found, host, facts, port, replaced),
        replaces=names,
    )


def _services(facts: HostFacts) -> Mapping[str, Unit]:
    """Return our persistent units by name."""
    return {
        name: unit
        for name, unit in sorted(units_of(facts).items())
        if _OURS.fullmatch(name) and unit.load != "not-found" and not unit.fragment.startswith("/run/")
    }


def _balancer_of(port: int, services: Mapping[str, Unit]) -> Unit | None:
    return next((unit for unit in services.values() if port in unit.servers), None)


def _port(found: Candidate, host: Host, facts: HostFacts, services: Mapping[str, Unit]) -> int:
    same = [
        unit
        for unit in services.values()
        if unit.port is not None and _balancer_of(unit.port, services) is None
        if found.model == _served(unit, services, facts)[0]
    ]
    there = [unit for unit in same if len(same) == 1 or _indices(unit) == found.trial.gpus.indices]
    if same and len(there) != 1:
        raise UsageError(
            f"{len(same)} services of {found.model}: {', '.join(unit.name for unit in same)}",
            host=host.name,
            next_step="choose one with --port",
        )
    if there and there[0].port is not None:
        return there[0].port
    return _free_ports(host, facts, 1, ())[0]


def _served(unit: Unit, services: Mapping[str, Unit], facts: HostFacts) -> tuple[str, str]:
    """Return model and served name of a service; of a balancer those of a server behind it."""
    behind = [each for each in services.values() if each.port in unit.servers]
    file = facts.files.get((behind[0] if behind else unit).fragment)
    try:
        model, served_name, _ = served_by(file.text or "" if file is not None else "")
    except UsageError:  # somebody else's
        return "", ""
    return model, served_name


def _names(found: Candidate, there: Unit | None, facts: HostFacts) -> tuple[str, str]:
    """Return address and served name that clients of the replaced service of this model know."""
    if there is None:
        return "", ""
    model, served_name = _served(there, _services(facts), facts)
    if model != found.model:
        return "", ""
    file = facts.files.get(there.fragment)
    bound = re.search(r"^ExecStart=.* --host (\S+) ", file.text or "", re.MULTILINE) if file else None
    return bound[1] if bound else "", served_name


def _gpus(found: Candidate, host: Host, facts: HostFacts, asked: Asked, replaced: Sequence[Unit]) -> GpuSet:
    needed = len(found.trial.gpus.indices)
    if asked.gpus is not None:
        if len(asked.gpus.indices) != needed:
            raise UsageError(
                f"{found.name} was measured on {needed} GPUs, --gpus names {len(asked.gpus.indices)}",
                host=host.name,
                next_step=f"--gpus with {needed}" if needed else "leave --gpus out",
            )
        return asked.gpus
    own = tuple(sorted({index for unit in replaced for index in _indices(unit)}))
    measured = found.trial.gpus.indices
    if len(own) == needed and not _free(measured, facts, replaced):
        return GpuSet(own)
    return GpuSet(measured)


def _free(indices: Iterable[int], facts: HostFacts, replaced: Sequence[Unit]) -> bool:
    """Tell whether a host has these GPUs, and nobody but the replaced service is on them or may come back."""
    if isinstance(facts.gpus, Missing):
        return not tuple(indices)
    mine = {unit.name for unit in replaced}
    wanted = set(indices)
    there = {gpu.index: gpu for gpu in facts.gpus}
    taken = {
        index
        for unit in units_of(facts).values()
        if unit.name not in mine and (unit.enabled == "enabled" or unit.active in ("active", "activating"))
        for index in _indices(unit)
    }
    return all(
        index in there
        and index not in taken
        and all(process.unit in mine for process in there[index].processes)
        for index in wanted
    )


def _member_ports(
    found: Candidate, host: Host, facts: HostFacts, port: int, replaced: Sequence[Unit]
) -> tuple[int, ...]:
    """Return a port for each of several servers: those that the replaced service has, then free ones."""
    units = found.trial.config.units
    if units == 1:
        return ()
    ports = sorted(each for unit in replaced if (each := unit.port) is not None and each != port)[:units]
    more = _free_ports(host, facts, units - len(ports), (port, *ports)) if len(ports) < units else ()
    return tuple(sorted((*ports, *more)))


def _free_ports(host: Host, facts: HostFacts, count: int, besides: Sequence[int]) -> tuple[int, ...]:
    """Return the first ports of the host's range that no service has and nobody listens on."""
    listening = () if isinstance(facts.listeners, Missing) else facts.listeners
    taken = {listener.port for listener in listening} | {unit.port for unit in units_of(facts).values()}
    free = [port for port in range(host.ports[0], host.ports[1] + 1) if port not in {*taken, *besides}]
    if len(free) < count:
        raise NotPossible(
            f"{count} more ports are needed, {len(free)} of {host.ports[0]}–{host.ports[1]} are free",
            host=host.name,
            next_step="give the host more ports in hosts.toml",
        )
    return tuple(free[:count])


def _indices(unit: Unit) -> tuple[int, ...]:
    try:
        return GpuSet.parse(unit.gpus).indices
    except ValueError:
        return ()
