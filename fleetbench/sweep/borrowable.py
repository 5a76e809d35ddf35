"""Which units a sweep may borrow, and which it must not: those that could not be given back as they are."""

from __future__ import annotations

from collections.abc import Collection

from fleetbench.errors import NotPossible, Occupied
from fleetbench.facts.values import HostFacts, Missing, Unit
from fleetbench.model import GpuSet, Host
from fleetbench.preflight import units_of
from fleetbench.sweep.balancer import SWEEP_PREFIX
from fleetbench.sweep.holders import holders, intruders


def to_borrow(facts: HostFacts, gpus: GpuSet) -> tuple[Unit, ...]:
    """Given the facts, return the persistent units that run on GPUs of the set.

    Ours say which GPUs they have. Of others named `vllm-…` those count that have a process on one; where
    there are no GPUs, those that listen.
    """
    found = [
        unit
        for unit in units_of(facts).values()
        if unit.name.startswith("vllm-") and not unit.name.startswith(SWEEP_PREFIX)
        if unit.going and _on(unit, facts, gpus)
    ]
    return tuple(sorted(found, key=lambda unit: unit.name))


def port_of(unit: Unit, facts: HostFacts) -> int | None:
    """Return the port of a unit: what its file says, else the lowest that it listens on."""
    if unit.port is not None or isinstance(facts.listeners, Missing):
        return unit.port
    return min((listener.port for listener in facts.listeners if listener.unit == unit.name), default=None)


def refuse_unreturnable(host: Host, units: Collection[Unit], facts: HostFacts) -> None:
    """Raise NotPossible for the first unit that could not be given back as it is; nothing is stopped then."""
    for unit in units:
        why, how = _unreturnable(unit, port_of(unit, facts), host)
        if why:
            raise NotPossible(
                f"{unit.name} cannot be borrowed: it could not be given back as it is",
                host=host.name,
                cause=why,
                next_step=how,
            )


def refuse_strangers(host: Host, units: Collection[Unit], facts: HostFacts, gpus: GpuSet) -> None:
    """Raise Occupied when a GPU of the set is held by what is neither borrowed nor a sweep's own server."""
    for stranger in intruders(facts, gpus, {unit.name for unit in units}):
        raise Occupied(
            "a GPU of this sweep is in use",
            host=host.name,
            cause=str(stranger),
            next_step="end that process, or leave its GPU out of the sweep",
        )


def _on(unit: Unit, facts: HostFacts, gpus: GpuSet) -> bool:
    if unit.servers:  # a balancer has no GPU, and serves again when what is behind it does
        return False
    if not (unit.spec or unit.gpus or unit.port is not None):  # no mark of ours in its file
        if gpus.indices:
            return unit.name in {holder.unit for holder in holders(facts, gpus)}
        return port_of(unit, facts) is not None
    try:
        held = set(GpuSet.parse(unit.gpus).indices)
    except ValueError:  # nobody knows which: rather too many
        held = set()
    return not held or not gpus.indices or bool(held & set(gpus.indices))


def _unreturnable(unit: Unit, port: int | None, host: Host) -> tuple[str, str]:
    """Return why a unit could not come back as it is, and what mends that; empty texts when it could."""
    if unit.load == "masked":
        return "it runs, but is masked: systemd would not start it again", f"systemctl unmask {unit.name}"
    where = f"--hosts {host.name}"
    again = f"invoke restart {where} --port {port}" if unit.port else f"systemctl restart {unit.name} there"
    if unit.need_reload:
        return "its file was changed and systemd has not read it: another one would start", again
    if unit.spec and unit.running_spec and unit.spec != unit.running_spec:
        return "it runs as an older text of its file said: another one would start", again
    if port is None and unit.active == "active":
        return "nobody can tell whether it serves: it listens on no port", f"systemctl stop {unit.name} there"
    return "", ""
