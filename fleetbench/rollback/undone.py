"""What came of a way back, in words: what was done, what is left, and the error that says both."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, ParamSpec, TypeVar

from fleetbench.errors import (
    CommandFailed,
    FleetbenchError,
    NotReached,
    NotUndone,
    foreseen,
    one_line,
)
from fleetbench.transport.durable import DurableSession

# A host that was waited for once is not waited for as long again at each of the steps that are left.
AWAY_AGAIN_S = 10
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is not as it was: a unit, a file or a port; why, and the commands on the host that mend it."""

    name: str
    why: FleetbenchError
    mend: str
    state: str = "could not be undone"

    def __str__(self) -> str:
        return f"{self.name} {self.state}: {_reason(self.why)}"


@dataclass(slots=True)
class Undone:
    """What came of a way back: what was done, in words, and what is left to do."""

    words: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return "; ".join((*self.words, *map(str, self.left)))


class Tries:
    """Does one thing after the other: what fails is kept, and the next one is done all the same."""

    def __init__(self, session: DurableSession) -> None:
        self._session = session
        self.failures: list[FleetbenchError] = []

    def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what the call returns, None where it failed."""
        try:
            return call(*args, **kwargs)
        except Exception as exc:
            if isinstance(exc, NotReached):
                self._session.patience_s = min(self._session.patience_s, AWAY_AGAIN_S)
            self.failures.append(foreseen(exc))
        return None

    def all(self) -> FleetbenchError:
        """The first failure, with the others in its cause."""
        first, *others = self.failures
        causes = [first.cause, *(_reason(each) for each in others)]
        return FleetbenchError(first.what, cause="; ".join(cause for cause in causes if cause))


def after(exc: BaseException, undone: Undone, host: str) -> BaseException:
    """Return the error that ends the work: what went wrong, what was undone, and what was not.

    A host that was changed has failed, however well it is reached: NotReached is for those that were not.
    """
    if not undone.left and not isinstance(exc, Exception):
        return exc  # Ctrl-C where nobody attends to it
    error = foreseen(exc)
    given = {"host": error.host or host, "cause": error.cause, "next_step": error.next_step}
    what = f"{error.what} ({undone.sentence})" if undone.sentence else error.what
    if undone.left:
        mend = "; ".join(each.mend for each in undone.left)
        return NotUndone(what, **given | {"next_step": f"on {host}: {mend}"})
    if isinstance(error, NotReached):
        return CommandFailed(what, **given)
    error = copy.copy(error)
    error.what = what
    return error


def end(exc: BaseException, undone: Undone, session: DurableSession, said: Callable[[str], None]) -> NoReturn:
    """Say what came of a way back, in two lines for each thing that is left; raise the error of it all."""
    if undone.words:
        said("; ".join(undone.words))
    for each in undone.left:
        said(f"NOT AS BEFORE: {each}")
        said(f"to mend {each.name}: {each.mend}")
    error = after(exc, undone, session.host.name)
    if error is exc:
        raise exc
    raise error from exc


def _reason(error: FleetbenchError) -> str:
    return one_line(f"{error.what}: {error.cause}" if error.cause else error.what, 300)
