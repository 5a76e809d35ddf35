"""Ctrl-C while services change: the work ends where nothing is half done, and what it changed is put back.

SIGTERM, and SIGHUP of a terminal that is closed, mean the same. One is enough; those that follow while the
way back goes on are answered with what is still to come.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fleetbench import console, fleet
from fleetbench.errors import CommandFailed, Exit, FleetbenchError, Interrupted, NotReached
from fleetbench.model import Host
from fleetbench.verbs.interruption import Noted

T = TypeVar("T")
# That many in all leave the hosts as they are just then: one may have gone away for good.
_LEAVES = 5


class Ending(Noted):
    """While work `on_each` host goes on, a signal sets `stop`: sessions look at it between two commands."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._changing: set[str] = set()

    @contextlib.contextmanager
    def changing(self, host: Host) -> Iterator[None]:
        """In the body the host is changed, or put back. One that is lost then has failed: NotReached is for
        hosts that nothing happened to."""
        self._changing.add(host.name)
        try:
            yield
        except NotReached as exc:
            raise CommandFailed(
                f"{exc.what}; it was lost while it was changed",
                host=host.name,
                cause=exc.cause,
                next_step=f"the same command again, and: invoke status --hosts {host.name}",
            ) from exc
        finally:
            self._changing.discard(host.name)

    def on_each(
        self,
        hosts: Sequence[Host],
        work: Callable[[Host], T],
        *,
        status_of: Callable[[T], fleet.Status],
        parallel: int,
        max_failures: int | None = None,
    ) -> tuple[fleet.HostOutcome[T], ...]:
        """Like `fleet.on_each`, where a signal lets each host come to its end."""
        with self:
            return fleet.on_each(
                hosts,
                work,
                status_of=status_of,
                parallel=parallel,
                max_failures=max_failures,
                stop=self.stop,
            )

    def exit_status(self, outcomes: Sequence[fleet.HostOutcome[object]]) -> Exit:
        """Return the exit status: INTERRUPTED where a signal kept hosts from their end, nothing else."""
        failed = [each for each in outcomes if each.status is fleet.Status.FAILED]
        ended = [each for each in outcomes if isinstance(each.error, Interrupted)]
        untried = any(each.status is fleet.Status.NOT_TRIED for each in outcomes)
        if self.stop.is_set() and (ended or untried) and len(failed) == len(ended):
            return Exit.INTERRUPTED
        return fleet.exit_status(outcomes)

    def _attend(self) -> None:
        asked = 0
        while number := self._notes.get():
            if self._over.is_set():
                return
            where = ", ".join(sorted(self._changing))
            asked += number == signal.SIGINT or not asked
            if not self.stop.is_set():
                self.stop.set()
                console.progress(f"ending; put back first: {where}" if where else "ending")
            elif asked >= _LEAVES:
                _leave(where)
            else:
                more = f"Ctrl-C {_LEAVES - asked} more times leaves it half done"
                console.progress(f"still being put back: {where} ({more})" if where else "about to end")


def _leave(where: str) -> None:
    console.error(
        FleetbenchError(
            "ended before all was put back" if where else "ended in the middle",
            cause=f"changed, and perhaps stopped, on {where}" if where else "",
            next_step="invoke status shows what runs, runs/audit.jsonl what was done last" if where else "",
        )
    )
    console.flush()
    os._exit(Exit.FAILED if where else Exit.INTERRUPTED)
