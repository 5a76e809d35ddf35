"""Secrets that units load with `LoadCredential=`: root-only files; no argument, variable or log line."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fleetbench.facts.values import File, HostFacts
from fleetbench.operations.files import Directory
from fleetbench.steps import Operation, Outcome, PutFile, Run, Step

# systemd >= 252 knows this directory itself; nobody but root looks into it.
STORE = Directory(path="/etc/credstore", mode=0o700)
HF_TOKEN_PATH = "/etc/credstore/fleetbench-hf_token"  # noqa: S105  a path, not a secret


class Secret(bytes):
    """Bytes that do not show themselves in a log, a diff or a traceback."""

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A secret and where the host keeps it; `content` stays out of every text that is made of this."""

    path: str
    content: Secret


def stored(want: Credential) -> Operation:
    """The host has this secret, readable by root alone. Compared by hash: the host's copy is never read."""

    def operation(facts: HostFacts) -> Outcome:
        digest = hashlib.sha256(want.content).hexdigest()
        there = facts.files.get(want.path)
        if there is not None and (there.sha256, there.mode, there.owner) == (digest, 0o600, "root:root"):
            return Outcome((), facts)
        steps = []
        if STORE.path not in facts.files:
            facts = facts.with_file(
                File(path=STORE.path, kind="directory", mode=STORE.mode, owner=STORE.owner)
            )
            steps.append(
                Step(
                    summary=f"directory {STORE.path}",
                    reason="not there",
                    action=Run(argv=("install", "-d", "-m", f"{STORE.mode:04o}", "--", STORE.path)),
                )
            )
        steps.append(
            Step(
                summary=f"write {want.path}",
                reason="not there" if there is None else "secret, mode or owner differs",
                action=PutFile(path=want.path, content=want.content, mode=0o600, secret=True),
            )
        )
        left = File(path=want.path, sha256=digest, mode=0o600, owner="root:root")
        return Outcome(tuple(steps), facts.with_file(left))

    return operation
