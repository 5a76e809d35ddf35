"""A stay on a host: lease, loan, the trials that it takes one after the other, and everything given back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from fleetbench.bench import client as clients
from fleetbench.bench.leftovers import forget_others
from fleetbench.bench.measure import abandon
from fleetbench.bench.prepare import Preload, dismiss
from fleetbench.errors import FleetbenchError, HostRebooted, NotPossible, NotReached
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, Host
from fleetbench.plan.schedule import Place
from fleetbench.preflight import refuse_missing_venvs
from fleetbench.results.rows import RunRow
from fleetbench.results.timeline import Step
from fleetbench.service import lifecycle
from fleetbench.sweep import lease
from fleetbench.sweep.evidence import set_aside
from fleetbench.sweep.ground import Bench, Engine, Ground
from fleetbench.sweep.loan import give_back, open_loan
from fleetbench.sweep.track import Track
from fleetbench.sweep.trial import run_trial
from fleetbench.sweep.work import ENDED, Taken, Work
from fleetbench.transport.durable import DurableSession

# A host that goes away while production is given back: the loan is on record, a resumed run gives it back.
RETURN_PATIENCE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stay:
    """Where a stay takes place, and the sessions to it and to the bench client's host."""

    engine: Engine
    run: RunRow
    host: Host
    session: DurableSession
    client_session: DurableSession
    track: Track

    @property
    def what(self) -> str:
        """What the host is held for, as others are told."""
        return f"{self.run.kind.value} {self.run.model}"

    def said(self, text: str) -> None:
        """Say something about the host."""
        self.engine.said(text, self.host.name)

    def facts(self, session: DurableSession) -> HostFacts:
        """Read the host's facts."""
        return self.engine.read_facts(session, self.host)


def stay(engine: Engine, run: RunRow, host: Host, work: Work) -> tuple[FleetbenchError, ...]:
    """Do trials on a host while it gets any, then return what was borrowed; return what went wrong there."""
    apart = engine.client is not None and engine.client.name != host.name
    session = engine.open_session(host)
    client_session = engine.open_session(engine.client) if apart and engine.client else session
    track = Track(engine.timeline, host.name, watch=engine.watch, expected=engine.expected)
    here = _Stay(
        engine=engine, run=run, host=host, session=session, client_session=client_session, track=track
    )
    for each in (session, client_session):
        each.away = track.away
    with contextlib.closing(session), contextlib.closing(client_session), contextlib.closing(track):
        track.enter(Step.STOP, "lease and facts")
        lease.take(session, run.id, here.what, seconds=engine.lease_s)
        pulse = lease.Heartbeat(
            engine.open_session(host), run.id, here.what, seconds=engine.lease_s, said=here.said
        )
        session.stop = lease.Either(engine.stop, pulse.lost)
        return _borrowing(here, work, pulse)


def _borrowing(here: _Stay, work: Work, pulse: lease.Heartbeat) -> tuple[FleetbenchError, ...]:
    """Do the trials under the lease and end it, whatever happened."""
    taken: list[int] = []
    reached = True
    problems: tuple[FleetbenchError, ...] = ()
    try:
        _do_trials(here, work, taken)
    except NotReached as exc:  # this host, or the one that the client runs on
        reached = exc.host != here.host.name
        if not reached:
            here.said(_not_given_back(here, exc))
        raise
    finally:
        here.track.leave_trial()
        here.track.enter(Step.RESTORE)
        pulse.stop()
        if reached and not pulse.lost.is_set():  # also after Ctrl-C: production comes first
            problems = _end(here, taken)
        for problem in problems:
            here.said(f"LEFT BEHIND: {problem}")
    return problems


def _end(here: _Stay, taken: list[int]) -> tuple[FleetbenchError, ...]:
    """End clients and servers, give production back, end the lease; return what went wrong."""
    engine = here.engine
    for each in (here.session, here.client_session):
        each.stop, each.patience_s = None, min(each.patience_s, RETURN_PATIENCE_S)
    problems = _end_clients(here, taken) + give_back(
        engine.store,
        here.run.id,
        here.host,
        here.session,
        here.facts,
        ready_timeout_s=engine.ready_timeout_s,
        said=here.said,
    )
    if not problems:
        lease.release(here.session, here.run.id)
    return problems


def _do_trials(here: _Stay, work: Work, taken: list[int]) -> None:
    """Borrow what the work needs, and bring one trial after the other to its end."""
    engine, host, session = here.engine, here.host, here.session
    facts = here.facts(session)
    left = [row for row in engine.store.trials(here.run.id) if row.state not in ENDED]
    served = [engine.builds[row.config.build] for row in left if row.config.build in engine.builds]
    refuse_missing_venvs(host, dict.fromkeys(served), facts)
    place = Place.of(host, facts)
    planned = engine.kinds.get(host.name, place.kind)
    if place.kind != planned:
        raise NotPossible(
            "it is not what the sweep was planned for any more",
            host=host.name,
            cause=f"planned for {planned}, found {place.kind}",
            next_step="mend it and resume, or start afresh with --new",
        )
    gpus = work.gpus(place)
    ground = Ground(
        store=engine.store,
        host=host,
        model=engine.model,
        session=session,
        read_facts=here.facts,
        borrowed=(),
        ready_timeout_s=engine.ready_timeout_s,
        said=here.said,
        track=here.track,
        builds=engine.builds,
    )
    bench = Bench(
        client=engine.client or host,
        session=here.client_session,
        seed=engine.seed,
        limit_s=engine.bench_timeout_s,
        warmup=engine.warmup,
    )
    while (found := work.take(place)) is not None:
        number = found.row.number
        taken.append(number)
        _leave_behind(here, found)
        # Again before each trial: after a reboot the enabled units are back on their GPUs.
        here.track.enter(Step.STOP, "what runs on the GPUs")
        _run(here, ground, bench, found, gpus)
        here.track.enter(Step.STOP, "its server")
        lifecycle.stop(session, f"vllm-sweep-{found.row.port}.service", said=here.said)
        here.track.leave_trial()
        work.ended(number)


def _run(here: _Stay, ground: Ground, bench: Bench, found: Taken, gpus: GpuSet) -> None:
    """Bring a trial to its end; once more from where it was when the host was rebooted in the middle."""
    store, run, session = here.engine.store, here.run, here.session

    def borrowed() -> tuple[str, ...]:
        return open_loan(store, run.id, session, here.facts(session), gpus, here.said)

    try:
        run_trial(replace(ground, borrowed=borrowed()), found.row, bench)
    except HostRebooted as exc:
        here.said(f"{exc.what}; trial {found.row.number} is begun once more")
        here.track.enter(Step.STOP, "after a reboot")
        lease.take(session, run.id, here.what, seconds=here.engine.lease_s)
        row = next(row for row in store.trials(run.id) if row.number == found.row.number)
        run_trial(replace(ground, borrowed=borrowed()), row, bench)


def _leave_behind(here: _Stay, found: Taken) -> None:
    """Put aside what a trial left that was begun on a host that is lost, and end its clients elsewhere."""
    if not found.lost_on:
        return
    store, client = here.engine.store, here.engine.client
    set_aside(store.directory(here.run.id) / f"trial-{found.row.number:02d}", found.lost_on)
    for row in found.before:
        if client is not None and row.client == client.name:
            directory = f"{client.prefix}/runs/{row.unit_name}"
            clients.abandon(here.client_session, row.unit_name, directory)


def _end_clients(here: _Stay, taken: list[int]) -> tuple[FleetbenchError, ...]:
    """End the bench clients that still run; what cannot be ended must not keep production from its GPUs."""
    store, run_id, client = here.engine.store, here.run.id, here.engine.client or here.host
    try:
        abandon(store, run_id, set(taken), client, here.client_session)
        dismiss(here.client_session, Preload(run_id, here.host.name, client))
        if client.name == here.host.name and here.engine.client is None:
            known = {row.unit_name for row in store.measurements(run_id) if row.client == client.name}
            forget_others(here.client_session, client, run_id, known)
    except FleetbenchError as exc:
        return (exc,)
    return ()


def _not_given_back(here: _Stay, exc: NotReached) -> str:
    loans = here.engine.store.loans(here.run.id, only_open=True)
    owed = [loan.unit for loan in loans if loan.host == here.host.name]
    since = f" since {exc.since}" if exc.since else ""
    what = f"NOT GIVEN BACK: {', '.join(owed)}; " if owed else ""
    return (
        f"{what}the host does not answer{since}. It gives production back by itself"
        f" {here.engine.lease_s:.0f} s after it was heard of last; "
        f"when it is back: invoke sweep --resume {here.run.id}"
    )
