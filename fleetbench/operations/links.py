"""Symbolic links that are switched in one instant."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from fleetbench.errors import NotPossible
from fleetbench.facts.values import File, HostFacts
from fleetbench.steps import Operation, Outcome, Run, Step
from fleetbench.transport.base import bash

# `ln -sfn` unlinks first; a rename over the old link leaves no moment without one.
_SWITCH = 'ln -sfn -- "$1" "$2.new" && mv -fT -- "$2.new" "$2"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link; a relative `target` is relative to the link's directory."""

    path: str
    target: str


def points(want: Link) -> Operation:
    """The link leads to its target; the old target stays where it is, so going back is the same step."""

    def operation(facts: HostFacts) -> Outcome:
        there = facts.files.get(want.path)
        if there is not None and there.kind != "link":
            raise NotPossible(
                f"{want.path} should be a link and is a {there.kind}",
                host=facts.host,
                cause="units follow this link; something else made it",
                next_step=f"move it away: mv {want.path} {want.path}.old",
            )
        if there is not None and _absolute(want.path, there.target) == _absolute(want.path, want.target):
            return Outcome((), facts)
        step = Step(
            summary=f"link {want.path} -> {want.target}",
            reason="not there" if there is None else f"leads to {there.target}",
            action=Run(argv=bash(_SWITCH, want.target, want.path)),
            diff=f"-{want.path} -> {there.target}\n+{want.path} -> {want.target}\n" if there else "",
        )
        left = File(path=want.path, kind="link", target=want.target, mode=0o777, owner="root:root")
        return Outcome((step,), facts.with_file(left))

    return operation


def _absolute(link: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
