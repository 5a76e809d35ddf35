"""One operator at a time, and production back by itself: the lease of a host and its dead-man timer.

The lease lies on the host (`/run/fleetbench/lease`) and ends by itself when it is not renewed. With it goes a
timer on the host that starts the borrowed units again once the lease has ended. It belongs to one controller
of one run: a second one that resumes the same run, perhaps from a copy of its store, is somebody else.
Verbs that change services hold it without a timer, see `verbs/holding.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fleetbench.audit import now, operator
from fleetbench.errors import CommandFailed, LeaseLost, NotPossible, one_line
from fleetbench.results.controllers import this_controller
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

DIRECTORY = "/run/fleetbench"
RESTORE = f"{DIRECTORY}/restore.sh"
LOAN = f"{DIRECTORY}/loan"
TIMER = "fleetbench-deadman"
# While production is given back, which may take as long as a server's stop, the host answers nobody.
BUSY = 75
BUSY_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a host: `operator` at `since`, for `what`; `run` is the id of the run, or what else it is.

    `controller` is the process (see `results.controllers`), `left_s` how long it is held without
    another sign of life.
    """

    run: str = ""
    operator: str = ""
    since: str = ""
    what: str = ""
    controller: str = ""
    left_s: int = 0

    def __str__(self) -> str:
        """As it stands in a message."""
        return (
            f"{self.operator or 'somebody'} since {self.since or 'an unknown time'} ({self.what or self.run})"
        )


class Hold:
    """The lease of one host as this controller has it, or wants it, for a run.

    `predecessor` is the controller that worked on the run before and is known to be dead. `lost` is why the
    lease was lost, once it was.
    """

    def __init__(self, run: str, what: str, *, seconds: float, predecessor: str = "") -> None:
        self.run, self.what, self.seconds = run, what, seconds
        self._controller, self._predecessor = this_controller(), predecessor
        self._boot = ""
        self.lost: LeaseLost | None = None

    def take(self, session: DurableSession) -> None:
        """Get the lease of the session's host, or renew it; NotPossible names who has it.

        What a lease of somebody else that has run out still owes is given back first.
        """
        word, holder = self._ask(session, "take")
        if word == "stale":
            give_up(session, f"the lease of run {holder.run} had run out")
            word, holder = self._ask(session, "take")
        if word != "ours":
            raise held(session, holder)

    def renew(self, session: DurableSession) -> None:
        """Renew the lease; LeaseLost, and why, when this controller has it no longer."""
        self._ours(session, "renew")

    def do(self, session: DurableSession, *argv: str) -> None:
        """Run a quick command that may run twice, on the host and only while the lease is ours there.

        This is what keeps a controller that slept through the end of its loan from fighting production: the
        host looks and acts in one.
        """
        self._ours(session, "do", *argv)

    def release(self, session: DurableSession) -> None:
        """End the lease and its timer; what another run holds stays."""
        self._ask(session, "release")

    def arm(self, session: DurableSession, units: Sequence[str]) -> None:
        """Write down on the host what has to run again, and see to it that the timer runs."""
        every = f"{max(1.0, min(60.0, self.seconds / 4)):.0f}"
        self.do(session, *bash(_script("arm.sh"), _script("restore.sh"), every, *units))

    def _ours(self, session: DurableSession, action: str, *argv: str) -> None:
        word, holder = self._ask(session, action, *argv)
        if word != "ours":
            self.lost = LeaseLost(
                "the lease of this host was lost, production was given back there",
                host=session.host.name,
                cause=f"it is locked by {holder}" if holder.run or holder.operator else holder.what,
                next_step=f"invoke sweep --resume {self.run}",
            )
            raise self.lost

    def _ask(self, session: DurableSession, action: str, *argv: str) -> tuple[str, Holder]:
        described = {
            "run": self.run,
            "operator": operator(),
            "since": now(),
            "what": self.what,
            "controller": self._controller,
        }
        names = (self._controller, self._predecessor, self._boot)
        word, boot, holder = _ask(
            session, action, self.run, f"{self.seconds:.0f}", json.dumps(described), *names, *argv
        )
        if word == "ours":
            self._boot = boot
        return word, holder


def held(session: DurableSession, holder: Holder) -> NotPossible:
    """Return the error that names who has the host."""
    host = session.host.name
    return NotPossible(
        f"the host is locked by {holder}",
        host=host,
        cause=f"{holder.run}, process {holder.controller}, for {holder.left_s} s more without a sign of life",
        next_step=f"wait, or if you are sure: invoke unlock --hosts {host}",
    )


def holder_of(session: DurableSession) -> Holder | None:
    """Return who holds the session's host now; None when nobody does."""
    word, _, holder = _ask(session, "show", "", "0", "", "", "", "")
    return holder if word == "held" else None


def owed_on(session: DurableSession) -> tuple[str, ...]:
    """Return the units that the host itself knows to be on loan."""
    text = session.read(bash('[ ! -e "$1" ] || cat -- "$1"', LOAN)).stdout
    return tuple(name for name in text.split() if name.startswith("vllm-") and name.endswith(".service"))


def give_up(session: DurableSession, why: str) -> None:
    """End whatever lease there is and give production back at once (`invoke unlock`)."""
    _restore(session, "now", why)


def give_up_unless_held(session: DurableSession, why: str) -> bool:
    """Remove what of sweeps is left on the host; False, and nothing is done, when somebody holds it."""
    return _restore(session, "unheld", why)


def _restore(session: DurableSession, mode: str, why: str) -> bool:
    made = ("mkdir", "-p", "-m", "0755", DIRECTORY)  # the script's lock is there
    session.read(made)
    done = session.read(bash(_script("restore.sh"), mode, one_line(why, 200)), timeout_s=300)
    if done.exit_status not in (0, 3):
        raise CommandFailed(
            "cannot give production back",
            host=session.host.name,
            cause=done.last_line or f"status {done.exit_status}",
            next_step=f"invoke unlock --hosts {session.host.name}",
        )
    return done.ok


def _ask(session: DurableSession, *arguments: str) -> tuple[str, str, Holder]:
    argv, give_up_at = bash(_script("lease.sh"), *arguments), time.monotonic() + BUSY_S
    answer = session.read(argv, timeout_s=30)
    while answer.exit_status == BUSY and time.monotonic() < give_up_at:
        answer = session.read(argv, timeout_s=30)
    word, boot, left, *rest = (*answer.stdout.split("\n", 3), "", "", "")
    if not answer.ok or word not in ("ours", "free", "held", "lost", "stale"):
        busy = "production is being given back there" if answer.exit_status == BUSY else ""
        raise CommandFailed(
            "cannot ask for the host's lease",
            host=session.host.name,
            cause=busy or answer.last_line or f"status {answer.exit_status}",
            next_step="the same command again in a minute" if busy else "",
        )
    return word, boot, _holder(rest[0], int(left) if left.isdigit() else 0)


def _holder(text: str, left_s: int) -> Holder:
    """Return what the host said of a holder; what is no description is why there is none."""
    try:
        value = json.loads(text)
    except ValueError:
        value = {"what": text}
    known = value if isinstance(value, dict) else {}
    names = ("run", "operator", "since", "what", "controller")
    return Holder(left_s=left_s, **{name: one_line(str(known.get(name, "")), 120) for name in names})


@cache
def _script(name: str) -> str:
    return (files("fleetbench.sweep") / name).read_text(encoding="utf-8")
