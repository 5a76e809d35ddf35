"""The only door to the terminal: tables, JSON, CSV, progress lines and errors.

Results go to stdout, everything about the work (progress, errors) to stderr, so that
`fleetbench … --format json | jq` always works. Text that came from a host passes `one_line`.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import select
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from fleetbench.errors import FleetbenchError, one_line
from fleetbench.table_layout import GAP, is_number, lay_out, shortened, texts, wrapped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

FORMATS = ("table", "json", "csv")

_lock = threading.Lock()
_picture = threading.Lock()
_started = time.monotonic()
_quiet = False
_live: Live | None = None


def quiet(value: bool = True) -> None:
    """Turn progress lines off (errors and results stay)."""
    global _quiet  # noqa: PLW0603  one terminal, one setting
    _quiet = value


def _emit(text: str, stream: IO[str]) -> None:
    shown = _live
    if shown is not None and (stream is sys.stderr or stream.isatty()):  # a terminal has one picture
        from rich.text import Text

        shown.console.print(Text(text.removesuffix("\n")), soft_wrap=True)
        return
    with _lock:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()


def is_live() -> bool:
    """Whether stderr can show a picture that changes: a terminal that moves its cursor, and is asked to."""
    if "NO_COLOR" in os.environ or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return sys.stderr.isatty() and not _quiet


@contextlib.contextmanager
def live(picture: Callable[[int, int], RenderableType]) -> Iterator[None]:
    """Keep a picture at the foot of the terminal while the body runs; lines are written above it.

    `picture` is given columns and lines of the terminal and is asked at most four times a second, from a
    thread of its own. The cursor is never hidden, so a killed process leaves a terminal that works.
    """
    from rich.console import Console
    from rich.live import Live

    global _live  # noqa: PLW0603  one terminal, one picture

    class Terminal(Console):
        def show_cursor(self, show: bool = True) -> bool:
            return False

    terminal = Terminal(file=sys.stderr, highlight=False, markup=False, emoji=False)
    shown = Live(
        console=terminal,
        get_renderable=lambda: picture(terminal.width, terminal.height),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )
    try:
        with shown:
            _live = shown
            yield
    finally:
        with _picture:
            _live = None
            shown.stop()


def write(text: str) -> None:
    """Write a result text to stdout."""
    _emit(text, sys.stdout)


def progress(text: str, *, host: str = "") -> None:
    """Write one line about the work to stderr: seconds since the start, host, what happens.

    A terminal that was closed, a pipe without a reader, a full disk: the line is lost, the work goes on.
    """
    if _quiet:
        return
    where = f"{host}: " if host else ""
    with contextlib.suppress(OSError, ValueError):
        _emit(f"{time.monotonic() - _started:7.1f}s  {where}{one_line(text, 300)}", sys.stderr)


def to_terminal() -> bool:
    """True when results are read by a person and not by the next program of a pipe."""
    return sys.stdout.isatty()


def on_terminal() -> bool:
    """True when an operator can be asked: this process has the terminal to itself, for reading and writing.

    One in the background would be stopped by the terminal as soon as it reads.
    """
    try:
        mine = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False
    return mine and sys.stderr.isatty()


@contextlib.contextmanager
def asking(question: str) -> Iterator[None]:
    """Put a question to the terminal while the body waits for its answer; what was typed before is none.

    A picture is not drawn meanwhile: it would be drawn over what is typed, and the echo would shift it.
    """
    shown = _live
    if shown is not None:
        shown.stop()
    try:
        with contextlib.suppress(OSError, ValueError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            _emit(question, sys.stderr)
        yield
    finally:
        with _picture:
            if shown is not None and _live is shown:  # what it is a picture of may be over by now
                shown.start(refresh=True)


def answer(timeout_s: float) -> str | None:
    """Return the line that the operator types within that time; None when none came, empty at the end."""
    try:
        if not select.select([sys.stdin], [], [], timeout_s)[0]:
            return None
        return os.read(sys.stdin.fileno(), 1000).decode("utf-8", "replace").strip()
    except (OSError, ValueError):  # the terminal is gone
        return ""


def flush() -> None:
    """Write out what is still kept back, before a process ends without its usual clean-up."""
    sys.stdout.flush()
    sys.stderr.flush()


def error(exc: BaseException, *, debug: bool = False) -> None:
    """Write an error to stderr: at most three lines each, the traceback only on request."""
    if debug:
        _emit("".join(traceback.format_exception(exc)), sys.stderr)
    if isinstance(exc, FleetbenchError):
        _emit(f"error: {exc}", sys.stderr)
    else:
        name = type(exc).__name__
        _emit(f"error: {name}: {one_line(str(exc))}\n  next:  run again with --debug", sys.stderr)


def print_json(value: object) -> None:
    """Write a value as indented JSON to stdout; json itself lets C1 controls and text direction pass."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    write("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_json_line(value: object) -> None:
    """Write a value as one line of JSON to stdout, in plain ASCII."""
    write(json.dumps(value, default=str))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV with one header line to stdout; None is an empty cell, text never a formula."""
    with _lock:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv_cell(cell) for cell in row] for row in rows)
        sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", spare: Sequence[str] = ()
) -> None:
    """Write rows as a table to stdout; numbers are right-aligned, None is shown as a dash.

    On a terminal it is laid out for its width by `table_layout`: `spare` names the columns that may be left
    out for want of room, the first one first. A pipe has no width: no cell is wrapped, for grep's sake.
    """
    from rich.console import Console
    from rich.text import Text

    given = [list(row) for row in rows]
    by_column = [[row[place] for row in given] for place in range(len(columns))]
    cells = list(zip(*map(texts, by_column), strict=True)) if given else []
    numeric = [bool(given) and all(map(is_number, column)) for column in by_column]
    room = Console(file=sys.stdout).width if sys.stdout.isatty() else None
    layout = lay_out(columns, cells, room, spare, numeric)
    wide = max((sum(width + GAP for _, width in panel) for panel in layout.panels), default=0)
    terminal = Console(file=sys.stdout, width=room or wide, highlight=False)
    with _lock:
        if title:  # as Text: a str would be read for rich's own marks, and a file name may hold brackets
            terminal.print(Text(one_line(title, 2000), style="italic"), soft_wrap=True)
        for number, panel in enumerate(layout.panels):
            if number:
                terminal.print()
            _print_panel(terminal, panel, columns, cells, numeric)
        if layout.left_out:
            names = ", ".join(columns[place] for place in layout.left_out)
            many = "column has" if len(layout.left_out) == 1 else "columns have"
            terminal.print(Text(f"{len(layout.left_out)} {many} no room here: {names}"), soft_wrap=True)


def _print_panel(
    terminal: Console,
    panel: Sequence[tuple[int, int]],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=None, pad_edge=False)
    for place, width in panel:
        heading = Text("\n".join(wrapped(columns[place], width)), style="bold")
        table.add_column(heading, justify="right" if numeric[place] else "left", width=width, no_wrap=True)
    for row in cells:
        table.add_row(*(Text("\n".join(shortened(row[place], width))) for place, width in panel))
    terminal.print(table)


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    form: str = "table",
    title: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Write rows in the format that `--format` asked for: table, json (a list of objects) or csv."""
    if form == "json":
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif form == "csv":
        print_csv(columns, rows)
    else:
        print_table(columns, rows, title=title, spare=spare)


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    with asking(f"{question} [y/N] "):
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def _csv_cell(cell: object) -> object:
    """A spreadsheet takes text that begins like this for a formula, and the text may come from a host."""
    if cell is None:
        return ""
    return f" {cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
