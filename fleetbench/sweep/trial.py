"""One trial: start what serves it, ready or cause, warm up, repeat, keep the evidence.

Each step is written down before it is taken, and finds out first whether it has been taken already: a
controller that was killed goes on where it was, and a server that still runs is measured, not restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fleetbench.bench.prepare import Preload, prepare
from fleetbench.deploy import CREDENTIAL
from fleetbench.errors import FleetbenchError, NotPossible, NotReady, Occupied, UsageError
from fleetbench.model import Failure, Step, TrialState
from fleetbench.preflight import units_of
from fleetbench.results.rows import MeasurementKind, TrialRow
from fleetbench.service.held import NOT_ITS_OWN
from fleetbench.sweep.alive import invocation_of
from fleetbench.sweep.arrangement import arrange
from fleetbench.sweep.boots import boot_of, refuse_reboot
from fleetbench.sweep.evidence import Evidence
from fleetbench.sweep.ground import Bench, Ground
from fleetbench.sweep.repeats import is_fresh, measure_all
from fleetbench.sweep.serving import Attempt, bring_up, server_of, starts_of, write_down

# Beside a server's start: what else passes between two executions of the bench client.
BETWEEN_S = 300


def run_trial(ground: Ground, row: TrialRow, bench: Bench) -> TrialState:
    """Bring one trial to its end and return its state: measured or failed.

    Lost connections are raised, HostRebooted, LeaseLost and Occupied: none says anything about the
    configuration.
    """
    ground = ground.serving(row.config)
    store, said = ground.store, ground.said
    ground.track.begin_trial(row.number, row.config.label)
    ground.track.enter(Step.STOP, "reading facts")
    said(f"trial {row.number}: {row.config.label} on GPU {row.gpus or '–'}")
    facts = ground.read_facts(ground.session)
    store.set_trial(row.run_id, row.number, state=TrialState.RUNNING)
    evidence = Evidence(store.directory(row.run_id) / f"trial-{row.number:02d}", ground.session)
    attempt: Attempt | None = None
    failure: Failure | None
    try:
        attempt = Attempt(arrange(ground.host, ground.model, row, facts))
        write_down(ground, row, attempt.wanted)
        evidence.keep_before(attempt.wanted.evidence, facts)
        bench = prepared(ground, row, bench)
        evidence.keep_versions(ground.host, facts, bench, ground.read_facts)
        serving = bring_up(ground, row, attempt, facts)
        server = server_of(ground, attempt.wanted, bench.client)
        fresh = is_fresh(row, invocation_of(serving.starts))
        measure_all(ground, row, bench, server, serving.starts, boot=boot_of(facts), fresh=fresh)
    except Occupied:
        raise
    except (NotReady, NotPossible, UsageError) as exc:
        refuse_reboot(ground.session, boot_of(facts))
        ground.confirm()
        failure = _failure(exc, attempt)
        _refuse_occupied(ground, failure)
        said(f"trial {row.number} failed: {failure.cause}")
        ground.track.end_trial(TrialState.FAILED, failure.cause)
        state = TrialState.FAILED
    else:
        ground.track.end_trial(TrialState.MEASURED)
        failure, state = None, TrialState.MEASURED
    ground.track.enter(Step.FETCH, "journal and facts")
    if attempt is not None:
        evidence.keep_after(attempt.wanted.journals(attempt.began), ground.read_facts)
    # The evidence first: a trial that has ended is not looked at again.
    store.set_trial(row.run_id, row.number, state=state, failure=failure)
    return state


def _refuse_occupied(ground: Ground, failure: Failure) -> None:
    """Raise Occupied when somebody else has the GPUs or the port: the trial stays to be measured."""
    if failure.kind in NOT_ITS_OWN:
        raise Occupied(
            failure.cause,
            host=ground.host.name,
            cause=failure.evidence,
            next_step=f"{failure.advice}; then resume the run",
        )


def _failure(exc: FleetbenchError, attempt: Attempt | None) -> Failure:
    """Return why a trial failed; where several units serve it, the cause says which one it was."""
    if not isinstance(exc, NotReady) or attempt is None:
        return as_failure(exc)
    if exc.unit and exc.invocation:
        # A server whose engine died ends with status 0; systemd then forgets the unit and its invocation.
        attempt.began[exc.unit] = exc.invocation
    failure = exc.failure or as_failure(exc)
    role = attempt.wanted.role(exc.unit)
    return replace(failure, cause=f"{role}: {failure.cause}") if role else failure


def prepared(ground: Ground, row: TrialRow, bench: Bench) -> Bench:
    """Ready the client's host while the server starts; the imports of its client go on beside the load."""
    programs = prepare(
        bench.session,
        Preload(row.run_id, ground.server or ground.host.name, bench.client),
        row.workloads,
        credential=CREDENTIAL,
        limit_s=bench.limit_s,
        idle_s=ground.ready_timeout_s + BETWEEN_S,
        said=lambda text: ground.said(f"trial {row.number}: {text}"),
    )
    return replace(bench, programs=programs)


def run_control(ground: Ground, row: TrialRow, bench: Bench, go_on: Callable[[], bool]) -> None:
    """Measure a trial whose server still runs once more, its first workload, as long as `go_on` says so.

    NotReady when the server is not the one any more that was measured.
    """
    facts = ground.read_facts(ground.session)
    wanted = arrange(ground.host, ground.model, row, facts)
    began = {unit.name: unit.invocation for unit in units_of(facts).values()}
    measure_all(
        ground,
        replace(row, workloads=row.workloads[:1]),
        prepared(ground, row, bench),
        server_of(ground, wanted, bench.client),
        starts_of(wanted, began),
        boot=boot_of(facts),
        fresh=False,
        order=[(MeasurementKind.CONTROL, number) for number in range(1, row.repeats + 1)],
        go_on=go_on,
    )


def as_failure(exc: FleetbenchError) -> Failure:
    """Return an error that names no failure of its own as one."""
    return Failure(kind="refused", cause=exc.what, evidence=exc.cause, advice=exc.next_step)
