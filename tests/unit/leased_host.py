"""A host that exists only in a test and has a lease: answers as lease.sh does, without its clock."""

from __future__ import annotations

import json
import shlex
import threading

from fleetbench.model import Host
from fleetbench.transport.fake import FakeSession

FREE = ("", "", "")
ALICE = ("20261130-141233-tiny-3f2a", "elsewhere:1:1", "sweep tiny")


class LeasedHost:
    """One host for all sessions to it.

    Attributes:
        holder: run, controller and purpose of who has the lease; FREE: nobody.
        actions: what was asked of the lease, in order.
        commands: every other command line, in order.
        away: an error that every command ends with.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.holder = FREE
        self.operator = "alice@elsewhere"
        self.actions: list[str] = []
        self.commands: list[str] = []
        self.away: Exception | None = None
        self._guard = threading.Lock()

    def open(self) -> FakeSession:
        """A session to it."""
        return FakeSession(self.host, [("One lease per host", self._lease), ("", self._other)])

    def _other(self, line: str) -> str:
        if self.away is not None:
            raise self.away
        self.commands.append(line)
        return ""

    def _lease(self, line: str) -> str:
        if self.away is not None:
            raise self.away
        action, run, _, described, controller, predecessor, *_ = shlex.split(line)[4:]
        with self._guard:
            self.actions.append(action)
            free, mine = self.holder == FREE, self.holder[:2] in ((run, controller), (run, predecessor))
            word = "free" if free and action == "show" else "held"
            if action == "take" and (free or mine):
                self.operator, word = json.loads(described)["operator"], "ours"
                self.holder = (run, controller, json.loads(described)["what"])
            elif action in ("renew", "do"):
                word = "ours" if mine else "lost"
            elif action == "release" and (free or mine):
                self.holder, word = FREE, "free"
            names = ("run", "controller", "what")
            about = dict(zip(names, self.holder, strict=True)) | {"operator": self.operator, "since": "now"}
            return f"{word}\nboot\n60\n{json.dumps(about)}\n"
