"""A lane of a host: where its trials run one after the other, with connections and a track of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from fleetbench.bench import client as clients
from fleetbench.bench.prepare import Preload
from fleetbench.errors import HostRebooted
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, Host, Step, TrialState
from fleetbench.results.rows import MeasurementRow, RunRow, TrialRow
from fleetbench.sweep.evidence import set_aside
from fleetbench.sweep.ground import Bench, Engine, Ground
from fleetbench.sweep.idle_memory import IdleMemory
from fleetbench.sweep.lease import Hold
from fleetbench.sweep.loan import open_loan
from fleetbench.sweep.read_ahead import ReadAhead
from fleetbench.sweep.serving import take_down
from fleetbench.sweep.track import Track
from fleetbench.sweep.trial import run_trial
from fleetbench.sweep.work import Taken
from fleetbench.transport.durable import DurableSession, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One after the other on a host; several lanes of it work side by side with `--pack`.

    Attributes:
        session, client_session: to the host, and to that of the bench client, which may be the same.
        borrowing: lanes borrow one at a time: what is on loan is one list on the host.
        servers: names for what belongs to the servers of one lane; those of all lanes that the host has had.
        ahead: reads the weights of the next server into page cache.
        idle: what the host's GPUs hold when nobody uses them.
        hold: the lease of the host.
    """

    engine: Engine
    run: RunRow
    host: Host
    session: DurableSession
    client_session: DurableSession
    track: Track
    hold: Hold
    borrowing: threading.Lock = field(default_factory=threading.Lock)
    servers: list[str] = field(default_factory=list)
    ahead: ReadAhead | None = None
    idle: IdleMemory = field(default_factory=IdleMemory)

    @property
    def server(self) -> str:
        """The host's name, with the lane where there are several."""
        lane = self.track.lane.lower().replace(" ", "").replace(",", "-")  # GPU 0,1: gpu0-1
        return f"{self.host.name}-{lane}" if lane else self.host.name

    def preloads(self) -> Iterator[Preload]:
        """Yield what was imported ahead for the host's lanes."""
        for server in self.servers:
            yield Preload(self.run.id, server, self.engine.client or self.host)

    def said(self, text: str) -> None:
        """Say something about the host."""
        self.engine.said(text, self.host.name)

    def facts(self, session: DurableSession) -> HostFacts:
        """Read the host's facts."""
        return self.engine.read_facts(session, self.host)

    def row(self, number: int) -> TrialRow:
        """Read a trial of the run anew."""
        return next(row for row in self.engine.store.trials(self.run.id) if row.number == number)

    @property
    def bench(self) -> Bench:
        """How trials are measured."""
        return Bench(
            client=self.engine.client or self.host,
            session=self.client_session,
            seed=self.engine.seed,
            limit_s=self.engine.bench_timeout_s,
            stall_s=self.engine.stall_timeout_s,
            warmup=self.engine.warmup,
        )

    def ground(self, borrowed: tuple[str, ...] = ()) -> Ground:
        """Return where trials stand; `borrowed` are the units that gave up their GPUs."""
        return Ground(
            store=self.engine.store,
            host=self.host,
            model=self.engine.model,
            session=self.session,
            read_facts=self.facts,
            borrowed=borrowed,
            ready_timeout_s=self.engine.ready_timeout_s,
            said=self.said,
            track=self.track,
            server=self.server,
            builds=self.engine.builds,
            ahead=self.ahead,
            idle=self.idle,
            hold=self.hold,
        )

    def borrowed(self, gpus: GpuSet) -> Ground:
        """Borrow the GPUs, unless that is done, and return the ground for trials on them."""
        engine = self.engine
        with self.borrowing:
            facts = self.facts(self.session)
            units = open_loan(engine.store, self.hold, self.host, self.session, facts, gpus, self.said)
        return self.ground(units)

    def bring_to_end(self, found: Taken, gpus: GpuSet) -> TrialState:
        """Run a trial, on a host that has lent `gpus`, and return its state; its server still runs then.

        Once more from where it was when the host was rebooted in the middle.
        """
        if found.lost_on:
            self.put_aside(found.row.number, f"on-{found.lost_on}", found.before)
        # Again before each trial: after a reboot the enabled units are back on their GPUs.
        self.track.enter(Step.STOP, "what runs on the GPUs")
        try:
            return run_trial(self.borrowed(gpus), found.row, self.bench)
        except HostRebooted as exc:
            self.said(f"{exc.what}; trial {found.row.number} is begun once more")
            self.track.enter(Step.STOP, "after a reboot")
            return run_trial(self.borrowed(gpus), self.row(found.row.number), self.bench)

    def end_server(self, row: TrialRow) -> None:
        """Stop the server of a trial; nothing more belongs to the trial then."""
        self.track.enter(Step.STOP, "its server")
        take_down(self.ground(), self.row(row.number))
        self.track.leave_trial()

    def put_aside(self, number: int, mark: str, before: Sequence[MeasurementRow]) -> None:
        """Keep what a trial left that is begun anew; end its clients on the clients' own host."""
        store, client = self.engine.store, self.engine.client
        set_aside(store.directory(self.run.id) / f"trial-{number:02d}", mark)
        for row in before:
            if client is not None and row.client == client.name:
                directory = f"{client.prefix}/runs/{row.unit_name}"
                clients.abandon(self.client_session, row.unit_name, directory)


def hold_of(engine: Engine, run: RunRow) -> Hold:
    """Return the lease that a run wants of a host."""
    what = f"{run.kind.value} {run.model}"  # as others are told
    return Hold(run.id, what, seconds=engine.lease_s, predecessor=engine.predecessor)


@contextlib.contextmanager
def open_lane(
    engine: Engine,
    run: RunRow,
    host: Host,
    *,
    name: str = "",
    stop: Stop | None = None,
    beside: Lane | None = None,
) -> Iterator[Lane]:
    """Give a lane of a host, and close its connections at the end.

    `name` tells the lanes of a host apart; `beside` is another lane of it. `stop` ends its waiting.
    """
    apart = engine.client is not None and engine.client.name != host.name
    session = engine.open_session(host)
    client_session = engine.open_session(engine.client) if apart and engine.client else session
    track = Track(engine.timeline, host.name, name, watch=engine.watch, expected=engine.expected)
    for each in (session, client_session):
        each.away = track.away
        each.stop = stop or each.stop
    lane = Lane(
        engine=engine,
        run=run,
        host=host,
        session=session,
        client_session=client_session,
        track=track,
        hold=beside.hold if beside is not None else hold_of(engine, run),
    )
    with contextlib.closing(session), contextlib.closing(client_session), contextlib.closing(track):
        if beside is not None:
            lane = replace(lane, borrowing=beside.borrowing, servers=beside.servers, idle=beside.idle)
        lane.servers.append(lane.server)
        yield lane
