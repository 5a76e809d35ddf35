"""What bench finds on a host: the service on a port, and the text of its unit."""

from __future__ import annotations

from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.model import Host
from fleetbench.preflight import units_of


def running_unit(host: Host, facts: HostFacts, port: int) -> Unit:
    """Return the running unit of ours that serves on a port; NotPossible with what there is instead."""
    for unit in units_of(facts).values():
        if unit.port == port and unit.running and unit.servers:
            behind = ", ".join(map(str, unit.servers))
            raise NotPossible(
                f"{unit.name} is nginx in front of several servers, and bench measures one",
                host=host.name,
                next_step=f"--port with one of {behind}, or a sweep with units={len(unit.servers)}",
            )
        if unit.port == port and unit.running:
            return unit
    there = ", ".join(f"{u.name} ({u.active})" for u in units_of(facts).values()) or "none"
    raise NotPossible(
        f"no service of ours runs on port {port}",
        host=host.name,
        cause=f"vLLM units there: {there}",
        next_step=f"invoke deploy --hosts {host.name} --port {port} …",
    )


def text_of(host: Host, facts: HostFacts, unit: Unit) -> str:
    """Return the text of a unit's file; NotPossible when the facts do not hold it."""
    file = facts.files.get(unit.fragment)
    if file is None or file.text is None:
        raise NotPossible(f"cannot read {unit.fragment or unit.name}", host=host.name)
    return file.text
