"""The clock of the samples, and the files that they are written to."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

FLUSH_S = 5.0


class Clock:
    """Epoch seconds that nobody can set while it runs; `tick` counts `every_s` from the start."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.epoch, self.mono = time.time(), time.monotonic()

    def now(self) -> float:
        return self.epoch + time.monotonic() - self.mono

    def ticks(self, stop: threading.Event) -> Iterator[int]:
        """Yield the number of each tick as it comes; those that passed meanwhile are left out."""
        tick = 0
        while not stop.is_set():
            yield tick
            passed = (time.monotonic() - self.mono) / self.every_s
            tick = max(tick + 1, int(passed) + 1)
            stop.wait(max(0.0, (tick - passed) * self.every_s))


class Log:
    """A compressed file that grows by whole lines, to `most` bytes; what was written survives a kill."""

    def __init__(self, path: Path, most: int) -> None:
        self._file = path.open("wb")
        self._packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # 31: with the head of a gzip file
        self._most, self._written, self._flushed = most, 0, time.monotonic()
        self._lock, self._open = threading.Lock(), True

    def add(self, line: str) -> None:
        with self._lock:
            if self._open:
                try:
                    self._add(line.encode("utf-8", "replace") + b"\n")
                except OSError:  # no room: the run goes on without samples
                    self._open = False

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._close()

    def _add(self, line: bytes) -> None:
        self._put(self._packer.compress(line))
        if time.monotonic() - self._flushed > FLUSH_S:
            self._flushed = time.monotonic()
            self._put(self._packer.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()
            if self._written > self._most:
                self._close()

    def _close(self) -> None:
        self._open = False
        with contextlib.suppress(OSError):
            self._put(self._packer.flush())
            self._file.close()

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._written += len(data)
