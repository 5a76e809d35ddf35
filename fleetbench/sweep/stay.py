"""A stay on a host: lease, loan, the trials that it gets, and everything given back."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.bench.leftovers import forget_others
from fleetbench.bench.measure import abandon
from fleetbench.bench.prepare import dismiss
from fleetbench.errors import FleetbenchError, NotPossible, NotReached
from fleetbench.model import Host, TrialState
from fleetbench.plan.schedule import Place, free_ports
from fleetbench.preflight import refuse_missing_venvs, refuse_without_nginx
from fleetbench.results.rows import RunRow
from fleetbench.results.timeline import Step
from fleetbench.sweep import lease, read_ahead
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.lane import Lane, open_lane
from fleetbench.sweep.loan import give_back
from fleetbench.sweep.pack import Packing
from fleetbench.sweep.read_ahead import ReadAhead
from fleetbench.sweep.serving import end_strays
from fleetbench.sweep.work import ENDED, Work

# A host that goes away while production is given back: the loan is on record, a resumed run gives it back.
RETURN_PATIENCE_S = 120


def stay(engine: Engine, run: RunRow, host: Host, work: Work) -> tuple[FleetbenchError, ...]:
    """Do trials on a host while it gets any, then return what was borrowed; return what went wrong there."""
    with open_lane(engine, run, host) as lane:
        lane.track.enter(Step.STOP, "lease and facts")
        lease.take(lane.session, run.id, lane.what, seconds=engine.lease_s)
        pulse = lease.Heartbeat(
            engine.open_session(host), run.id, lane.what, seconds=engine.lease_s, said=lane.said
        )
        lane.session.stop = lease.Either(engine.stop, pulse.lost)
        return _borrowing(lane, work, pulse)


def _borrowing(lane: Lane, work: Work, pulse: lease.Heartbeat) -> tuple[FleetbenchError, ...]:
    """Do the trials under the lease and end it, whatever happened."""
    reached = True
    problems: tuple[FleetbenchError, ...] = ()
    try:
        _do_trials(lane, work)
    except NotReached as exc:  # this host, or the one that the client runs on
        reached = exc.host != lane.host.name
        if not reached:
            lane.said(_not_given_back(lane, exc))
        raise
    finally:
        lane.track.leave_trial()
        lane.track.enter(Step.RESTORE)
        pulse.stop()
        if reached and not pulse.lost.is_set():  # also after Ctrl-C: production comes first
            problems = _end(lane)
        for problem in problems:
            lane.said(f"LEFT BEHIND: {problem}")
    return problems


def _do_trials(lane: Lane, work: Work) -> None:
    """Bring the trials to their ends, one after the other, or side by side where that does no harm."""
    engine, host = lane.engine, lane.host
    facts = lane.facts(lane.session)
    left = [row for row in engine.store.trials(lane.run.id) if row.state not in ENDED]
    served = [engine.builds[row.config.build] for row in left if row.config.build in engine.builds]
    refuse_missing_venvs(host, dict.fromkeys(served), facts)
    place = Place.of(host, facts)
    alike = [row.config for row in left if engine.kinds.get(row.host, place.kind) == place.kind]
    refuse_without_nginx(host, alike, facts)
    planned = engine.kinds.get(host.name, place.kind)
    if place.kind != planned:
        raise NotPossible(
            "it is not what the sweep was planned for any more",
            host=host.name,
            cause=f"planned for {planned}, found {place.kind}",
            next_step="mend it and resume, or start afresh with --new",
        )
    lane = replace(lane, ahead=ReadAhead.begun(lane.session, host, engine.model.repo))
    begun = [row for row in left if row.state is TrialState.RUNNING and row.host == host.name]
    end_strays(lane.ground(), begun, facts)
    gpus = place.gpus if engine.pack else work.gpus(place)
    if engine.pack:
        Packing(lane, work, place, free_ports(host, facts), gpus).do_trials()
    while (found := work.take(place)) is not None:
        lane.bring_to_end(found, gpus)
        lane.end_server(found.row)
        work.ended(found.row.number)


def _end(lane: Lane) -> tuple[FleetbenchError, ...]:
    """End clients and servers, give production back, end the lease; return what went wrong."""
    engine = lane.engine
    for each in (lane.session, lane.client_session):
        each.stop, each.patience_s = None, min(each.patience_s, RETURN_PATIENCE_S)
    read_ahead.end(lane.session)
    problems = _end_clients(lane) + give_back(
        engine.store,
        lane.run.id,
        lane.host,
        lane.session,
        lane.facts,
        ready_timeout_s=engine.ready_timeout_s,
        said=lane.said,
    )
    if not problems:
        lease.release(lane.session, lane.run.id)
    return problems


def _end_clients(lane: Lane) -> tuple[FleetbenchError, ...]:
    """End the bench clients that still run; what cannot be ended must not keep production from its GPUs."""
    store, run_id, client = lane.engine.store, lane.run.id, lane.engine.client or lane.host
    mine = {row.number for row in store.trials(run_id) if row.host == lane.host.name}
    try:
        abandon(store, run_id, mine, client, lane.client_session)
        for preload in lane.preloads():
            dismiss(lane.client_session, preload)
        if lane.engine.client is None:
            known = {row.unit_name for row in store.measurements(run_id) if row.client == client.name}
            forget_others(lane.client_session, client, run_id, known)
    except FleetbenchError as exc:
        return (exc,)
    return ()


def _not_given_back(lane: Lane, exc: NotReached) -> str:
    loans = lane.engine.store.loans(lane.run.id, only_open=True)
    owed = [loan.unit for loan in loans if loan.host == lane.host.name]
    since = f" since {exc.since}" if exc.since else ""
    what = f"NOT GIVEN BACK: {', '.join(owed)}; " if owed else ""
    return (
        f"{what}the host does not answer{since}. It gives production back by itself"
        f" {lane.engine.lease_s:.0f} s after it was heard of last; "
        f"when it is back: invoke sweep --resume {lane.run.id}"
    )
