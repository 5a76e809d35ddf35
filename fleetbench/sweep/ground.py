"""What a sweep needs beside its run, and a trial beside its row: where it stands, how it is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleetbench.bench.prepare import Programs
from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts
from fleetbench.model import Build, Config, Host, Model
from fleetbench.results.store import Store
from fleetbench.service import lifecycle
from fleetbench.sweep.events import Expected, Watcher, ignore, nothing_expected
from fleetbench.sweep.idle_memory import IdleMemory
from fleetbench.sweep.lease import Hold
from fleetbench.sweep.read_ahead import ReadAhead
from fleetbench.sweep.remaining import Durations, Unknown
from fleetbench.sweep.timeline import Timeline
from fleetbench.sweep.track import Track
from fleetbench.transport.durable import DurableSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a sweep needs beside its run.

    `open_session` gives a durable session to a host; `read_facts` the facts of a host through one. `kinds`
    says of each host what makes it like another (`plan.schedule.Place`); hosts that it does not name are of a
    kind of their own. `times` are how long trials are expected to take, `builds` those of the inventory;
    `predecessor` is the controller that worked on the run before, where it is known to be dead.
    """

    store: Store
    hosts: Mapping[str, Host]
    model: Model
    client: Host | None
    seed: int
    ready_timeout_s: float
    bench_timeout_s: float
    warmup: bool
    open_session: Callable[[Host], DurableSession]
    read_facts: Callable[[DurableSession, Host], HostFacts]
    said: Callable[[str, str], None]
    stop: threading.Event
    lease_s: float = 900
    stall_timeout_s: float = 300
    prune: bool = True
    builds: Mapping[str, Build] = field(default_factory=dict)
    pack: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)
    times: Durations = field(default_factory=Unknown)
    timeline: Timeline = field(default_factory=Timeline)
    watch: Watcher = ignore
    expected: Expected = nothing_expected
    predecessor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How each trial is measured. `client` is where the bench client runs; `session` leads there, and
    `programs` are what it has there.

    A server that does no work for `stall_s` seconds while requests wait is given up.
    """

    client: Host
    session: DurableSession
    seed: int
    limit_s: float
    stall_s: float = 300
    warmup: bool = True
    programs: Programs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a trial stands: the store, the host, the way to read its facts, and where its time is noted.

    `builds` are those of the inventory: one of them may serve instead of the host's own.
    `server` tells apart what belongs to the servers of different lanes of the host.
    `idle` is what the host's GPUs hold when nobody uses them, as far as it is known; `ahead` reads the
    weights of the next server. `hold` is the lease of the host, where there is one.
    """

    store: Store
    host: Host
    model: Model
    session: DurableSession
    read_facts: lifecycle.ReadFacts
    borrowed: tuple[str, ...]
    ready_timeout_s: float
    said: Callable[[str], None]
    track: Track = field(default_factory=Track)
    server: str = ""
    builds: Mapping[str, Build] = field(default_factory=lambda: MappingProxyType({}))
    idle: IdleMemory = field(default_factory=IdleMemory)
    ahead: ReadAhead | None = None
    hold: Hold | None = None

    def confirm(self) -> None:
        """Raise LeaseLost when the host is not ours any more, and what happens there not ours to judge."""
        if self.hold is not None:
            self.hold.renew(self.session)

    def serving(self, config: Config) -> Ground:
        """Return the same ground with the build that serves a configuration as its host's.

        The bench client stays the host's own, so that rows of different builds are measured alike.
        """
        if not config.build:
            return self
        build = self.builds.get(config.build)
        if build is None:
            raise NotPossible(
                f"the inventory has no build {config.build} any more",
                host=self.host.name,
                next_step="put it back into hosts.toml, then resume the run",
            )
        return replace(self, host=replace(self.host, build=build))
