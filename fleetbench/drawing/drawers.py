"""Several renderers beside this process, so that charts are drawn on all of its processors."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, cast

import fleetbench
from fleetbench.drawing.vega import cannot_draw
from fleetbench.errors import FleetbenchError

MOST = 4  # renderers; each takes 150 MB
LONGEST_S = 60.0  # of one drawing; the largest chart of a report takes two
# This package and no other of the name; beside it may lie all of site-packages, with backports called like
# modules of Python, so that its folder comes last for whatever else is imported.
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import fleetbench
sys.path.append(sys.path.pop(0))
from fleetbench.drawing.process import main
main()
"""
_BEHIND_THE_PACKAGE = Path(fleetbench.__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One chart, drawn."""

    svg: bytes
    png: bytes


class Drawers:
    """As many renderers as this process has processors, `most` at most.

    They come up with the first `draw`, or in the background after `start`; when the context is left they are
    killed, whatever they are at: they keep nothing that would have to be brought to an end.
    """

    def __init__(self, most: int = MOST) -> None:
        self._count = max(1, min(most, len(os.sched_getaffinity(0))))
        self._threads = ThreadPoolExecutor(max_workers=self._count, thread_name_prefix="drawer")
        self._renderers: list[_Renderer] = []
        self._idle: SimpleQueue[_Renderer] = SimpleQueue()

    def __enter__(self) -> Drawers:
        return self

    def __exit__(self, *_: object) -> None:
        for renderer in self._renderers:
            renderer.kill()
        self._threads.shutdown(cancel_futures=True)
        for renderer in self._renderers:
            renderer.close()

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of the renderers that were started."""
        return tuple(renderer.process_id for renderer in self._renderers)

    def start(self) -> None:
        """Let the renderers come up; FleetbenchError where no process can be started."""
        while len(self._renderers) < self._count:
            try:
                self._renderers.append(_Renderer())
            except OSError as error:
                raise cannot_draw(f"no renderer can be started: {error.strerror or error}") from error
            self._idle.put(self._renderers[-1])

    def draw(self, specification: Mapping[str, Any]) -> Future[Picture]:
        """Return the picture of a Vega-Lite specification, when it is there; FleetbenchError as in `vega`."""
        self.start()
        return self._threads.submit(self._draw, specification)

    def _draw(self, specification: Mapping[str, Any]) -> Picture:
        renderer = self._idle.get()
        try:
            return renderer.draw(specification)
        finally:
            self._idle.put(renderer)


class _Renderer:
    """One renderer's process; its session is its own, so that Ctrl-C reaches its parent alone."""

    def __init__(self) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._process = subprocess.Popen(
            # -P: no module from the working directory, to which anybody may write.
            [sys.executable, "-P", "-c", _PROGRAM, str(_BEHIND_THE_PACKAGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        # Popen has pipes, as it was told to; its types do not say so.
        self._asked = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        self._late = False

    def draw(self, specification: Mapping[str, Any]) -> Picture:
        clock = threading.Timer(LONGEST_S, self._give_up)
        clock.start()
        try:
            self._asked.write(json.dumps(specification).encode() + b"\n")
            self._asked.flush()
            answer = json.loads(self._answers.readline())
        except (OSError, ValueError) as error:
            late = f"it took longer than {LONGEST_S:g} s"
            ended = late if self._late else self._last_words()
            raise cannot_draw(f"the renderer ended: {ended}") from error
        finally:
            clock.cancel()
        if "svg" not in answer:
            raise FleetbenchError(answer["what"], cause=answer["cause"], next_step=answer["next_step"])
        return Picture(svg=answer["svg"].encode(), png=base64.b64decode(answer["png"]))

    @property
    def process_id(self) -> int:
        return self._process.pid

    def kill(self) -> int:
        self._process.kill()
        return self._process.wait()

    def _give_up(self) -> None:
        self._late = True
        self.kill()

    def close(self) -> None:
        for file in (self._asked, self._answers, self._said):
            with contextlib.suppress(OSError):  # what it did not read any more
                file.close()

    def _last_words(self) -> str:
        status = self.kill()
        self._said.seek(0)
        words = self._said.read()[-2000:].decode(errors="replace").strip().splitlines()
        return words[-1] if words else f"status {status}, without a word"
