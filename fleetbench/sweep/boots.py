"""A host that was booted anew takes its servers along: not their fault, and no result of theirs."""

from __future__ import annotations

import time

from fleetbench.errors import HostRebooted, NotPossible
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.service.lifecycle import ReadFacts
from fleetbench.transport.durable import DurableSession

# From sshd's first answer until systemd has started the enabled units, after the network is up.
UNITS_START_S = 120


def boot_of(facts: HostFacts) -> str:
    """Return the id of the boot that the facts were read in; empty when it is not known."""
    return "" if isinstance(facts.os, Missing) else facts.os.boot_id


def refuse_reboot(session: DurableSession, boot: str) -> None:
    """Raise HostRebooted when the session's host has another boot now than `boot`."""
    now = session.read(("cat", "/proc/sys/kernel/random/boot_id")).stdout.strip()
    if boot and now and now != boot:
        raise HostRebooted("the host was rebooted in the middle", host=session.host.name)


def facts_when_running(
    session: DurableSession, read_facts: ReadFacts, unit: str, *, within_s: float = UNITS_START_S
) -> HostFacts:
    """Return the facts as soon as a unit that starts at boot runs; NotPossible when it does not in time."""
    give_up = time.monotonic() + within_s
    while True:
        facts = read_facts(session)
        there = None if isinstance(facts.units, Missing) else facts.units.get(unit)
        if there is not None and there.running:
            return facts
        if time.monotonic() > give_up:
            raise NotPossible(
                f"{unit} did not come back after the reboot",
                host=session.host.name,
                cause=f"it is {there.active} and {there.enabled}" if there else "it is not there",
                next_step=f"invoke status --hosts {session.host.name}",
            )
        time.sleep(1)
