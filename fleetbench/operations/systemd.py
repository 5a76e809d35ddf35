"""Unit files: written, loaded, enabled. Starting is not an operation, it takes time: see `service`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetbench.facts.values import File, HostFacts, Missing, Unit
from fleetbench.model import ServiceSpec
from fleetbench.steps import Operation, Outcome, PutFile, Run, Step, text_diff
from fleetbench.units import render, spec_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """A unit as it should be on disk."""

    name: str
    path: str
    text: str
    spec: str
    enabled: bool
    port: int | None = None
    gpus: str = ""

    @classmethod
    def of(cls, spec: ServiceSpec) -> UnitFile:
        """Return the unit file of a service."""
        return cls(
            name=spec.unit,
            path=spec.unit_path,
            text=render(spec),
            spec=spec_hash(spec),
            enabled=spec.persistent,
            port=spec.port,
            gpus=str(spec.gpus),
        )


def installed(want: UnitFile) -> Operation:
    """The unit file has this text, and systemd has read it."""

    def operation(facts: HostFacts) -> Outcome:
        content = want.text.encode()
        digest = hashlib.sha256(content).hexdigest()
        file = facts.files.get(want.path)
        unit = _unit(facts, want.name)
        steps: list[Step] = []
        if file is None or file.sha256 != digest or file.mode != 0o644:
            steps.append(
                Step(
                    summary=f"write {want.path}",
                    reason="not there" if file is None or not file.sha256 else "content or mode differs",
                    action=PutFile(path=want.path, content=content),
                    diff=text_diff(want.path, file.text if file else None, want.text),
                )
            )
        if steps or unit.need_reload:
            steps.append(
                Step(
                    summary="systemctl daemon-reload",
                    reason="unit files changed on disk",
                    action=Run(argv=("systemctl", "daemon-reload")),
                )
            )
        if not steps:
            return Outcome((), facts)
        left = facts.with_file(
            File(path=want.path, sha256=digest, mode=0o644, owner="root:root", text=want.text)
        )
        loaded = replace(
            unit,
            load="loaded",
            fragment=want.path,
            spec=want.spec,
            need_reload=False,
            port=want.port,
            gpus=want.gpus,
        )
        return Outcome(tuple(steps), left.with_unit(loaded))

    return operation


def enabled(want: UnitFile) -> Operation:
    """The unit starts at boot (or does not)."""

    def operation(facts: HostFacts) -> Outcome:
        unit = _unit(facts, want.name)
        if not want.enabled or unit.enabled == "enabled":
            return Outcome((), facts)
        step = Step(
            summary=f"enable {want.name}",
            reason=f"is {unit.enabled or 'not enabled'}, shall start at boot",
            action=Run(argv=("systemctl", "enable", want.name)),
        )
        return Outcome((step,), facts.with_unit(replace(unit, enabled="enabled")))

    return operation


def absent(name: str, path: str) -> Sequence[Operation]:
    """The unit is stopped, disabled and its file gone; its journal stays."""

    def operation(facts: HostFacts) -> Outcome:
        unit = _unit(facts, name)
        file = facts.files.get(path)
        if unit.load == "not-found" and (file is None or not file.sha256):
            return Outcome((), facts)
        steps = (
            Step(
                summary=f"stop and disable {name}",
                reason="shall be removed",
                action=Run(argv=("systemctl", "disable", "--now", name), timeout_s=240),
            ),
            Step(
                summary=f"delete {path}",
                reason="shall be removed",
                action=Run(argv=("rm", "-f", "--", path)),
                diff=text_diff(path, file.text if file else None, None),
            ),
            Step(
                summary="systemctl daemon-reload",
                reason="unit files changed on disk",
                action=Run(argv=("systemctl", "daemon-reload")),
            ),
        )
        left = replace(facts, files={k: v for k, v in facts.files.items() if k != path})
        return Outcome(steps, left.with_unit(Unit(name=name)))

    return (operation,)


def _unit(facts: HostFacts, name: str) -> Unit:
    if isinstance(facts.units, Missing):
        return Unit(name=name)
    return facts.units.get(name, Unit(name=name))
