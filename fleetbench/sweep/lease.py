"""One operator at a time, and production back by itself: the lease of a host and its dead-man timer.

The lease lies on the host (`/run/fleetbench/lease`) and ends by itself when it is not renewed. With it goes a
timer on the host that starts the borrowed units again once the lease has ended.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fleetbench.audit import now, operator
from fleetbench.errors import CommandFailed, FleetbenchError, NotPossible, NotReached, one_line
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession, Stop

DIRECTORY = "/run/fleetbench"
RESTORE = f"{DIRECTORY}/restore.sh"
LOAN = f"{DIRECTORY}/loan"
TIMER = "fleetbench-deadman"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a host: `operator` at `since`, for `what`; `run` is the id of the run."""

    run: str = ""
    operator: str = ""
    since: str = ""
    what: str = ""

    def __str__(self) -> str:
        """As it stands in a message."""
        return (
            f"{self.operator or 'somebody'} since {self.since or 'an unknown time'} ({self.what or self.run})"
        )


def take(session: DurableSession, run: str, what: str, *, seconds: float) -> None:
    """Get the lease of the session's host for a run, or renew it; NotPossible names who has it."""
    word, holder = _ask(session, "take", run, seconds, what)
    if word != "ours":
        host = session.host.name
        raise NotPossible(
            f"the host is locked by {holder}",
            host=host,
            cause=f"run {holder.run}" if holder.run else "",
            next_step=f"wait, or if you are sure: invoke unlock --hosts {host}",
        )


def renew(session: DurableSession, run: str, what: str, *, seconds: float) -> bool:
    """Renew the lease of a run; False when the run has it no longer."""
    return _ask(session, "renew", run, seconds, what)[0] == "ours"


def release(session: DurableSession, run: str) -> None:
    """End the lease of a run and its timer; what another run holds stays."""
    word, _ = _ask(session, "release", run, 0, "")
    if word == "free":
        session.read(("systemctl", "stop", f"{TIMER}.timer"))
        session.read(("rm", "-f", "--", LOAN, RESTORE, f"{DIRECTORY}/ended"))


def holder_of(session: DurableSession) -> Holder | None:
    """Return who holds the session's host now; None when nobody does."""
    word, holder = _ask(session, "show", "", 0, "")
    return holder if word == "held" else None


def refuse_locked(session: DurableSession, *, run: str = "") -> None:
    """Raise NotPossible when somebody else works on the host."""
    holder = holder_of(session)
    if holder is not None and holder.run != run:
        host = session.host.name
        raise NotPossible(
            f"the host is locked by {holder}",
            host=host,
            next_step=f"wait, or if you are sure: invoke unlock --hosts {host}",
        )


def arm(session: DurableSession, units: Sequence[str], *, check_every_s: float = 60) -> None:
    """Write down on the host what has to run again, and start the timer that sees to it."""
    session.put(_script("restore.sh").encode(), RESTORE, mode=0o700)
    session.put("".join(f"{unit}\n" for unit in units).encode(), LOAN, mode=0o600)
    every = f"{check_every_s:.0f}"
    session.read(("systemctl", "stop", f"{TIMER}.timer"))
    session.read(("systemctl", "reset-failed", f"{TIMER}.service"))
    timer = (f"--on-active={every}", f"--on-unit-active={every}", "--timer-property=AccuracySec=1s")
    started = session.read(("systemd-run", "--quiet", f"--unit={TIMER}", *timer, "/bin/bash", RESTORE))
    if not started.ok:
        raise CommandFailed(
            "cannot start the timer that gives production back",
            host=session.host.name,
            cause=started.last_line,
            next_step=f"systemctl status {TIMER}.timer on the host",
        )


def give_up(session: DurableSession) -> None:
    """End whatever lease there is and give production back at once (`invoke unlock`)."""
    done = session.read(("/bin/bash", RESTORE, "now"), timeout_s=300)
    if not done.ok:
        session.read(bash('sed -n 1p "$1/lease" > "$1/ended"; rm -f "$1/lease"', DIRECTORY))


class Either:
    """An event that has happened when one of several has."""

    def __init__(self, *events: Stop) -> None:
        self._events = events

    def is_set(self) -> bool:
        """True once one of the events is set."""
        return any(event.is_set() for event in self._events)

    def wait(self, timeout: float) -> bool:
        """Wait at most that long for one of them."""
        give_up = time.monotonic() + timeout
        while not self.is_set() and time.monotonic() < give_up:
            self._events[0].wait(min(0.2, max(0.0, give_up - time.monotonic())))
        return self.is_set()


class Heartbeat:
    """Renews a lease from a thread with a session of its own, until `stop`.

    `lost` is set when the host says that the lease is another run's now; the sweep then ends.
    """

    def __init__(
        self,
        session: DurableSession,
        run: str,
        what: str,
        *,
        seconds: float,
        said: Callable[[str], None],
    ) -> None:
        self._session, self._run, self._what, self._seconds, self._said = session, run, what, seconds, said
        self._ended = threading.Event()
        self.lost = threading.Event()
        session.stop, session.patience_s = self._ended, seconds / 4
        self._thread = threading.Thread(target=self._beat, name=f"lease-{session.host.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection; the lease stays until it is released or runs out."""
        self._ended.set()
        self._thread.join(timeout=30)
        self._session.close()

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            try:
                if not renew(self._session, self._run, self._what, seconds=self._seconds):
                    self._said("the lease of this host was lost")
                    self.lost.set()
                    return
            except (NotReached, FleetbenchError) as exc:
                self._said(f"cannot renew the lease: {exc.what}")


def _ask(session: DurableSession, action: str, run: str, seconds: float, what: str) -> tuple[str, Holder]:
    described = {"run": run, "operator": operator(), "since": now(), "what": what}
    argv = bash(_script("lease.sh"), action, run, f"{seconds:.0f}", json.dumps(described))
    answer = session.read(argv, timeout_s=30)
    word, _, rest = answer.stdout.partition("\n")
    if not answer.ok or word not in ("ours", "free", "held", "lost"):
        raise CommandFailed(
            "cannot ask for the host's lease",
            host=session.host.name,
            cause=answer.last_line or f"status {answer.exit_status}",
        )
    return word, _holder(rest)


def _holder(text: str) -> Holder:
    try:
        value = json.loads(text)
    except ValueError:
        value = {}
    known = value if isinstance(value, dict) else {}
    return Holder(**{name: one_line(str(known.get(name, "")), 120) for name in Holder.__dataclass_fields__})


@cache
def _script(name: str) -> str:
    return (files("fleetbench.sweep") / name).read_text(encoding="utf-8")
