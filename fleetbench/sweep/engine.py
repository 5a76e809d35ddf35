"""A whole sweep: each host borrows, takes trials while there are any, and gives back.

Hosts work side by side from one queue. Ctrl-C and failures end in the same place: the loan is returned, the
run is marked as interrupted, and `--resume` continues it. So does a host that is lost; only its loan stays.
"""

from __future__ import annotations

from fleetbench import fleet
from fleetbench.errors import Exit, Interrupted
from fleetbench.model import Failure, TrialState
from fleetbench.results.rows import RunRow, RunState, TrialRow
from fleetbench.results.store import Store
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.on_host import HostEnd, on_host
from fleetbench.sweep.track import Track
from fleetbench.sweep.work import ENDED, Work


def run_sweep(engine: Engine, run: RunRow) -> Exit:
    """Bring a run to its end and return the exit status.

    Raises Interrupted after Ctrl-C (`engine.stop` was set), when everything borrowed is back.
    """
    store = engine.store
    # A trial of an older run may stand on a host that the run does not name.
    names = tuple(dict.fromkeys((*run.hosts, *(row.host for row in store.trials(run.id)))))
    work = Work(
        store,
        run.id,
        {name: engine.kinds.get(name, name) for name in names},
        client=engine.client.name if engine.client else "",
        times=engine.times,
        prune=engine.prune,
        said=engine.said,
        skipped=lambda row, failure: _skip(engine, row, failure),
    )
    try:
        outcomes = fleet.on_each(
            [engine.hosts[name] for name in names],
            lambda host: on_host(engine, run, host, work),
            parallel=len(names),  # each host's thread waits most of its time
            done=lambda outcome: _report(engine, outcome),
            stop=engine.stop,
        )
    except KeyboardInterrupt:
        raise _interrupted(store, run) from None
    for row in work.close():
        engine.said(f"trial {row.number} is not run: {row.failure.cause if row.failure else ''}", "")
    problems = [p for outcome in outcomes if outcome.value for p in outcome.value.problems]
    remarks = [r for outcome in outcomes if outcome.value for r in outcome.value.remarks]
    status = fleet.exit_status(outcomes)
    left = [row for row in store.trials(run.id) if row.state not in ENDED]
    if engine.stop.is_set() and left:
        raise _interrupted(store, run)
    if status is not Exit.OK or left:
        why = [outcome.error for outcome in outcomes if outcome.error]
        note = "; ".join(str(error) for error in why)
        store.set_run_state(run.id, RunState.INTERRUPTED, note or "trials are left")
        return status if status is not Exit.OK else Exit.FAILED
    if problems:
        # Not over: a resumed run has nothing to measure, but gives back.
        store.set_run_state(run.id, RunState.INTERRUPTED, f"left behind: {problems[0].what}")
        return Exit.FAILED
    store.set_run_state(run.id, RunState.DONE, "; ".join(remarks))
    return Exit.OK


def _interrupted(store: Store, run: RunRow) -> Interrupted:
    store.set_run_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
    return Interrupted(f"run {run.id} was interrupted", next_step=f"invoke sweep --resume {run.id}")


def _skip(engine: Engine, row: TrialRow, failure: Failure) -> None:
    track = Track(engine.timeline, row.host, watch=engine.watch)
    track.skip_trial(row.number, row.config.label, TrialState.IMPLIED, failure.cause)


def _report(engine: Engine, outcome: fleet.HostOutcome[HostEnd]) -> None:
    if outcome.error is not None:
        engine.said(f"stopped: {outcome.error}", outcome.host.name)
    elif outcome.value is not None:
        done = sum(state is TrialState.MEASURED for state in outcome.value.states)
        engine.said(f"{done} of {len(outcome.value.states)} trials measured", outcome.host.name)
