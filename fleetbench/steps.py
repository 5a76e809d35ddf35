"""A change to a host as a value: it can be printed, diffed, hashed and stored before anything happens.

An operation is a pure function `(facts, want) -> Outcome`. Folding operations over a host's facts gives the
plan; each operation sees the facts that the ones before it will leave behind, so a dry run is right even for
a unit that does not exist yet. Applying a plan and planning again must give no steps: that law is a test.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetbench.facts.fields import shown
from fleetbench.facts.values import HostFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Run a command as root and expect status 0.

    With `unit` the command runs as a transient systemd unit of that name: it survives a lost connection
    and its journal is its log; without, it must be quick. `env` needs a unit, which gets it by a root-only
    file: an argument list shows in every process list and in sudo's log.
    """

    argv: tuple[str, ...]
    timeout_s: float = 120
    unit: str = ""
    user: str = ""
    env: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.env and not self.unit:
            raise ValueError("an environment would show in the process list: give it a unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutFile:
    """Write a whole file atomically: to a temporary name beside it, then renamed."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: str = "root:root"
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change to one host: what, why and how."""

    summary: str
    reason: str
    action: Run | PutFile
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The steps that reach the wanted state, and the facts expected after them."""

    steps: tuple[Step, ...]
    facts: HostFacts


Operation = Callable[[HostFacts], Outcome]


def fold(facts: HostFacts, operations: Iterable[Operation]) -> Outcome:
    """Given a host's facts and operations in order, return all their steps and the facts at the end."""
    steps: list[Step] = []
    for operation in operations:
        outcome = operation(facts)
        steps += outcome.steps
        facts = outcome.facts
    return Outcome(tuple(steps), facts)


def plan_hash(steps: Iterable[Step]) -> str:
    """Return a short hash over what the steps do, so that a plan shown and a plan applied can be compared."""
    described = [
        [step.summary, step.action.path, hashlib.sha256(step.action.content).hexdigest()]
        if isinstance(step.action, PutFile)
        else [step.summary, list(step.action.argv)]
        for step in steps
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]


def text_diff(path: str, old: str | None, new: str | None) -> str:
    """Given a file's text before and after (None: absent), return a unified diff for people.

    It is printed: what a host's file holds beside text, and what looks like a secret, does not show.
    """
    return "".join(
        line if line.endswith("\n") else line + "\n"
        for line in difflib.unified_diff(
            [] if old is None else _lines(old),
            [] if new is None else _lines(new),
            "/dev/null" if old is None else path,
            "/dev/null" if new is None else path,
        )
    )


def _lines(text: str) -> list[str]:
    """Lines with their ends, each fit to be shown."""
    return shown(text).splitlines(keepends=True)
