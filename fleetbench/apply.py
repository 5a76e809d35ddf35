"""From plan to host: runs steps in order, each with its record in the audit, and says how far it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetbench import transient
from fleetbench.audit import AuditLog, Record, masked, now, operator
from fleetbench.errors import CommandFailed, ConnectionLost, FleetbenchError, NotReached, one_line
from fleetbench.install_output import cause
from fleetbench.steps import PutFile, Run, Step, plan_hash
from fleetbench.transport.base import Session, check

Say = Callable[[str], None]
_KEPT_LINES = 2000
_OUR_SCRIPT = "fleetbench: "  # how lines of operations/install_venv.sh begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: between two looks at a unit, and how long a host may stay away before that is a failure."""

    poll_s: float = 2.0
    lost_s: float = 600.0
    first_retry_s: float = 1.0
    longest_retry_s: float = 15.0


def apply(
    session: Session,
    steps: Sequence[Step],
    *,
    progress: Say = lambda _: None,
    reconnect: Callable[[], Session] | None = None,
    audit: AuditLog | None = None,
    patience: Patience | None = None,
) -> Session:
    """Run steps in order on a session's host; stop at the first that fails.

    Args:
        session: the connection to start with.
        steps: a plan's steps.
        progress: told a line at each step and while a long one runs.
        reconnect: gives a new connection when one broke while a unit ran; without it the session itself is
            asked again (a durable session reconnects by itself).
        audit: gets one record per step, also of the one that failed.
        patience: how often to look, how long to wait for a host that is away.

    Returns the session that is open at the end: another than the first when the connection was lost.
    Raises CommandFailed with the decisive line of the output, ConnectionLost when the host stays away.
    """
    if audit is not None:
        audit.ready()
    hash_ = plan_hash(steps)
    lines = _Lines(session, reconnect, patience or Patience(), progress)
    for number, step in enumerate(steps, start=1):
        progress(f"[{number}/{len(steps)}] {step.summary}")
        began, started = now(), time.monotonic()
        status, reason = "failed", "stopped by the operator"
        try:
            _do(lines, step)
            status, reason = "ok", ""
        except FleetbenchError as exc:
            reason = one_line(exc.cause or exc.what)
            if isinstance(exc, NotReached):
                status = "lost"
                exc.next_step = exc.next_step or "run the same command again: what is done is not done twice"
            raise
        finally:
            if audit is not None:
                audit.write(
                    Record(
                        time=began,
                        operator=operator(),
                        host=session.host.name,
                        plan=hash_,
                        step=step.summary,
                        command=_command(step),
                        status=status,
                        seconds=round(time.monotonic() - started, 3),
                        cause=masked((reason,)),
                    )
                )
    return lines.session


def _do(lines: _Lines, step: Step) -> None:
    action = step.action
    if isinstance(action, PutFile):
        lines.session.put(action.content, action.path, mode=action.mode, owner=action.owner)
    elif action.unit:
        _do_as_unit(lines, action, step.summary)
    else:
        check(
            lines.session,
            action.argv,
            timeout_s=action.timeout_s,
            as_user=action.user,
            what=f"{step.summary}: did not work",
        )


def _do_as_unit(lines: _Lines, action: Run, summary: str) -> None:
    """Start, or find running; then look until it ended. The connection may break as often as it likes."""
    host = lines.session.host.name
    first = lines.look(action.unit, "")
    if not first.running:
        try:
            transient.start(lines.session, action, summary)
        except ConnectionLost:
            # Did it start before the line went dead? Another invocation than before says so.
            if lines.look(action.unit, "").invocation == first.invocation:
                transient.start(lines.session, action, summary)
        first = lines.look(action.unit, "")
    else:
        lines.say(f"{action.unit} runs already: following it")
    if f"[{transient.mark(action)}]" not in first.description and first.running:
        raise CommandFailed(
            f"{action.unit} runs with other arguments",
            host=host,
            cause=first.description,
            next_step=f"wait for it, or on the host: systemctl stop {action.unit}",
        )
    seen, state = list(first.lines), first
    give_up = time.monotonic() + action.timeout_s + lines.patience.lost_s
    while state.running:
        lines.tell(state)
        if time.monotonic() > give_up:
            raise CommandFailed(
                f"{action.unit} has not ended within {action.timeout_s:g} s",
                host=host,
                next_step=f"on the host: systemctl status {action.unit}",
            )
        time.sleep(lines.patience.poll_s)
        state = lines.look(action.unit, state.cursor)
        seen = [*seen, *state.lines][-_KEPT_LINES:]
    if not state.succeeded:
        raise _failure(host, action, summary, state, seen)
    lines.tell(state)
    with contextlib.suppress(NotReached):  # it has ended well; a unit that is still listed does no harm
        transient.forget(lines.session, action.unit)


def _failure(
    host: str, action: Run, summary: str, state: transient.Progress, seen: Sequence[str]
) -> CommandFailed:
    if state.load != "loaded":
        return CommandFailed(
            f"{summary}: its unit {action.unit} is gone",
            host=host,
            cause="the host was rebooted, or somebody stopped the unit",
            next_step="run this again",
        )
    if state.result == "timeout":
        return CommandFailed(
            f"{summary}: took longer than {action.timeout_s:g} s and was ended",
            host=host,
            cause=one_line(seen[-1]) if seen else "",
            next_step="run this again: downloads that are complete are kept",
        )
    found = cause(seen, action.unit)
    why = found.line or f"ended with status {state.status} ({state.result})"
    return CommandFailed(f"{summary}: did not work", host=host, cause=why, next_step=found.advice)


class _Lines:
    """The connection, however often it is made again, and the voice that reports."""

    def __init__(
        self, session: Session, reconnect: Callable[[], Session] | None, patience: Patience, say: Say
    ) -> None:
        self.session = session
        self.patience = patience
        self.say = say
        self._reconnect = reconnect or (lambda: session)
        self._last = ""

    def tell(self, state: transient.Progress) -> None:
        """Report the lines of our own scripts and, of what still runs, the newest of any; each once.

        A step may begin and end between two looks.
        """
        lines = [one_line(line) for line in state.lines if line.strip()]
        for place, line in enumerate(lines, start=1):
            newest = state.running and place == len(lines)
            if line != self._last and (line.startswith(_OUR_SCRIPT) or newest):
                self.say(line)
                self._last = line

    def look(self, unit: str, cursor: str) -> transient.Progress:
        """Look at a unit; while the host is away, connect again with growing pauses."""
        delay, lost_at = self.patience.first_retry_s, 0.0
        while True:
            try:
                state = transient.look(self.session, unit, cursor)
            except NotReached as exc:
                if not lost_at:
                    lost_at = time.monotonic()
                    self.say(f"connection lost ({exc.cause or exc.what}); {unit} goes on, connecting again")
                if time.monotonic() - lost_at > self.patience.lost_s:
                    raise ConnectionLost(
                        f"no connection for {self.patience.lost_s:g} s; {unit} may still run",
                        host=self.session.host.name,
                        cause=exc.cause or exc.what,
                        next_step="run the same command again: it finds the unit by its name",
                    ) from exc
                time.sleep(delay)
                delay = min(delay * 2, self.patience.longest_retry_s)
                self._connect()
            else:
                if lost_at:
                    self.say(f"connected again after {time.monotonic() - lost_at:.0f} s")
                return state

    def _connect(self) -> None:
        with contextlib.suppress(NotReached):
            fresh = self._reconnect()
            if fresh is not self.session:
                with contextlib.suppress(FleetbenchError):
                    self.session.close()
                self.session = fresh


def _command(step: Step) -> str:
    action = step.action
    if isinstance(action, PutFile):
        return f"put {action.path} {action.mode:04o} {action.owner}"
    return masked((*(("unit", action.unit) if action.unit else ()), *action.argv))
