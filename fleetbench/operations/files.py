"""Directories, and small text files that are ours as a whole."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetbench.errors import NotPossible
from fleetbench.facts.values import File, HostFacts
from fleetbench.steps import Operation, Outcome, PutFile, Run, Step, text_diff
from fleetbench.transport.base import bash

# `install -d` follows a link to a directory, and would give /etc to a service user who plants one after the
# facts were read. The working directory cannot be swapped: what it is is looked at first, then it is changed.
# Five digits of mode: with four, chmod(1) keeps a directory's set-group-ID bit.
_MAKE = r"""
set -eu
mode=$1 owner=$2
shift 2
for path; do
  [ -e "$path" ] || [ -L "$path" ] || mkdir -p -- "$path"
  parent=$(cd -P -- "${path%/*}/" && pwd -P)
  cd -P -- "$path"
  if [ "$(pwd -P)" != "${parent%/}/${path##*/}" ]; then
    printf "%s has become a link to %s\n" "$path" "$(pwd -P)" >&2
    exit 73
  fi
  chown -- "$owner" .
  chmod -- "$mode" .
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory as it should be; `owner` is `user:group`."""

    path: str
    owner: str = "root:root"
    mode: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A small text file that is ours as a whole; `why` explains it in the plan."""

    path: str
    text: str
    mode: int = 0o644
    owner: str = "root:root"
    why: str = ""


def directories(wants: Sequence[Directory]) -> Operation:
    """The directories are there with owner and mode; those of equal owner and mode take one step.

    A symbolic link in a directory's place is left alone: weights often lie on another disk. One that was put
    there after the facts were read makes the step fail.
    """

    def operation(facts: HostFacts) -> Outcome:
        differing = [want for want in wants if _differs(want, facts)]
        steps = []
        for (owner, mode), group in itertools.groupby(differing, key=lambda want: (want.owner, want.mode)):
            paths = tuple(want.path for want in group)
            steps.append(
                Step(
                    summary=f"directory {' '.join(paths)}",
                    reason="; ".join(dict.fromkeys(_reason(path, facts) for path in paths)),
                    action=Run(argv=bash(_MAKE, f"{mode:05o}", owner, *paths)),
                )
            )
        for want in differing:
            facts = facts.with_file(File(path=want.path, kind="directory", mode=want.mode, owner=want.owner))
        return Outcome(tuple(steps), facts)

    return operation


def written(want: TextFile) -> Operation:
    """The file has this text, mode and owner."""

    def operation(facts: HostFacts) -> Outcome:
        digest = hashlib.sha256(want.text.encode()).hexdigest()
        file = facts.files.get(want.path)
        if file is not None and (file.sha256, file.mode, file.owner) == (digest, want.mode, want.owner):
            return Outcome((), facts)
        if file is not None and file.kind != "file":
            raise NotPossible(
                f"{want.path} is no regular file",
                host=facts.host,
                next_step=f"look at it: ls -ld {want.path}",
            )
        step = Step(
            summary=f"write {want.path}",
            reason=("not there" if file is None else "text, mode or owner differs")
            + (f" ({want.why})" if want.why else ""),
            action=PutFile(path=want.path, content=want.text.encode(), mode=want.mode, owner=want.owner),
            diff=text_diff(want.path, file.text if file else None, want.text),
        )
        left = File(path=want.path, sha256=digest, mode=want.mode, owner=want.owner, text=want.text)
        return Outcome((step,), facts.with_file(left))

    return operation


def gone(path: str, why: str) -> Operation:
    """The file is not there; `why` explains it in the plan."""

    def operation(facts: HostFacts) -> Outcome:
        file = facts.files.get(path)
        if file is None:
            return Outcome((), facts)
        step = Step(
            summary=f"delete {path}",
            reason=why,
            action=Run(argv=("rm", "-f", "--", path)),
            diff=text_diff(path, file.text, None),
        )
        left = {name: each for name, each in facts.files.items() if name != path}
        return Outcome((step,), replace(facts, files=left))

    return operation


def _differs(want: Directory, facts: HostFacts) -> bool:
    there = facts.files.get(want.path)
    if there is None:
        return True
    if there.kind == "link":
        return False
    if there.kind != "directory":
        raise NotPossible(
            f"{want.path} should be a directory and is a file",
            host=facts.host,
            next_step=f"move it away: mv {want.path} {want.path}.old",
        )
    return (there.mode, there.owner) != (want.mode, want.owner)


def _reason(path: str, facts: HostFacts) -> str:
    there = facts.files.get(path)
    return "not there" if there is None else f"is {there.owner} {there.mode:04o}"
