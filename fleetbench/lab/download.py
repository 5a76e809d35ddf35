"""Fetching wheels: several at a time, checked against their hashes, going on where a former run stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fleetbench.lab.repository import Progress
from fleetbench.lab.settings import LabError
from fleetbench.lab.wheels import Wheel

if TYPE_CHECKING:
    from requests import Session

_CHUNK = 1 << 20
_STREAMS = 4
_TRIES = 4
_FINAL = (401, 403, 404, 407, 410)  # HTTP statuses that another try does not change
_REPORT_EVERY_S = 5.0
_AGAIN = "run the command again: it goes on where it stopped"


class _Tally:
    """What has arrived, over all threads; says so every few seconds."""

    def __init__(self, wheels: Sequence[Wheel], progress: Progress) -> None:
        self._total = sum(wheel.size for wheel in wheels)
        self._progress = progress
        self._bytes = 0
        self._said = time.monotonic()
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self.failure: LabError | None = None

    def fail(self, failure: LabError) -> LabError:
        """Remember the first failure, and make the other threads end."""
        with self._guard:
            self.failure = self.failure or failure
        self._stop.set()
        return failure

    def end(self, pool: ThreadPoolExecutor) -> None:
        """Make all threads end, and wait for that."""
        self._stop.set()
        pool.shutdown(cancel_futures=True)

    def pause(self, seconds: float) -> None:
        """Wait before another try."""
        self._stop.wait(seconds)

    def add(self, count: int) -> None:
        """Count bytes; raise LabError in every thread once one of them has failed."""
        if self._stop.is_set():
            raise LabError("stopped")
        with self._guard:
            self._bytes += count
            now = time.monotonic()
            if now - self._said >= _REPORT_EVERY_S:
                self._said = now
                self._progress(f"packages: {self._bytes / 1e9:.1f} of {self._total / 1e9:.1f} GB fetched")


def fetch(wheels: Sequence[Wheel], directory: Path, progress: Progress) -> None:
    """Bring wheels into a directory. What is there with the right size stays; a part is continued.

    LabError when a file cannot be had after several tries; what did arrive stays for the next run.
    """
    missing = [wheel for wheel in wheels if not present(wheel, directory)]
    if not missing:
        return
    tally = _Tally(missing, progress)
    with _session() as session, ThreadPoolExecutor(_STREAMS) as pool:
        jobs = [pool.submit(_one, wheel, directory, session, tally) for wheel in missing]
        try:
            for job in jobs:
                job.result()
        except LabError as error:
            tally.end(pool)
            raise (tally.failure or error) from None  # not what a thread says that was only told to stop
        except BaseException:  # Ctrl-C: the threads end at their next megabyte
            tally.end(pool)
            raise


def present(wheel: Wheel, directory: Path) -> bool:
    """True when the file is there, as large as it should be."""
    file = directory / wheel.name
    return file.is_file() and (not wheel.size or file.stat().st_size == wheel.size)


def _session() -> Session:
    import requests

    session = requests.Session()
    # requests itself reads REQUESTS_CA_BUNDLE and the proxy variables, but not what pip and OpenSSL go by.
    session.verify = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or True
    return session


def _one(wheel: Wheel, directory: Path, session: Session, tally: _Tally) -> None:
    import requests

    part = directory / f"{wheel.name}.part"
    cause = ""
    for attempt in range(_TRIES):
        if attempt:
            tally.pause(2.0**attempt)
        try:
            if wheel.url.startswith("file:"):
                shutil.copyfile(unquote(urlsplit(wheel.url).path), part)
                tally.add(wheel.size)
            else:
                _stream(wheel, part, session, tally)
        except requests.RequestException as error:
            cause = str(error)
            if error.response is not None and error.response.status_code in _FINAL:
                break
            continue
        except OSError as error:  # after RequestException, which is one too
            failure = LabError(f"cannot write {part}", cause=str(error), next_step=_AGAIN)
            raise tally.fail(failure) from error
        found = _sha256(part)
        if found == wheel.sha256:
            part.replace(directory / wheel.name)
            return
        cause = f"SHA-256 is {found[:16]}…, expected {wheel.sha256[:16]}…"
        part.unlink()
    raise tally.fail(LabError(f"cannot fetch {wheel.name}", cause=cause, next_step=_AGAIN))


def _stream(wheel: Wheel, part: Path, session: Session, tally: _Tally) -> None:
    have = part.stat().st_size if part.exists() else 0
    if wheel.size and have >= wheel.size:
        return  # complete, or too long: the hash decides
    headers = {"Range": f"bytes={have}-"} if have else {}
    with session.get(wheel.url, stream=True, timeout=(20, 60), headers=headers) as answer:
        if answer.status_code == 416:
            return
        answer.raise_for_status()
        continues = answer.status_code == 206
        tally.add(have if continues else 0)
        with part.open("ab" if continues else "wb") as file:
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                tally.add(len(chunk))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
