"""A stay on a host: lease, loan, the trials that it gets, and everything given back."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.bench.leftovers import forget_others
from fleetbench.bench.measure import abandon
from fleetbench.bench.prepare import dismiss
from fleetbench.errors import FleetbenchError, Interrupted, NotPossible, NotReached
from fleetbench.model import Host, Step, TrialState
from fleetbench.plan.schedule import Place, free_ports
from fleetbench.preflight import refuse_missing_venvs, refuse_without_nginx
from fleetbench.results.rows import RunRow
from fleetbench.sweep import lease, read_ahead, sampling
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.heartbeat import Either, Heartbeat
from fleetbench.sweep.lane import Lane, open_lane
from fleetbench.sweep.loan import Returned, give_back
from fleetbench.sweep.pack import Packing
from fleetbench.sweep.read_ahead import ReadAhead
from fleetbench.sweep.serving import end_strays
from fleetbench.sweep.work import ENDED, Work

# A host that goes away while production is given back: the loan is on record, a resumed run gives it back.
RETURN_PATIENCE_S = 120


def stay(engine: Engine, run: RunRow, host: Host, work: Work) -> Returned:
    """Do trials on a host while it gets any, then give back what was borrowed; return what came of that."""
    with open_lane(engine, run, host) as lane:
        lane.track.enter(Step.STOP, "lease and facts")
        lane.hold.take(lane.session)
        pulse = Heartbeat(engine.open_session(host), lane.hold, said=lane.said)
        lane.session.stop = Either(engine.stop, pulse.lost)
        return _borrowing(lane, work, pulse)


def _borrowing(lane: Lane, work: Work, pulse: Heartbeat) -> Returned:
    """Do the trials under the lease and end it, whatever happened."""
    away: NotReached | None = None
    returned = Returned()
    try:
        _do_trials(lane, work)
    except NotReached as exc:  # this host, or the one that the client runs on
        away = exc if exc.host == lane.host.name else None
        raise
    except Interrupted:
        if lane.hold.lost is not None:
            raise lane.hold.lost from None
        raise
    finally:
        lane.track.leave_trial()
        lane.track.enter(Step.RESTORE)
        pulse.stop()
        for each in (lane.session, lane.client_session):
            each.stop, each.patience_s = None, min(each.patience_s, RETURN_PATIENCE_S)
        if away is not None:
            lane.said(_not_given_back(lane, away))
        elif lane.hold.lost is not None:
            returned = _withdraw(lane)
        else:  # also after Ctrl-C: production comes first
            returned = _end(lane)
        for problem in returned.problems:
            lane.said(f"LEFT BEHIND: {problem}")
    return returned


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


def _end(lane: Lane) -> Returned:
    """End clients and servers, give production back, end the lease; return what came of it."""
    problems = _end_clients(lane)
    remarks: tuple[str, ...] = ()
    try:
        read_ahead.end(lane.session)
        found = give_back(
            lane.engine.store,
            lane.run.id,
            lane.host,
            lane.session,
            lane.facts,
            ready_timeout_s=lane.engine.ready_timeout_s,
            said=lane.said,
        )
        problems, remarks = problems + found.problems, found.remarks
        if not problems:
            lane.hold.release(lane.session)
    except FleetbenchError as exc:  # the host went away just now, for instance
        problems += (exc,)
    if problems:
        lane.said(f"to give it back: invoke sweep --resume {lane.run.id}")
    return Returned(problems, remarks)


def _withdraw(lane: Lane) -> Returned:
    """The host is somebody else's, or nobody's: take away what this run put there, and touch no more."""
    problems = _end_clients(lane)
    try:
        why = f"what run {lane.run.id} left after it had lost its lease"
        if not lease.give_up_unless_held(lane.session, why):
            lane.said("somebody else works on this host now; nothing was touched there")
    except FleetbenchError as exc:
        problems += (exc,)
    return Returned(problems)


def _end_clients(lane: Lane) -> tuple[FleetbenchError, ...]:
    """End the bench clients that still run; what cannot be ended must not keep production from its GPUs."""
    store, run_id, client = lane.engine.store, lane.run.id, lane.engine.client or lane.host
    try:
        mine = {row.number for row in store.trials(run_id) if row.host == lane.host.name}
        abandon(store, run_id, mine, client, lane.client_session)
        for preload in lane.preloads():
            dismiss(lane.client_session, preload)
        if lane.engine.client is None:
            known = {row.unit_name for row in store.measurements(run_id) if row.client == client.name}
            forget_others(lane.client_session, client, run_id, known)
        sampling.forget_all(lane.session, lane.host, run_id)
        sampling.forget_clients(lane.client_session, client, run_id, mine)
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
