"""A port in firewalld: opened for now and for the next boot, never by a reload.

`--reload` would drop runtime rules of others (and connections in flight), so both rules are added instead.
"""

from __future__ import annotations

from dataclasses import replace

from fleetbench.facts.values import HostFacts
from fleetbench.steps import Operation, Outcome, Run, Step


def port_open(port: int) -> Operation:
    """TCP `port` is open; nothing to do where firewalld does not run."""

    def operation(facts: HostFacts) -> Outcome:
        entry = f"{port}/tcp"
        if facts.firewalld != "running" or entry in facts.firewall_ports:
            return Outcome((), facts)
        steps = tuple(
            Step(
                summary=f"open {entry} in firewalld ({when})",
                reason="asked for with --open-firewall",
                action=Run(argv=("firewall-cmd", *permanent, f"--add-port={entry}")),
            )
            for when, permanent in (("now", ()), ("permanent", ("--permanent",)))
        )
        return Outcome(steps, replace(facts, firewall_ports=(*facts.firewall_ports, entry)))

    return operation
