"""The state of a sweep as its events tell it: what each host does, what became of each trial, how long yet.

Pure: a board and an event give the next board. Times of a board are seconds of any clock that goes forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleetbench.model import Step, TrialState
from fleetbench.sweep.events import Event, EventKind, Expected, nothing_expected

OVER = (TrialState.MEASURED, TrialState.FAILED, TrialState.IMPLIED, TrialState.NOT_RUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """One trial on the board. `began_s` is None for one that was not begun while somebody watched."""

    number: int
    host: str
    config: str
    state: TrialState = TrialState.PENDING
    cause: str = ""
    began_s: float | None = None
    ended_s: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a host (or a lane of it) does. `elapsed_s` was right at `at_s`."""

    host: str
    lane: str = ""
    trial: int | None = None
    config: str = ""
    step: Step = Step.IDLE
    note: str = ""
    at_s: float = 0.0
    elapsed_s: float = 0.0
    expected_s: float | None = None
    done: int | None = None
    wanted: int | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """All trials by number, and what each host does now; `began_s` is when watching began."""

    trials: Mapping[int, TrialView] = field(default_factory=lambda: MappingProxyType({}))
    doing: Mapping[tuple[str, str], Doing] = field(default_factory=lambda: MappingProxyType({}))
    began_s: float = 0.0

    @property
    def running(self) -> tuple[Doing, ...]:
        """What is done now, in the order of the trials; hosts without one last."""
        return tuple(sorted(self.doing.values(), key=lambda d: (d.trial is None, d.trial or 0, d.host)))

    @property
    def ended(self) -> tuple[TrialView, ...]:
        """The trials that ended while somebody watched, the last one first."""
        over = [view for view in self.trials.values() if view.ended_s is not None]
        return tuple(sorted(over, key=lambda view: (view.ended_s or 0.0, view.number), reverse=True))

    def count(self, *states: TrialState) -> int:
        """Return how many trials are in one of these states."""
        return sum(view.state in states for view in self.trials.values())


def empty_board(views: Sequence[TrialView], began_s: float) -> Board:
    """Return the board of a run of which nothing has been seen yet."""
    return Board(trials={view.number: view for view in views}, began_s=began_s)


def after(board: Board, event: Event, at_s: float) -> Board:
    """Return the board after an event that happened at `at_s`."""
    if event.trial is not None and event.kind in (EventKind.TRIAL, EventKind.REPEAT):
        view = _trial_after(board.trials.get(event.trial), event.trial, event, at_s)
        return replace(board, trials={**board.trials, event.trial: view})
    place = (event.host, event.lane)
    if event.kind is EventKind.LEFT:
        return replace(board, doing={key: value for key, value in board.doing.items() if key != place})
    doing = _doing_after(board.doing.get(place), event, at_s)
    return board if doing is None else replace(board, doing={**board.doing, place: doing})


def left_s(board: Board, now_s: float, expected: Expected = nothing_expected) -> float | None:
    """Return about how long the rest takes; None when nothing is known about a trial that is left.

    A trial takes what is expected of it, else what the measured ones that were seen took on average. Hosts
    share the rest evenly, but it takes no less than its longest trial.
    """
    seen = [
        view.ended_s - view.began_s
        for view in board.trials.values()
        if view.state is TrialState.MEASURED and view.ended_s is not None and view.began_s is not None
    ]
    average = sum(seen) / len(seen) if seen else None
    rest: list[float] = []
    for view in board.trials.values():
        if view.state in OVER:
            continue
        whole = sum(expected(view.number).values()) or average
        if whole is None:
            return None
        gone = now_s - view.began_s if view.state is TrialState.RUNNING and view.began_s is not None else 0.0
        rest.append(max(0.0, whole - gone))
    return max(sum(rest) / max(1, len(board.doing)), max(rest, default=0.0))


def _trial_after(view: TrialView | None, number: int, event: Event, at_s: float) -> TrialView:
    view = view or TrialView(number=number, host=event.host, config=event.config)
    if event.kind is EventKind.REPEAT:
        return view if event.step is Step.WARM_UP else replace(view, tokens_per_s=event.tokens_per_s)
    view = replace(view, host=event.host or view.host, state=event.state or view.state, cause=event.cause)
    if event.state is TrialState.RUNNING:
        return replace(view, began_s=at_s, ended_s=None)
    return replace(view, ended_s=at_s) if event.state in OVER else view


def _doing_after(doing: Doing | None, event: Event, at_s: float) -> Doing | None:
    if event.kind is EventKind.STEP and event.step is not None:
        return Doing(
            host=event.host,
            lane=event.lane,
            trial=event.trial,
            config=event.config,
            step=event.step,
            note=event.text,
            at_s=at_s,
            elapsed_s=event.elapsed_s or 0.0,
            expected_s=event.expected_s,
        )
    if doing is not None and event.kind is EventKind.COUNT:
        speed = event.tokens_per_s or doing.tokens_per_s
        return replace(doing, done=event.done, wanted=event.wanted, tokens_per_s=speed)
    if doing is not None and event.kind is EventKind.PROGRESS:
        return replace(doing, note=event.text)
    return doing
