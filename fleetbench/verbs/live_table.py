"""The board of a sweep as a picture for a terminal: running trials, the last ones that ended, totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetbench.errors import one_line
from fleetbench.model import Step, TrialState
from fleetbench.sweep.board import Board, Doing, TrialView, left_s
from fleetbench.sweep.events import Expected, nothing_expected

if TYPE_CHECKING:
    from rich.console import RenderableType

ENDED_SHOWN = 5
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its heading (and a short one), the width of terminals that show it, and its layout."""

    name: str
    from_width: int
    right: bool = False
    least: int = 0
    share: int = 0
    short: str = ""


_COLUMNS = (
    _Column("trial", 0, right=True, least=5),
    _Column("host", 64, least=6),
    _Column("configuration", 48, least=9, share=2, short="config"),
    _Column("phase", 0, least=8),
    _Column("elapsed/expected", 36, right=True, least=9, short="elapsed"),
    _Column("tok/s", 58, right=True, least=6),
    _Column("result", 0, least=6, share=3),
)


def picture(
    board: Board, now_s: float, width: int, height: int, expected: Expected = nothing_expected
) -> RenderableType:
    """Return what the terminal shows: it fits `width` columns and `height` lines.

    Everything passes as plain text: what a host sends is never read as marks of the renderer.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = [column for column in _COLUMNS if width >= column.from_width]
    table = Table(box=None, pad_edge=False, padding=(0, 1), expand=True, header_style="bold", width=width)
    for column in shown:
        table.add_column(
            Text(column.name if width >= 96 else column.short or column.name, style="bold"),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=min(column.least, width),
            ratio=column.share or None,
        )
    room = max(1, height - 4)
    running, hidden = _that_fit(board.running, room)
    for cells, style in (
        *((_of_running(doing, now_s), "") for doing in running),
        *(
            (_of_ended(view), _style(view))
            for view in board.ended[: max(0, min(ENDED_SHOWN, room - len(running)))]
        ),
    ):
        table.add_row(*(Text(one_line(cells[column.name], 200), style=style) for column in shown))
    foot = totals(board, now_s, expected)
    if hidden:
        foot = f"{hidden} more hosts at work · {foot}"
    return Group(table, Text(foot, no_wrap=True, overflow="ellipsis", style="bold"))


def totals(board: Board, now_s: float, expected: Expected = nothing_expected) -> str:
    """Return the line below the table: how many trials are where, how long it took and will take."""
    parts = [f"{board.count(TrialState.MEASURED)} of {len(board.trials)} measured"]
    for word, states in (
        ("failed", (TrialState.FAILED,)),
        ("skipped", (TrialState.IMPLIED, TrialState.NOT_RUN)),
        ("running", (TrialState.RUNNING,)),
    ):
        if board.count(*states):
            parts.append(f"{board.count(*states)} {word}")
    rest = left_s(board, now_s, expected)
    about = f", about {clock(rest)} left" if rest is not None and rest > 0 else ""
    return f"{', '.join(parts)} · {clock(now_s - board.began_s)} so far{about}"


def clock(seconds: float | None) -> str:
    """Return a duration as `0:42`, `12:07` or `3:05:00`; a dash when it is not known."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _that_fit(running: tuple[Doing, ...], room: int) -> tuple[tuple[Doing, ...], int]:
    return running[:room], len(running) - len(running[:room])


def _of_running(doing: Doing, now_s: float) -> dict[str, str]:
    elapsed = doing.elapsed_s + max(0.0, now_s - doing.at_s)
    count = f"{doing.done}/{doing.wanted} requests" if doing.done is not None else ""
    note = doing.note.rpartition(": ")[2]
    if doing.step is Step.COMPILE and note.startswith("loading"):
        note = ""  # the line that says that the weights are loaded is the last one that speaks of loading
    where = f"{doing.host} [{doing.lane}]" if doing.lane else doing.host
    return {
        "trial": str(doing.trial) if doing.trial is not None else UNKNOWN,
        "host": where,
        "configuration": doing.config or UNKNOWN,
        "phase": doing.step.value,
        "elapsed/expected": f"{clock(elapsed)}/{clock(doing.expected_s)}",
        "tok/s": _speed(doing.tokens_per_s),
        "result": count or note,
    }


def _of_ended(view: TrialView) -> dict[str, str]:
    took = view.ended_s - view.began_s if view.ended_s is not None and view.began_s is not None else None
    return {
        "trial": str(view.number),
        "host": view.host,
        "configuration": view.config,
        "phase": {TrialState.IMPLIED: "skipped"}.get(view.state, view.state.value),
        "elapsed/expected": clock(took),
        "tok/s": _speed(view.tokens_per_s),
        "result": view.cause or "done",
    }


def _speed(tokens_per_s: float | None) -> str:
    return UNKNOWN if tokens_per_s is None else f"{tokens_per_s:,.0f}"


def _style(view: TrialView) -> str:
    return "bold" if view.state is TrialState.FAILED else "dim"
