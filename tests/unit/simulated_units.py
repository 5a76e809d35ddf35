"""A host with a systemd of its own, as far as the way back needs one: files, units, ports, and what fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nouns import HOST

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.transport.base import CommandResult, quote
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

WANTS = "/etc/systemd/system"


@dataclass
class Kept:
    """What systemd knows of a unit; `invocation` is empty while it does not run."""

    invocation: str = ""
    enabled: bool = False


class UnitsHost(FakeSession):
    """Obeys systemctl, rm and firewall-cmd. `fails` maps a part of a command to what happens instead."""

    def __init__(self, facts: HostFacts) -> None:
        super().__init__(HOST)
        assert not isinstance(facts.units, Missing)
        self.files = {path: (file.text or "").encode() for path, file in facts.files.items() if file.text}
        self.units = {
            name: Kept(invocation=unit.invocation if unit.running else "", enabled=unit.enabled == "enabled")
            for name, unit in facts.units.items()
        }
        self.ports: set[tuple[bool, str]] = set()
        self.fails: dict[str, Callable[[], CommandResult | None]] = {}
        self._starts = itertools.count(1)

    @property
    def state(self) -> dict[str, tuple[bytes | None, bool, bool]]:
        """Of each unit: the text of its file, whether it runs, whether it starts at boot."""
        return {
            name: (self.files.get(f"{WANTS}/{name}"), bool(unit.invocation), unit.enabled)
            for name, unit in self.units.items()
            if f"{WANTS}/{name}" in self.files or unit.invocation or unit.enabled
        }

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        self.round_trips += 1
        line = quote(argv)
        self.commands.append(line)
        for part, instead in self.fails.items():
            if part in line and (result := instead()) is not None:
                return result
        return self._obey(list(argv))

    def put(self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        for part, instead in self.fails.items():
            if part == f"put {path}":
                instead()
        super().put(content, path, mode=mode, owner=owner)

    def _obey(self, argv: list[str]) -> CommandResult:
        match argv:
            case ["systemctl", "stop", *names]:
                for name in names:
                    self._unit(name).invocation = ""
            case ["systemctl", "start", *names]:
                for name in names:
                    if f"{WANTS}/{name}" not in self.files and name != "--no-block":
                        return failure("Unit not found.", 5)
                    self._unit(name).invocation = f"start-{next(self._starts)}"
            case ["systemctl", "enable", name]:
                self._unit(name).enabled = True
            case ["systemctl", "disable", *rest]:
                self._unit(rest[-1]).enabled = False
                if rest[0] == "--now":
                    self._unit(rest[-1]).invocation = ""
            case ["systemctl", "show", name, *asked]:
                unit = self._unit(name)
                enabled = "enabled" if unit.enabled else "disabled"
                return said(enabled if "UnitFileState" in asked else unit.invocation)
            case ["rm", "-f", "--", path]:
                self.files.pop(path, None)
            case ["test", "-e", path]:
                return said("") if path in self.files else failure("", 1)
            case ["firewall-cmd", *words]:
                return self._firewall("--permanent" in words, words[-1])
            case ["bash", "-c", _, "fleetbench", token, name, _, _, _]:
                return said(self._looked(token, name))
        return said("")

    def _firewall(self, permanent: bool, word: str) -> CommandResult:
        asked, _, entry = word.partition("=")
        if asked == "--query-port":
            return said("yes") if (permanent, entry) in self.ports else failure("no", 1)
        (self.ports.add if asked == "--add-port" else self.ports.discard)((permanent, entry))
        return said("success")

    def _looked(self, token: str, name: str) -> str:
        unit, there = self._unit(name), f"{WANTS}/{name}" in self.files
        shown = {
            "LoadState": "loaded" if there or unit.invocation else "not-found",
            "ActiveState": "active" if unit.invocation else "inactive",
            "SubState": "running" if unit.invocation else "dead",
            "InvocationID": unit.invocation,
        }
        return "\n".join([f"#{token} unit", *(f" {key}={value}" for key, value in shown.items())])

    def _unit(self, name: str) -> Kept:
        return self.units.setdefault(name, Kept())


def said(text: str) -> CommandResult:
    return CommandResult(command="", exit_status=0, stdout=text, stderr="")


def failure(text: str, status: int) -> CommandResult:
    return CommandResult(command="", exit_status=status, stdout="", stderr=text)


def session_on(host: UnitsHost) -> DurableSession:
    return DurableSession(HOST, lambda: host, patience_s=0)
