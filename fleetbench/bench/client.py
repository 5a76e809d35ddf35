"""The bench client as a transient unit: start it once, watch it, fetch what it left, clean up.

Every question to the host may be asked twice, so a lost connection or a killed controller costs nothing:
the next controller asks again and finds the unit by its name.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from fleetbench.bench_program import Program
from fleetbench.errors import CommandFailed, FleetbenchError, one_line
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

RESULT = "result.json"
SAY_EVERY_S = 5.0
LEFT_BEHIND = ("stdout", "stderr", RESULT, "exit_status", "program.json")
# tqdm's bar: " 12%|█▏        | 12/100 [00:03<00:24,  3.61it/s]", from an hour on "1:02:03".
_COUNT = re.compile(r"(\d{1,9})/(\d{1,9}) \[(?:(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<)?")


_BEGUN = '[ -e "$2/boot" ] || systemctl is-active -q "$1.service"'


class State(StrEnum):
    """What the host says about a client; see start.sh."""

    STARTED = "started"
    FINISHED = "finished"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One execution of a bench client.

    Attributes:
        unit: unit name without `.service`.
        directory: on the client host; everything it leaves is there.
        limit_s: systemd kills it after that long, whoever watches.
        python: interpreter on the host that hands it over, or starts it.
        program: what `command` is when it is started by itself.
        preloaded: directory of the socket of a process that has imported it; empty: there is none.
    """

    unit: str
    directory: str
    user: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    credential: str
    limit_s: float
    python: str
    program: Program = Program.PYTHON
    preloaded: str = ""

    @property
    def output(self) -> str:
        """The part of the directory that the client itself may write to."""
        return f"{self.directory}/out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How far a client is: requests done and wanted, and seconds since its first (None: it does not say)."""

    done: int
    wanted: int
    elapsed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a client left: file contents by name, and its exit status (None: it was killed).

    `program` is what measured, as its host says (None: it did not come that far); `not_preloaded` why it was
    not the preloaded one although there was one.
    """

    content: Mapping[str, bytes]
    exit_status: int | None
    result: str = ""
    program: Program | None = None
    not_preloaded: str = ""

    @property
    def crashed(self) -> str:
        """How it was ended by a signal, which says nothing about the server; empty when it was not.

        A shell says 128 + N for signal N. systemd ends it itself when it takes too long: that is no crash.
        """
        if self.exit_status is None:
            return "" if self.result == "timeout" else f"it was killed (systemd: {self.result or 'unknown'})"
        return f"signal {self.exit_status - 128} ended it" if 128 < self.exit_status < 193 else ""


def start(session: DurableSession, client: Client) -> State:
    """Start the client unless it runs or has run; say which. CommandFailed when it cannot be started."""
    assignments = [f"{name}={value}" for name, value in client.environment.items()]
    argv = bash(
        script("place.sh") + script("as_client.sh") + script("start.sh"),
        client.unit,
        client.directory,
        client.user,
        f"{client.limit_s:.0f}",
        client.credential,
        script("on_client/handover.py"),
        str(len(assignments)),
        *assignments,
        client.python,
        client.preloaded,
        client.program,
        *client.command,
    )
    answer = session.read(argv, timeout_s=60)
    word = answer.stdout.strip()
    if not answer.ok or word not in set(State):
        raise CommandFailed(
            f"cannot start the bench client {client.unit}",
            host=session.host.name,
            cause=answer.last_line or f"status {answer.exit_status}",
            next_step=f"room below {client.directory}? invoke provision --hosts {session.host.name}",
        )
    return State(word)


def begun(session: DurableSession, client: Client) -> bool:
    """True when the client runs, or has run, under this name."""
    return session.read(bash(_BEGUN, client.unit, client.directory), timeout_s=30).ok


def own_place(session: DurableSession, directory: str, user: str) -> None:
    """Make a client's directory before its start; CommandFailed where root must not work."""
    made = session.read(bash(script("place.sh") + 'own_place "$1" "$2"', directory, user))
    if not made.ok:
        raise CommandFailed(
            f"cannot make {directory}",
            host=session.host.name,
            cause=made.last_line,
            next_step=f"invoke provision --hosts {session.host.name}",
        )


def wait(
    session: DurableSession,
    client: Client,
    *,
    said: Callable[[str], None],
    alive: Callable[[], None] = lambda: None,
    counted: Callable[[Count], None] = lambda _: None,
    longest_pause_s: float = 1.5,
) -> State:
    """Wait until the client has finished, was killed or is lost; `said` gets its progress.

    `counted` gets how far it is, whenever that changes. `alive` is called at each look; it may raise to give
    up early, for instance when the server died.
    """
    told, told_at = "", 0.0
    before: Count | None = None
    pause_s = 0.2  # a short client is over soon; a long one need not be asked often
    while True:
        asked = bash(script("watch.sh"), client.unit, client.directory, client.user)
        answer = session.read(asked, timeout_s=30)
        head, _, tail = answer.stdout.partition("\n\n")
        shown = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
        if "exit_status" in shown:
            return State.FINISHED
        # "exited" without a status: it could not write it, for instance because the disk is full.
        if shown.get("ActiveState") not in ("active", "activating", "deactivating") or (
            shown.get("SubState") == "exited"
        ):
            return State.ENDED if shown.get("boot") == "same" else State.LOST
        count = count_of(tail)
        line = f"{count.done}/{count.wanted} requests" if count else ""
        if count is not None and count != before:
            counted(count)
            before = count
        if line and line != told and time.monotonic() - told_at >= SAY_EVERY_S:
            said(line)
            told, told_at = line, time.monotonic()
        alive()
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, longest_pause_s)


def count_of(text: str) -> Count | None:
    """Given the end of what a client wrote, return how far its last progress bar is."""
    bars = list(_COUNT.finditer(text))
    if not bars:
        return None
    found = bars[-1]
    hours, minutes, seconds = found[3], found[4], found[5]
    elapsed = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) if minutes else None
    return Count(done=int(found[1]), wanted=int(found[2]), elapsed_s=elapsed)


def fetch(session: DurableSession, client: Client) -> Left:
    """Return what the client left; files that are not there are simply missing."""
    content: dict[str, bytes] = {}
    for name in LEFT_BEHIND:
        try:
            content[name] = session.get(f"{client.output}/{name}", as_user=client.user)
        except CommandFailed:
            continue  # killed before it wrote it
    status = content.pop("exit_status", b"").strip()
    program, not_preloaded = _noted(content.pop("program.json", b""))
    shown = session.read(("systemctl", "show", f"{client.unit}.service", "-P", "Result"))
    return Left(
        content=content,
        exit_status=int(status) if status.isdigit() else None,
        result=one_line(shown.stdout, 60),
        program=program,
        not_preloaded=not_preloaded,
    )


def _noted(text: bytes) -> tuple[Program | None, str]:
    """Read what handover.py wrote down; the file is the service user's, so it may be anything."""
    try:
        noted = json.loads(text)
        return Program(noted["program"]), one_line(str(noted.get("not_preloaded", "")), 200)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, ""


def refuse_without_room(session: DurableSession, client: Client, name: str) -> None:
    """Raise FleetbenchError, and forget the client, when it failed because it could not write its results."""
    answer = session.read(bash(script("room.sh"), client.directory, client.user), timeout_s=60)
    said = [line for line in answer.stdout.splitlines() if line.strip()]
    if said:
        clear(session, client)
        raise FleetbenchError(
            f"{name}: the client cannot write its results",
            host=session.host.name,
            cause=one_line(said[0].rpartition(": ")[2], 120),
            next_step=f"mend that below {client.directory.rpartition('/')[0]}, then resume the run",
        )


def stop(session: DurableSession, client: Client) -> None:
    """End the client before its time; what it has written stays."""
    session.read(("systemctl", "stop", f"{client.unit}.service"), timeout_s=60)


def clear(session: DurableSession, client: Client) -> None:
    """Remove the unit and its directory: nothing of ours stays on a host."""
    stop(session, client)
    session.read(("systemctl", "reset-failed", f"{client.unit}.service"))
    session.read(("rm", "-rf", "--", client.directory))


def abandon(session: DurableSession, unit: str, directory: str) -> None:
    """End a client that still runs and forget it, as if it had never been started."""
    session.read(bash(script("abandon.sh"), unit, directory), timeout_s=60)


def remove_if_empty(session: DurableSession, directories: Sequence[str]) -> None:
    """Remove directories that nothing is left in, innermost first."""
    session.read(("rmdir", "--ignore-fail-on-non-empty", "--", *directories))


@cache
def script(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("fleetbench.bench") / name).read_text(encoding="utf-8")
