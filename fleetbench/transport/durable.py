"""A session that outlives its connection: opened when needed, opened again when it broke.

What runs on the host as a transient unit does not care about our connection; this is the other half: the
controller keeps asking until the host answers again, and gives up after `patience_s`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fleetbench.errors import HostKeyRefused, Interrupted, NotReached
from fleetbench.model import Host
from fleetbench.transport.base import CommandResult, Session


class Stop(Protocol):
    """An event that ends waiting: Ctrl-C, or a lease that was lost."""

    def is_set(self) -> bool:
        """True once it has happened."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most that long; True when it has happened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to a host that was tried: in words, by which command, and what came of it.

    `cause` is empty when it worked; `seconds` is how long it took.
    """

    host: str
    step: str
    argv: tuple[str, ...]
    seconds: float
    cause: str = ""


Opener = Callable[[], Session]
T = TypeVar("T")


class DurableSession:
    """Same contract as the session that `opener` gives; `run` is never repeated, the rest may be.

    A command that changes something is not repeated blindly: `run` raises `ConnectionLost` and the caller
    decides. `read`, `put` and `get` change nothing when they run twice, so they wait for the host instead,
    up to `patience_s`; a host that has not answered once is waited for only when it is `known` to be there.
    `away` is told True when the host stopped answering, and False when it answers again.
    Once the event `stop` is set (Ctrl-C reaches only the main thread), `read` and waiting raise Interrupted.
    `record` is told of each `change`, and of files that are written with a `step` in words.
    `still_ours` is asked before anything is put back: LeaseLost where somebody else works on the host by now.
    """

    def __init__(
        self,
        host: Host,
        opener: Opener,
        *,
        patience_s: float = 300,
        known: bool = True,
        said: Callable[[str], None] = lambda _: None,
        stop: Stop | None = None,
        record: Callable[[Change], None] = lambda _: None,
    ) -> None:
        self.host = host
        self.stop = stop
        self._record = record
        self.patience_s = patience_s
        self.away: Callable[[bool], None] = lambda _: None
        self.still_ours: Callable[[], None] = lambda: None
        self._known = known
        self._opener = opener
        self._said = said
        self._inner: Session | None = None
        self._closed_round_trips = 0
        self._silent_since = ""  # UTC; empty while the host answers

    @property
    def round_trips(self) -> int:
        """Commands sent so far, over all connections."""
        return self._closed_round_trips + (self._inner.round_trips if self._inner else 0)

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        """Run once; ConnectionLost when the connection breaks."""
        with self._connected() as session:
            return session.run(argv, timeout_s=timeout_s, as_user=as_user)

    def read(self, argv: Sequence[str], *, timeout_s: float | None = None) -> CommandResult:
        """Run a command that may run twice; wait and repeat while the host cannot be reached."""
        self._pause(0)
        return self.patiently(lambda session: session.run(argv, timeout_s=timeout_s))

    def change(self, argv: Sequence[str], *, step: str, timeout_s: float | None = None) -> CommandResult:
        """Like `read`, for a command that changes the host: what came of it goes on record."""
        with self._recorded(step, argv) as came:
            result = self.read(argv, timeout_s=timeout_s)
            came.append("" if result.ok else result.last_line or f"status {result.exit_status}")
        return result

    def refuse_stopped(self) -> None:
        """Raise Interrupted once `stop` is set: between two things of which neither is half done."""
        self._pause(0)

    def put(
        self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root", step: str = ""
    ) -> None:
        """Write a whole file atomically."""
        with self._recorded(step, ("put", path, f"{mode:04o}", owner)) as came:
            self.patiently(lambda session: session.put(content, path, mode=mode, owner=owner))
            came.append("")

    def get(self, path: str, *, as_user: str = "") -> bytes:
        """Return a file's content."""
        return self.patiently(lambda session: session.get(path, as_user=as_user))

    @contextlib.contextmanager
    def forward(self, port: int, address: str = "127.0.0.1") -> Iterator[int]:
        """Give a loopback port of the controller that leads to the host's."""
        with self._connected() as session, session.forward(port, address) as local:
            yield local

    def close(self) -> None:
        """Close the connection, if one is open."""
        if self._inner is not None:
            self._closed_round_trips += self._inner.round_trips
            self._inner.close()
            self._inner = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Session]:
        if self._inner is None:
            self._inner = self._opener()
        self._known = True
        try:
            yield self._inner
        except NotReached:
            self.close()
            raise

    def patiently(self, call: Callable[[Session], T]) -> T:
        """Return what `call` returns for a connected session; repeat it while the host cannot be reached."""
        give_up: float | None = None  # from the first failure on: a controller that slept was not waiting
        delay, quiet = 0.5, True
        while True:
            try:
                with self._connected() as session:
                    answer = call(session)
            except HostKeyRefused:
                raise  # waiting does not make a wrong key right
            except NotReached as exc:
                self._silent_since = self._silent_since or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                exc.since = self._silent_since
                give_up = give_up or time.monotonic() + self.patience_s
                if time.monotonic() >= give_up or not self._known:
                    raise
                if quiet:
                    self._said(f"not reachable ({exc.cause or exc.what}); asking again")
                    self.away(True)
                    quiet = False
                self._pause(delay)
                delay = min(delay * 1.6, 5.0)
            else:
                self._silent_since = ""
                if not quiet:
                    self._said("reachable again")
                    self.away(False)
                return answer

    @contextlib.contextmanager
    def _recorded(self, step: str, argv: Sequence[str]) -> Iterator[list[str]]:
        """Put on record what the block comes to: the cause it appends, or the error that it ends with."""
        came: list[str] = []
        began = time.monotonic()
        try:
            yield came
        except BaseException as exc:
            came.append(str(exc) or type(exc).__name__)
            raise
        finally:
            if step:
                seconds = round(time.monotonic() - began, 3)
                cause = came[-1] if came else ""
                self._record(
                    Change(host=self.host.name, step=step, argv=tuple(argv), seconds=seconds, cause=cause)
                )

    def _pause(self, seconds: float) -> None:
        if self.stop is None:
            time.sleep(seconds)
        elif self.stop.wait(seconds):
            raise Interrupted("interrupted", host=self.host.name)
