"""What a server said when it was ready, as it is kept beside its trial, and what follows from that. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from fleetbench.service.http import Served
from fleetbench.service.metrics import read
from fleetbench.service_log import read_service_log
from fleetbench.sweep.effective import Effective, read_back


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The log of one start, what the server answered, and its metrics (empty: it did not give them)."""

    log: str
    served: Served
    metrics: str = ""

    @property
    def effective(self) -> Effective:
        """What runs, by all of it."""
        reading = read(self.metrics) if self.metrics else None
        return read_back(read_service_log(self.log), self.served, reading)


def files_of(port: int, answers: Answers) -> dict[str, bytes]:
    """Return the answers of the server on a port as files, by name."""
    log, served, metrics = _names(port)
    found = {log: answers.log.encode(), served: f"{json.dumps(asdict(answers.served), indent=1)}\n".encode()}
    return found | ({metrics: answers.metrics.encode()} if answers.metrics else {})


def answers_in(port: int, files: Mapping[str, bytes]) -> Answers | None:
    """Given files by name, return the answers of the server on a port; None when they are not there."""
    log, served, metrics = _names(port)
    if log not in files or served not in files:
        return None
    try:
        known = json.loads(files[served])
        found = Served(**known | {"models": tuple(known["models"])})
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    texts = [files.get(name, b"").decode("utf-8", "replace") for name in (log, metrics)]
    return Answers(log=texts[0], served=found, metrics=texts[1])


def together(effective: Sequence[Effective]) -> Effective:
    """Return what independent servers have together: their room is added up, the rest is alike."""
    rooms = [one.kv_cache_tokens for one in effective if one.kv_cache_tokens is not None]
    fits = [one.concurrent_sequences for one in effective if one.concurrent_sequences is not None]
    known = len(effective)
    return replace(
        effective[0],
        kv_cache_tokens=sum(rooms) if len(rooms) == known else None,
        concurrent_sequences=round(sum(fits), 2) if len(fits) == known else None,
    )


def names_of(ports: Sequence[int]) -> tuple[str, ...]:
    """Return the names of all files with the answers of servers on these ports."""
    return tuple(name for port in ports for name in _names(port))


def _names(port: int) -> tuple[str, str, str]:
    return f"start-{port}.log", f"served-{port}.json", f"metrics-start-{port}.txt"
