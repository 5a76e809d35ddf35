"""A port in firewalld: opened for now and for the next boot, never by a reload.

`--reload` would drop runtime rules of others (and connections in flight), so both rules are added instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetbench.facts.values import HostFacts
from fleetbench.steps import Operation, Outcome, Run, Step

_ADD = "--add-port="


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One rule for a port, in words; `asked` asks whether it is there (status 0), `closes` removes it."""

    entry: str
    when: str
    asked: tuple[str, ...]
    closes: tuple[str, ...]


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
                action=Run(argv=("firewall-cmd", *permanent, f"{_ADD}{entry}")),
            )
            for when, permanent in (("now", ()), ("permanent", ("--permanent",)))
        )
        return Outcome(steps, replace(facts, firewall_ports=(*facts.firewall_ports, entry)))

    return operation


def opening_of(step: Step) -> Opening | None:
    """Return the rule that a step adds; None for every other step."""
    argv = step.action.argv if isinstance(step.action, Run) else ()
    if argv[:1] != ("firewall-cmd",) or not argv[-1].startswith(_ADD):
        return None
    *command, last = argv
    entry = last.removeprefix(_ADD)
    return Opening(
        entry=entry,
        when="permanent" if "--permanent" in command else "now",
        asked=(*command, f"--query-port={entry}"),
        closes=(*command, f"--remove-port={entry}"),
    )
