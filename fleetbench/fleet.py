"""The same work on many hosts: bounded parallelism, and an outcome for each host whatever happens to one.

Hosts do not wait for each other. A failure on one never stops the others; with `max_failures` no *new* host
is started once that many have failed, and those are reported as not tried.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from fleetbench.errors import Exit, FleetbenchError, NotReached
from fleetbench.model import Host

# Handlers of signals run in the main thread alone, but the kernel may hand a signal to any: one that waits
# without an end would then not learn of it.
NOTICE_S = 0.2

T = TypeVar("T")
Value_co = TypeVar("Value_co", covariant=True)


class Status(StrEnum):
    """What became of the work on one host."""

    OK = "ok"
    CHANGED = "changed"
    WOULD_CHANGE = "would change"
    FAILED = "failed"
    NOT_REACHED = "not reached"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class HostOutcome(Generic[Value_co]):
    """One host's outcome: `value` when the work returned, else `error`."""

    host: Host
    status: Status
    value: Value_co | None = None
    error: BaseException | None = None


def on_each(
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    *,
    status_of: Callable[[T], Status] = lambda _: Status.OK,
    parallel: int = 16,
    max_failures: int | None = None,
    done: Callable[[HostOutcome[T]], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> tuple[HostOutcome[T], ...]:
    """Run `work` on each host in its own thread and return the outcomes in the hosts' order.

    `done` is called once per host, from that host's thread, as it ends. An exception that is no
    FleetbenchError is kept as the host's error too: one host's surprise must not hide nine results.
    Ctrl-C sets `stop`, waits for the hosts' own clean-up, and is raised again. Without `stop` there is
    nothing to put back, and nobody waits for a host that does not answer.
    """
    failures = 0
    lock = threading.Lock()

    def one(host: Host) -> HostOutcome[T]:
        nonlocal failures
        with lock:
            if (max_failures is not None and failures > max_failures) or (stop is not None and stop.is_set()):
                return HostOutcome(host, Status.NOT_TRIED)
        try:
            value = work(host)
            outcome = HostOutcome(host, status_of(value), value)
        except Exception as exc:
            status = Status.NOT_REACHED if isinstance(exc, NotReached) else Status.FAILED
            if isinstance(exc, FleetbenchError) and not exc.host:
                exc.host = host.name
            outcome = HostOutcome(host, status, None, exc)
            with lock:
                failures += 1
        done(outcome)
        return outcome

    if len(hosts) == 1:  # no thread: Ctrl-C and tracebacks stay simple
        return (one(hosts[0]),)
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts))))
    try:
        futures = [pool.submit(one, host) for host in hosts]
        while concurrent.futures.wait(futures, timeout=NOTICE_S).not_done:
            pass
        return tuple(future.result() for future in futures)
    except KeyboardInterrupt:
        if stop is not None:
            stop.set()
        pool.shutdown(wait=stop is not None, cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False)


def exit_status(outcomes: Sequence[HostOutcome[object]]) -> Exit:
    """Return the exit status that the outcomes add up to: the worst of them decides."""
    found = {outcome.status for outcome in outcomes}
    if Status.FAILED in found:
        return Exit.FAILED
    if found & {Status.NOT_REACHED, Status.NOT_TRIED}:
        return Exit.NOT_REACHED
    return Exit.CHANGES_PENDING if Status.WOULD_CHANGE in found else Exit.OK
