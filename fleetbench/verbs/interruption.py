"""Ctrl-C while a sweep works: it asks once, gives production back, and never leaves it down in a hurry.

The signal's handler only takes a note: the thread that works may be anywhere, also in the middle of starting
production again. A thread of this module asks and speaks, and the work ends by the event `stop`, at the next
point where nothing is half done. SIGTERM, and SIGHUP of a terminal that is closed, give back without asking.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from fleetbench import console
from fleetbench.errors import Exit, FleetbenchError

ANSWER_S = 10.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GO_ON = ("n", "no")
# When not even the thread that speaks gets anywhere (a terminal that was stopped with Ctrl-S).
_AT_ONCE = 6


class Noted(ABC):
    """While entered, SIGINT, SIGTERM and SIGHUP are notes that a thread attends to, and interrupt nothing."""

    def __init__(self) -> None:
        self._notes: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._before: dict[int, Any] = {}
        self._over = threading.Event()
        self._count = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):  # nohup, or a job in the background of a script
                self._before[number] = before
                signal.signal(number, self._take_note)
        threading.Thread(target=self._attend, name="interruption", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._over.set()
        self._notes.put(0)

    def _take_note(self, number: int, frame: FrameType | None) -> None:
        self._count += number == signal.SIGINT
        if self._count >= _AT_ONCE:
            os._exit(Exit.INTERRUPTED)
        self._notes.put(number)

    @abstractmethod
    def _attend(self) -> None:
        """Answer the notes, one after the other; 0 is the end."""


class Interruption(Noted):
    """While entered, what Ctrl-C means for the run `run_id`.

    `stop` is set once the operator wants it to end. `owed` says what has not been given back yet, one text
    for each host.
    """

    def __init__(self, stop: threading.Event, *, run_id: str, owed: Callable[[], Sequence[str]]) -> None:
        super().__init__()
        self._stop, self._run_id, self._owed = stop, run_id, owed

    def _attend(self) -> None:
        while number := self._notes.get():
            if number != signal.SIGINT or not console.on_terminal() or self._agreed():
                break
            if not self._over.is_set():
                console.progress("going on")
        if self._over.is_set():
            return
        console.progress("giving production back; the trial in progress is measured again on resume")
        self._stop.set()
        while number := self._notes.get():
            if number == signal.SIGINT:
                break
        if not number:
            return
        console.progress(f"still to come: {'; '.join(self._still_owed()) or 'the end of what is being done'}")
        console.progress("Ctrl-C once more ends at once, and leaves that to you")
        while number := self._notes.get():
            if number == signal.SIGINT:
                self._leave()

    def _agreed(self) -> bool:
        """Ask whether to end; no answer in time, or another signal, means yes."""
        question = (
            "Give production back and stop now? [Y/n]"
            " (the trial in progress goes on meanwhile; it is measured again on resume)"
        )
        with console.asking(question):
            give_up = time.monotonic() + ANSWER_S
            while time.monotonic() < give_up and self._notes.empty():
                answer = console.answer(0.2)
                if answer is not None:
                    return answer.lower() not in _GO_ON
        if not self._notes.empty():
            return bool(self._notes.get())  # the second Ctrl-C was the answer; or the work is over
        return True

    def _still_owed(self) -> Sequence[str]:
        try:
            return self._owed()
        except FleetbenchError as exc:
            return (f"unknown, the store does not answer ({exc.what})",)

    def _leave(self) -> None:
        owed = self._still_owed()
        console.error(
            FleetbenchError(
                "ended before all was given back" if owed else "ended in the middle",
                cause="; ".join(owed),
                next_step=f"invoke sweep --resume {self._run_id}   (or invoke unlock; without either"
                " each host starts what is its own when its lease has run out)",
            )
        )
        console.flush()
        os._exit(Exit.INTERRUPTED)
