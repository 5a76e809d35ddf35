"""The inventory of a lab: `inventory/lab/` with hosts, ssh_config and known host keys, gone after `down`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fleetbench.lab.commands import write

Value = str | int | bool | Sequence[str] | Sequence[int] | Mapping[str, str]
NOTHING: Mapping[str, Value] = MappingProxyType({})
FILES = ("hosts.toml", "ssh_config", "known_hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where a lab is described, and what the caller adds.

    `build_toml` are ready `[builds.*]` tables, `defaults` keys that every host gets.
    """

    directory: Path
    build_toml: str = ""
    defaults: Mapping[str, Value] = field(default_factory=lambda: NOTHING)


def remember(publication: Publication, file: Path) -> None:
    """Keep a publication for later commands that change the lab's hosts."""
    data = {
        "directory": str(publication.directory),
        "build_toml": publication.build_toml,
        "defaults": dict(publication.defaults),
    }
    write(file, json.dumps(data) + "\n")


def recall(file: Path) -> Publication | None:
    """Return what was remembered, None when the lab was never published."""
    if not file.exists():
        return None
    data = json.loads(file.read_text(encoding="utf-8"))
    return Publication(
        directory=Path(data["directory"]), build_toml=data["build_toml"], defaults=data["defaults"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """A running host as others reach it.

    Attributes:
        gpus: specification of its stand-in GPUs, lines separated by `|`; empty: none.
        public_key: the host's key, as ssh-keygen writes it.
        identity: private key that its root account accepts.
        python: command name of the Python that its dnf repository offers.
    """

    name: str
    address: str
    gpus: str
    public_key: str
    identity: Path
    python: str
    running: bool = True


def toml(value: Value) -> str:
    """Return a value as TOML source."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = "".join(_escape(character) for character in value)
        return f'"{escaped}"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + " }"
    return "[" + ", ".join(toml(item) for item in value) + "]"


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def gpu_facts(spec: str) -> dict[str, Value]:
    """Return what the inventory says of a host's GPUs: count, and type when all are alike."""
    counts = re.findall(r"^(\d+)x?\s+([\w-]+)", spec.replace("|", "\n"), flags=re.MULTILINE)
    found: dict[str, Value] = {"gpu_count": sum(int(count) for count, _ in counts)} if counts else {}
    kinds = {kind.upper() for _, kind in counts}
    if len(kinds) == 1:
        kind = re.sub(r"-.*", "", kinds.pop())  # A100-40 prints as A100-SXM4-40GB
        found["gpu"] = re.sub(r"^RTX(\d+)(ADA)?$", lambda m: f"RTX {m[1]}{' Ada' if m[2] else ''}", kind)
    return found


def hosts_toml(
    hosts: Sequence[LabHost], directory: Path, build_toml: str, defaults: Mapping[str, Value]
) -> str:
    """Return the text of the lab's hosts.toml; `build_toml` are ready `[builds.*]` tables, put first."""
    parts = ["# Written by `invoke lab up`, removed by `invoke lab down`.\n", build_toml.strip() + "\n"]
    for host in hosts:
        keys: dict[str, Value] = {
            "ssh_config": str(directory / "ssh_config"),
            "address": host.address,
            "python": host.python,
            "balancer": True,
            **gpu_facts(host.gpus),
            **defaults,
        }
        table = "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
        parts.append(f"[hosts.{host.name}]\n{table}")
    if hosts:
        parts.append(f"[groups.lab]\nhosts = {toml([host.name for host in hosts])}\n")
    return "\n".join(part for part in parts if part.strip())


def ssh_config(hosts: Sequence[LabHost], known_hosts: Path) -> str:
    """Return an ssh_config under which `ssh lab-01` is root on it, with strict host keys."""
    named = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in hosts)
    identity = f"  IdentityFile {hosts[0].identity}\n" if hosts else ""
    return (
        f"{named}Host *\n  User root\n{identity}  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known_hosts}\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        "  ConnectTimeout 10\n  LogLevel ERROR\n"
    )


def known_hosts(hosts: Sequence[LabHost]) -> str:
    """Return the known_hosts lines, by name and by address."""
    return "".join(
        f"{host.name},{host.address} {' '.join(host.public_key.split()[:2])}\n"
        for host in hosts
        if host.public_key
    )


def write_inventory(
    hosts: Sequence[LabHost],
    directory: Path,
    build_toml: str = "",
    defaults: Mapping[str, Value] = NOTHING,
) -> Path:
    """Write `hosts.toml`, `ssh_config` and `known_hosts` into `directory`; returns the ssh_config's path."""
    place = directory.absolute()
    write(place / "known_hosts", known_hosts(hosts))
    write(place / "ssh_config", ssh_config(hosts, place / "known_hosts"))
    write(place / "hosts.toml", hosts_toml(hosts, place, build_toml, defaults))
    return place / "ssh_config"


def remove_inventory(directory: Path) -> None:
    """Remove what `write_inventory` wrote, and the directory if nothing else is in it."""
    for name in FILES:
        (directory / name).unlink(missing_ok=True)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
