"""One host's part of a sweep: borrow, bring its trials to their ends, give back whatever happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetbench.bench.measure import abandon
from fleetbench.errors import FleetbenchError, HostRebooted, NotPossible, NotReached
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import GpuSet, Host, Model, TrialState
from fleetbench.plan.implied import implied
from fleetbench.results.rows import RunRow, TrialRow
from fleetbench.results.store import Store
from fleetbench.results.timeline import Step
from fleetbench.service import lifecycle
from fleetbench.sweep import lease
from fleetbench.sweep.events import Expected, Watcher, ignore, nothing_expected
from fleetbench.sweep.ground import Bench, Ground
from fleetbench.sweep.loan import give_back, open_loan
from fleetbench.sweep.timeline import Timeline
from fleetbench.sweep.track import Track
from fleetbench.sweep.trial import run_trial
from fleetbench.transport.durable import DurableSession

# A host that goes away while production is given back: the loan is on record, a resumed run gives it back.
RETURN_PATIENCE_S = 120
ENDED = (TrialState.MEASURED, TrialState.FAILED, TrialState.IMPLIED, TrialState.NOT_RUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a sweep needs beside its run.

    `open_session` gives a durable session to a host; `read_facts` the facts of a host through one.
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
    prune: bool = True
    timeline: Timeline = field(default_factory=Timeline)
    watch: Watcher = ignore
    expected: Expected = nothing_expected


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How a host's part of the sweep ended: states of its trials, and what could not be given back."""

    states: tuple[TrialState, ...]
    problems: tuple[FleetbenchError, ...]


def on_host(engine: Engine, run: RunRow, host: Host, rows: Sequence[TrialRow]) -> HostEnd:
    """Work through the trials of one host, then return what was borrowed there."""
    session = engine.open_session(host)

    def said(text: str) -> None:
        engine.said(text, host.name)

    def facts_of(through: DurableSession) -> HostFacts:
        return engine.read_facts(through, host)

    client_session = session
    if engine.client is not None and engine.client.name != host.name:
        client_session = engine.open_session(engine.client)
    track = Track(engine.timeline, host.name, watch=engine.watch, expected=engine.expected)
    for each in (session, client_session):
        each.away = track.away
    states: list[TrialState] = []
    reached = True
    problems: tuple[FleetbenchError, ...] = ()
    what = f"{run.kind.value} {run.model}"
    track.enter(Step.STOP, "lease and facts")
    lease.take(session, run.id, what, seconds=engine.lease_s)
    pulse = lease.Heartbeat(engine.open_session(host), run.id, what, seconds=engine.lease_s, said=said)
    session.stop = lease.Either(engine.stop, pulse.lost)
    try:
        _measure_trials(engine, run, host, session, client_session, rows, states, track)
    except NotReached as exc:  # this host, or the one that the client runs on
        reached = exc.host != host.name
        if not reached:
            said(f"NOT GIVEN BACK, the host is away; when it is back: invoke sweep --resume {run.id}")
        raise
    finally:
        track.leave_trial()
        track.enter(Step.RESTORE)
        pulse.stop()
        if reached and not pulse.lost.is_set():  # also after Ctrl-C: production comes first
            for each in (session, client_session):
                each.stop, each.patience_s = None, min(each.patience_s, RETURN_PATIENCE_S)
            problems = _abandon(engine, run, host, client_session, rows)
            problems += give_back(
                engine.store,
                run.id,
                host,
                session,
                facts_of,
                ready_timeout_s=engine.ready_timeout_s,
                said=said,
            )
            if not problems:
                lease.release(session, run.id)
        for problem in problems:
            said(f"LEFT BEHIND: {problem}")
        session.close()
        client_session.close()
        track.close()
    return HostEnd(tuple(states), problems)


def _abandon(
    engine: Engine, run: RunRow, host: Host, client_session: DurableSession, rows: Sequence[TrialRow]
) -> tuple[FleetbenchError, ...]:
    """End the bench clients that still run; what cannot be ended must not keep production from its GPUs."""
    try:
        abandon(engine.store, run.id, {row.number for row in rows}, engine.client or host, client_session)
    except FleetbenchError as exc:
        return (exc,)
    return ()


def _measure_trials(
    engine: Engine,
    run: RunRow,
    host: Host,
    session: DurableSession,
    client_session: DurableSession,
    rows: Sequence[TrialRow],
    states: list[TrialState],
    track: Track,
) -> None:
    """Borrow, then bring each trial of a host to its end; their states are added to `states`."""

    def said(text: str) -> None:
        engine.said(text, host.name)

    def facts_of(through: DurableSession) -> HostFacts:
        return engine.read_facts(through, host)

    gpus = GpuSet(tuple(sorted({index for row in rows for index in row.gpus.indices})))
    _refuse_unknown(host, facts_of(session))
    ground = Ground(
        store=engine.store,
        host=host,
        model=engine.model,
        session=session,
        read_facts=facts_of,
        borrowed=(),
        ready_timeout_s=engine.ready_timeout_s,
        said=said,
        track=track,
    )
    bench = Bench(
        client=engine.client or host,
        session=client_session,
        seed=engine.seed,
        limit_s=engine.bench_timeout_s,
        warmup=engine.warmup,
    )
    for number in [row.number for row in rows]:
        row = next(row for row in engine.store.trials(run.id) if row.number == number)
        if row.state in ENDED:
            states.append(row.state)
            continue
        track.enter(Step.STOP, "what runs on the GPUs")
        # Again before each trial: after a reboot the enabled units are back on their GPUs.
        borrowed = open_loan(engine.store, run.id, session, facts_of(session), gpus, said)
        try:
            state = run_trial(replace(ground, borrowed=borrowed), row, bench)
        except HostRebooted as exc:
            said(f"{exc.what}; trial {row.number} is begun once more")
            track.enter(Step.STOP, "after a reboot")
            lease.take(session, run.id, f"{run.kind.value} {run.model}", seconds=engine.lease_s)
            borrowed = open_loan(engine.store, run.id, session, facts_of(session), gpus, said)
            row = next(row for row in engine.store.trials(run.id) if row.number == number)
            state = run_trial(replace(ground, borrowed=borrowed), row, bench)
        states.append(state)
        track.enter(Step.STOP, "its server")
        _stop_sweep_unit(session, row.port, said)
        track.leave_trial()
        if engine.prune and states[-1] is TrialState.FAILED:
            _prune(engine, run, host, number, said, track)


def _prune(
    engine: Engine, run: RunRow, host: Host, number: int, said: Callable[[str], None], track: Track
) -> None:
    """Mark the host's pending trials that cannot work after the failure of trial `number` either."""
    rows = engine.store.trials(run.id)
    failed = next(row for row in rows if row.number == number)
    if failed.failure is None:
        return
    for row in rows:
        pending = row.host == host.name and row.state is TrialState.PENDING
        if pending and implied(failed.config, failed.failure, row.config):
            cause = f"implied by trial {number}: {failed.failure.cause}"
            why = replace(failed.failure, kind="implied", cause=cause)
            engine.store.set_trial(run.id, row.number, state=TrialState.IMPLIED, failure=why)
            said(f"trial {row.number} ({row.config.label}) is skipped: {cause}")
            track.skip_trial(row.number, row.config.label, TrialState.IMPLIED, cause)


def _stop_sweep_unit(session: DurableSession, port: int, said: Callable[[str], None]) -> None:
    lifecycle.stop(session, f"vllm-sweep-{port}.service", said=said)


def _refuse_unknown(host: Host, facts: HostFacts) -> None:
    if isinstance(facts.venvs, Missing) or host.venv not in facts.venvs:
        raise NotPossible(
            f"venv {host.venv} is not there",
            host=host.name,
            next_step=f"invoke provision --hosts {host.name}",
        )
