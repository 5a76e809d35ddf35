"""What a trial needs beside its row: where it stands, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fleetbench.model import Host, Model
from fleetbench.results.store import Store
from fleetbench.service import lifecycle
from fleetbench.sweep.track import Track
from fleetbench.transport.durable import DurableSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How each trial is measured. `client` is where the bench client runs; `session` leads there."""

    client: Host
    session: DurableSession
    seed: int
    limit_s: float
    warmup: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a trial stands: the store, the host, the way to read its facts, and where its time is noted."""

    store: Store
    host: Host
    model: Model
    session: DurableSession
    read_facts: lifecycle.ReadFacts
    borrowed: tuple[str, ...]
    ready_timeout_s: float
    said: Callable[[str], None]
    track: Track = field(default_factory=Track)
