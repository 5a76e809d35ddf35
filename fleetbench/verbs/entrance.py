"""What stands between invoke and a verb: a number that is none, and Ctrl-C while modules are still loaded."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

from invoke.parser.context import ParserContext
from invoke.program import Program
from invoke.tasks import Task

from fleetbench import console
from fleetbench.errors import Exit, UsageError
from fleetbench.verbs.spelling import mistake

# What int() and float() say; invoke calls them on the words of a command line.
_NO_NUMBER = re.compile(
    r"(?:invalid literal for int\(\) with base 10|could not convert string to float): (.*)"
)


def prepare() -> None:
    """Until a verb runs: no traceback without --debug, and Ctrl-C ends with its own status."""
    sys.excepthook = _say
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def typed(name: str, *words: str) -> list[str]:
    """Return as many positional names as words were typed after the verb: `lab reboot lab-01` has two.

    Invoke knows only required positional arguments; how many there are depends on the first one.
    """
    after = sys.argv[sys.argv.index(name) + 1 :] if name in sys.argv else []
    count = next((place for place, word in enumerate(after) if word.startswith("-")), len(after))
    return list(words[: max(1, count)])


def refuse_mistyped(names: Mapping[str, object]) -> None:
    """Given the names of tasks.py, end with a message when a verb or an option on the command line is none.

    Only where invoke reads that command line; who imports tasks.py for something else is left alone.
    """
    if Path(sys.argv[0]).name not in ("invoke", "inv") and Path(sys.argv[0]).parent.name != "invoke":
        return
    verbs = {name: found for name, found in names.items() if isinstance(found, Task)}
    asked = help_asked(sys.argv[1:], {name for name, found in verbs.items() if found.positional})
    if asked:
        raise SystemExit(
            subprocess.run([sys.executable, "-m", "invoke", "--help", asked], check=False).returncode
        )
    wrong = mistake(sys.argv[1:], {name: options_of(found) for name, found in verbs.items()})
    if wrong is not None:
        console.error(wrong)
        raise SystemExit(wrong.exit_status)


def help_asked(words: Sequence[str], verbs: Collection[str]) -> str:
    """Given a command line and the verbs that want a word after them, return the verb that `--help` follows.

    Invoke would take `--help` for that word: `invoke promote --help`.
    """
    pairs = itertools.pairwise(words)
    return next((verb for verb, word in pairs if verb in verbs and word in ("--help", "-h")), "")


def options_of(verb: Task[Any]) -> set[str]:
    """Return the long options that invoke takes after a verb, its own ones included, with their dashes."""
    copied = copy(verb)  # a task gives away the help of its options when it is asked for them
    copied.help = dict(verb.help)
    own = ParserContext(args=copied.get_arguments())
    core = Program().initial_context
    flags = {*own.flags, *own.inverse_flags, *core.flags, *core.inverse_flags}
    return {flag for flag in flags if flag.startswith("--")}


def begin() -> None:
    """From here on Ctrl-C is the verb's: a KeyboardInterrupt that it can clean up after."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(status: Exit) -> NoReturn:
    """Leave now: a thread that still waits for a host that does not answer must not hold the terminal."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        console.flush()
        os._exit(status)
    raise SystemExit(status)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(Exit.INTERRUPTED)


def _say(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
    if isinstance(exc, BrokenPipeError):  # `invoke --list | head`: who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return
    if "--debug" in sys.argv:
        sys.__excepthook__(kind, exc, trace)
    wrong = _NO_NUMBER.fullmatch(str(exc)) if isinstance(exc, ValueError) else None
    if wrong is not None:
        exc = UsageError(f"{_option(wrong[1])}{wrong[1]} is no number", next_step="invoke --help VERB")
    console.error(exc)


def _option(quoted: str) -> str:
    """Return the option that has this value (as `repr` shows it), with a blank; empty when none has."""
    words = [part for word in sys.argv for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    for option, value in itertools.pairwise(words):
        if repr(value) == quoted and option.startswith("--"):
            return f"{option} "
    return ""
