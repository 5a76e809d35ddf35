"""Where a lab lives: its name, its network and its directories, from three environment variables."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetbench.errors import FleetbenchError, UsageError

MAX_HOSTS = 200


class LabError(FleetbenchError):
    """The lab could not do what was asked; the hosts that stand keep running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One lab among possibly several on this machine.

    Attributes:
        name: at most ten characters, because Linux limits interface names to fifteen.
        cache: directory outside of any checkout that holds base images and the state of labs.
        subnet: first three numbers of a /24 in 198.18.0.0/15, the range that RFC 2544 sets aside for tests.
    """

    name: str
    cache: Path
    subnet: str

    @property
    def images(self) -> Path:
        """Base trees, package repositories and downloaded packages; shared by all labs."""
        return self.cache / "lab" / "images"

    @property
    def state(self) -> Path:
        """Everything that belongs to this lab alone; gone after `down`."""
        return self.cache / "lab" / self.name

    @property
    def bridge(self) -> str:
        """Network interface that connects the hosts and this machine."""
        return f"fb-{self.name}"

    @property
    def bridge_mac(self) -> str:
        """Hardware address of the bridge: a locally administered one, made from the lab's name."""
        return ":".join(["02", *(f"{byte:02x}" for byte in hashlib.sha256(self.name.encode()).digest()[:5])])

    @property
    def gateway(self) -> str:
        """This machine's address in the lab's network."""
        return f"{self.subnet}.1"

    @property
    def table(self) -> str:
        """nftables table for address translation."""
        return f"fleetbench_{self.name.replace('-', '_')}"

    @property
    def cgroup(self) -> str:
        """Name of the control group that holds the hosts' processes."""
        return f"fleetbench-{self.name}"

    def namespace(self, index: int) -> str:
        """Network namespace of host number `index`; also its machine name for nspawn."""
        return f"fb-{self.name}-{index:02d}"

    def link(self, index: int) -> str:
        """This machine's end of the cable to host number `index`."""
        return f"{self.name}-v{index:02d}"

    def delay_links(self, index: int) -> tuple[str, str]:
        """The two interfaces between which a slow line sits: on the bridge, and on the host's side."""
        return f"{self.name}-a{index:02d}", f"{self.name}-b{index:02d}"

    def address(self, index: int) -> str:
        """Address of host number `index`: .11 for the first."""
        return f"{self.subnet}.{10 + index}"


def host_name(index: int) -> str:
    """Given 1, return `lab-01`."""
    return f"lab-{index:02d}"


def host_index(name: str) -> int:
    """Given `lab-01`, return 1; UsageError for anything that cannot be a lab host."""
    match = re.fullmatch(r"lab-(\d{2,3})", name)
    if match is None or not 1 <= int(match[1]) <= MAX_HOSTS:
        raise UsageError(f"not the name of a lab host: {name!r}", next_step="invoke lab list")
    return int(match[1])


def derived_subnet(name: str) -> str:
    """Given a lab's name, return its three leading address numbers; the default lab is 198.18.0."""
    if name == "lab":
        return "198.18.0"
    digest = hashlib.sha256(name.encode()).digest()
    return f"198.{18 + digest[0] % 2}.{1 + digest[1] % 254}"


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Read `FLEETBENCH_LAB`, `FLEETBENCH_LAB_SUBNET`, `FLEETBENCH_CACHE`; UsageError for unusable ones."""
    variables = os.environ if environ is None else environ
    name = variables.get("FLEETBENCH_LAB") or "lab"
    if re.fullmatch(r"[a-z][a-z0-9-]{0,9}", name) is None or name == "images":
        raise UsageError(
            f"FLEETBENCH_LAB is {name!r}",
            next_step="use at most ten lower-case letters, digits and dashes, not `images`",
        )
    subnet = variables.get("FLEETBENCH_LAB_SUBNET") or derived_subnet(name)
    if re.fullmatch(r"198\.1[89]\.\d{1,3}", subnet) is None or int(subnet.rpartition(".")[2]) > 255:
        raise UsageError(f"FLEETBENCH_LAB_SUBNET is {subnet!r}", next_step="use for example 198.18.7")
    home = variables.get("FLEETBENCH_CACHE")
    cache = (
        Path(home)
        if home
        else Path(variables.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fleetbench"
    )
    if not cache.is_absolute() or re.search(r"[\s,:\\]", str(cache)):
        # The overlay file system separates its options by commas and its layers by colons.
        raise UsageError(
            f"the cache directory cannot be used: {str(cache)!r}",
            next_step="set FLEETBENCH_CACHE to an absolute path without blanks, commas and colons",
        )
    return Settings(name=name, cache=cache, subnet=subnet)
