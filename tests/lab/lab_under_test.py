"""What a test of the lab is given, and how it makes a lab of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from fleetbench.lab import network
from fleetbench.lab.settings import Settings, derived_subnet, from_environment


@dataclass(frozen=True)
class LabUnderTest:
    """A running lab: its settings, its hosts, and the inventory that describes them."""

    settings: Settings
    names: tuple[str, ...]
    inventory: Path

    @property
    def ssh_config(self) -> Path:
        """The ssh_config that `up` wrote."""
        return self.inventory / "lab" / "ssh_config"

    def ssh(self, name: str, command: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command over SSH, as an operator with the lab's ssh_config would."""
        argv = ["ssh", "-F", str(self.ssh_config), "-o", "ConnectTimeout=3", name, command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)


def own_settings(prefix: str) -> Settings:
    """Settings of a lab that belongs to this test process alone."""
    name = f"{prefix}{os.getpid()}"[:10]
    subnets = [derived_subnet(f"{name}{attempt}") for attempt in range(20)]
    return replace(
        from_environment(),
        name=name,
        subnet=next(subnet for subnet in subnets if not network.user_of(subnet)),
    )
