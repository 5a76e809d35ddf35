"""What all verbs share: the options, the inventory, the facts of a host, and one place for errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fleetbench import console, fleet
from fleetbench.audit import AuditLog, Record, masked, now, operator
from fleetbench.deploy import CREDENTIAL
from fleetbench.errors import Exit, FleetbenchError, Interrupted, UsageError
from fleetbench.facts import probe
from fleetbench.facts.values import HostFacts
from fleetbench.inventory import Inventory, default_directory, load, select
from fleetbench.model import Host
from fleetbench.transport.durable import Change, DurableSession
from fleetbench.transport.open import durable
from fleetbench.verbs import entrance


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options that every verb takes."""

    hosts: str = ""
    inventory: str = ""
    parallel: int = 16
    check: bool = False
    yes: bool = False
    form: str = "table"
    debug: bool = False

    def load(self) -> Inventory:
        """Read the inventory directory."""
        return load(self.directory)

    @property
    def directory(self) -> Path:
        """The inventory's directory."""
        return Path(self.inventory) if self.inventory else default_directory()

    def chosen(self, inventory: Inventory) -> tuple[Host, ...]:
        """Return the hosts that `--hosts` means; UsageError without it."""
        if not self.hosts:
            raise UsageError("no hosts given", next_step="--hosts NAME, a list, h100-[01-08] or @group")
        return select(inventory, self.hosts)


def guarded(options: Options, verb: Callable[[], Exit]) -> NoReturn:
    """Run a verb and leave with its exit status; errors become at most three lines."""
    if options.form not in console.FORMATS:
        console.error(UsageError(f"unknown format {options.form!r}", next_step="table, json or csv"))
        raise SystemExit(Exit.FAILED)
    entrance.begin()
    try:
        status = verb()
    except KeyboardInterrupt:
        console.error(FleetbenchError("interrupted"))
        entrance.leave(Exit.INTERRUPTED)
    except FleetbenchError as exc:
        console.error(exc, debug=options.debug)
        raise SystemExit(exc.exit_status) from None
    except BrokenPipeError:
        raise SystemExit(Exit.FAILED) from None
    except Exception as exc:
        console.error(exc, debug=options.debug)
        raise SystemExit(Exit.FAILED) from None
    raise SystemExit(status)


def session_to(
    host: Host,
    *,
    patience_s: float = 60,
    known: bool = False,
    stop: threading.Event | None = None,
    plan: str = "",
) -> DurableSession:
    """Return a session to a host that reports its troubles on the console, and its changes to the audit.

    A host that does not answer the first time is named at once; one that is `known` to exist is waited for.
    `plan` is what the changes belong to, for instance the id of a run.
    """

    def record(change: Change) -> None:
        try:
            AuditLog(audit_path()).write(_recorded(change, plan))
        except FleetbenchError as exc:  # it has happened, and what follows may be the way back
            console.progress(f"not in the audit: {change.step} ({exc.cause})", host=host.name)

    return durable(host, patience_s=patience_s, known=known, said=say(host), stop=stop, record=record)


def _recorded(change: Change, plan: str) -> Record:
    return Record(
        time=now(),
        operator=operator(),
        host=change.host,
        plan=plan,
        step=change.step,
        command=masked(change.argv),
        status="failed" if change.cause else "ok",
        seconds=change.seconds,
        cause=masked((change.cause,)) if change.cause else "",
    )


def facts_of(session: DurableSession, host: Host, paths: Sequence[str] = ()) -> HostFacts:
    """Read a host's facts: always the unit files, the venv link and the credential, and `paths` beside."""
    wanted = (CREDENTIAL, host.venv_link, *paths)
    session.refuse_stopped()
    return session.patiently(lambda inner: probe.read(inner, paths=wanted))


def audit_path() -> Path:
    """Return the file that records every step taken on any host."""
    return Path(os.environ.get("FLEETBENCH_RUNS") or "runs") / "audit.jsonl"


def say(host: Host) -> Callable[[str], None]:
    """Return a function that writes progress lines of a host."""
    return lambda text: console.progress(text, host=host.name)


def at_least(least: int, **numbers: float) -> None:
    """Raise UsageError for the first of the options whose number is below `least`."""
    for name, number in numbers.items():
        if number < least:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} {number:g} is too small", next_step=f"a number from {least} up")


def print_failures(outcomes: Sequence[fleet.HostOutcome[object]], options: Options) -> None:
    """Write the error of each host that failed or was not reached, and name those that were not tried."""
    ended = any(isinstance(outcome.error, Interrupted) for outcome in outcomes)
    why = "not tried: interrupted" if ended else "not tried: too many hosts failed before"
    for outcome in outcomes:
        if outcome.error is not None:
            console.error(outcome.error, debug=options.debug)
        elif outcome.status is fleet.Status.NOT_TRIED:
            console.error(FleetbenchError(why, host=outcome.host.name))
