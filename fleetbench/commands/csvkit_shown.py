"""csvkit's own commands on CSV of ours: what csvlook and csvstat would print of it."""

from __future__ import annotations

import importlib
import io
import locale
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetbench.errors import FleetbenchError, Unreadable, UsageError, one_line

# Of CSV that we wrote: csvkit guesses the delimiter from the beginning of a file, and wide rows mislead it.
OURS = ("--snifflimit", "0")


def looked(text: str, *options: str) -> str:
    """Given CSV, return csvlook's table of it. `--no-number-ellipsis`: a digit that is cut is just cut."""
    return _shown("csvlook", "CSVLook", text, ("--no-number-ellipsis", *options))


def described(text: str, *options: str) -> str:
    """Given CSV, return csvstat's statistics of each column."""
    return _shown("csvstat", "CSVStat", text, options)


def _shown(module: str, name: str, text: str, options: Sequence[str]) -> str:
    if not text.strip():
        raise Unreadable("there is nothing to show", cause="the CSV has no line")
    with tempfile.TemporaryDirectory(prefix="fleetbench-") as place, _left_alone():
        path = Path(place) / "table.csv"
        path.write_text(text, "utf-8")
        utility = _with_numbers(_utility(module, name))
        output, errors = io.StringIO(), io.StringIO()
        try:
            with warnings.catch_warnings():  # agate's speak of its own files
                warnings.simplefilter("ignore")
                utility([*options, str(path)], output, errors).run()
        except SystemExit as exc:
            raise UsageError(f"{module} does not take {' '.join(options)}") from exc
        except Exception as exc:
            raise FleetbenchError(
                "this cannot be shown as a table",
                cause=one_line(str(exc) or type(exc).__name__, 200),
                next_step="give a CSV file: one header line, and a line for each row",
            ) from exc
        return "\n".join(map(_printable, output.getvalue().splitlines()))


def _utility(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"csvkit.utilities.{module}"), name)
    except locale.Error:  # csvstat sets the user's locale when it is loaded, and there are wrong ones
        os.environ["LC_ALL"] = "C.UTF-8"
        return getattr(importlib.import_module(f"csvkit.utilities.{module}"), name)


def _with_numbers(utility: Any) -> Any:
    """A column of nothing but 0 and 1 (tp, failed, count(*)) holds numbers here, never True and False."""
    import agate

    class WithNumbers(utility):  # type: ignore[misc]
        def get_column_types(self) -> Any:
            kinds = (agate.Number, agate.TimeDelta, agate.Date, agate.DateTime, agate.Text)
            return agate.TypeTester(types=[kind() for kind in kinds])

    return WithNumbers


@contextmanager
def _left_alone() -> Iterator[None]:
    """Undo what a utility changes in the process: it takes itself for the whole program."""
    hook, pipe = sys.excepthook, signal.getsignal(signal.SIGPIPE)
    try:
        yield
    finally:
        sys.excepthook = hook
        signal.signal(signal.SIGPIPE, pipe)


def _printable(line: str) -> str:
    """A file of somebody else may hold what moves a terminal's cursor."""
    return "".join(character if character.isprintable() else " " for character in line)
