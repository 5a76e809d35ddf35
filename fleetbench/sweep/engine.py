"""A whole sweep: on each host borrow, measure its trials one after the other, give back.

Hosts work side by side and do not wait for each other. Ctrl-C and failures end in the same place: the loan
is returned, the run is marked as interrupted, and `--resume` continues it.
"""

from __future__ import annotations

from fleetbench import fleet
from fleetbench.errors import Exit, Interrupted
from fleetbench.model import TrialState
from fleetbench.results.rows import RunRow, RunState
from fleetbench.sweep.on_host import ENDED, Engine, HostEnd, on_host


def run_sweep(engine: Engine, run: RunRow) -> Exit:
    """Bring a run to its end and return the exit status.

    Raises Interrupted after Ctrl-C, when everything borrowed is back.
    """
    store = engine.store
    rows = store.trials(run.id)
    names = tuple(dict.fromkeys(row.host for row in rows))
    try:
        outcomes = fleet.on_each(
            [engine.hosts[name] for name in names],
            lambda host: on_host(engine, run, host, [row for row in rows if row.host == host.name]),
            done=lambda outcome: _report(engine, outcome),
            stop=engine.stop,
        )
    except KeyboardInterrupt:
        store.set_run_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
        raise Interrupted(
            f"run {run.id} was interrupted",
            next_step=f"invoke sweep --resume {run.id}",
        ) from None
    problems = [p for outcome in outcomes if outcome.value for p in outcome.value.problems]
    status = fleet.exit_status(outcomes)
    left = [row for row in store.trials(run.id) if row.state not in ENDED]
    if status is not Exit.OK or left:
        why = "; ".join(str(outcome.error) for outcome in outcomes if outcome.error)
        store.set_run_state(run.id, RunState.INTERRUPTED, why or "trials are left")
        return status if status is not Exit.OK else Exit.FAILED
    if problems:
        store.set_run_state(run.id, RunState.FAILED, f"left behind: {problems[0].what}")
        return Exit.FAILED
    store.set_run_state(run.id, RunState.DONE)
    return Exit.OK


def _report(engine: Engine, outcome: fleet.HostOutcome[HostEnd]) -> None:
    if outcome.error is not None:
        engine.said(f"stopped: {outcome.error}", outcome.host.name)
    elif outcome.value is not None:
        done = sum(state is TrialState.MEASURED for state in outcome.value.states)
        engine.said(f"{done} of {len(outcome.value.states)} trials measured", outcome.host.name)
