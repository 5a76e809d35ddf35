"""The hosts of a lab as others see them, and the inventory that says so."""

from __future__ import annotations

from pathlib import Path

from fleetbench.lab import host, power
from fleetbench.lab.inventory import LabHost, recall, write_inventory
from fleetbench.lab.settings import Settings


def hosts(settings: Settings) -> tuple[LabHost, ...]:
    """Return all hosts of a lab, running or not."""
    found = []
    for name in host.names(settings):
        one = host.load(settings, name)
        public = settings.state / "keys" / f"host-{name}.pub"
        found.append(
            LabHost(
                name=name,
                address=settings.address(one.index),
                gpus=one.gpus,
                public_key=public.read_text(encoding="ascii") if public.exists() else "",
                identity=settings.state / "keys" / "operator",
                python=(Path(one.repository) / "python-name.txt").read_text(encoding="utf-8").strip(),
                running=power.running(settings, name),
            )
        )
    return tuple(found)


def publish(settings: Settings) -> None:
    """Write the inventory of the hosts that there are now, if the lab has one."""
    told = recall(settings.state / "inventory.json")
    if told is not None:
        write_inventory(hosts(settings), told.directory, told.build_toml, told.defaults)
