"""One trial: start the sweep unit, ready or cause, warm up, repeat, keep the evidence, stop.

Each step is written down before it is taken, and finds out first whether it has been taken already: a
controller that was killed goes on where it was, and a server that still runs is measured, not restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleetbench.bench.measure import Server, Task, measure
from fleetbench.deploy import CREDENTIAL, Wish, service_spec
from fleetbench.errors import FleetbenchError, HostRebooted, NotPossible, NotReady, UsageError
from fleetbench.facts.values import HostFacts
from fleetbench.model import Failure, Host, Model, ServiceSpec, TrialState, Workload
from fleetbench.preflight import refuse, units_of
from fleetbench.results.rows import MeasurementKind, TrialRow, Verdict
from fleetbench.results.store import Store
from fleetbench.service import lifecycle
from fleetbench.service.diagnose import not_ready
from fleetbench.service_log import phase
from fleetbench.sweep.boots import boot_of, refuse_reboot
from fleetbench.sweep.evidence import Evidence, invocation_of
from fleetbench.sweep.reach import server_address
from fleetbench.transport.durable import DurableSession
from fleetbench.units import render, spec_hash


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
    """Where a trial stands: the store, the host, and the way to read its facts."""

    store: Store
    host: Host
    model: Model
    session: DurableSession
    read_facts: lifecycle.ReadFacts
    borrowed: tuple[str, ...]
    ready_timeout_s: float
    said: Callable[[str], None]


def run_trial(ground: Ground, row: TrialRow, bench: Bench) -> TrialState:
    """Bring one trial to its end and return its state: measured or failed.

    Lost connections are raised, and HostRebooted: neither says anything about the configuration.
    """
    store, said = ground.store, ground.said
    said(f"trial {row.number}: {row.config.label} on GPU {row.gpus or '–'}")
    facts = ground.read_facts(ground.session)
    spec = sweep_spec(ground, row, facts)
    store.set_trial(
        row.run_id,
        row.number,
        state=TrialState.RUNNING,
        unit_name=spec.unit,
        unit_text=render(spec),
        spec_hash=spec_hash(spec),
    )
    evidence = Evidence(store.directory(row.run_id) / f"trial-{row.number:02d}", ground.session)
    evidence.keep_before(render(spec), facts)
    invocation = ""
    try:
        invocation = _serving_with_retry(ground, row, spec, facts)
        server = _server(ground, spec, bench.client)
        measure_all(ground, row, bench, server, boot=boot_of(facts), fresh=is_fresh(row, invocation))
    except (NotReady, NotPossible, UsageError) as exc:
        refuse_reboot(ground.session, boot_of(facts))
        failure = exc.failure if isinstance(exc, NotReady) and exc.failure else as_failure(exc)
        # A server whose engine died ends with status 0; systemd then forgets the unit and its invocation.
        invocation = (exc.invocation if isinstance(exc, NotReady) else "") or invocation
        store.set_trial(row.run_id, row.number, state=TrialState.FAILED, failure=failure)
        said(f"trial {row.number} failed: {failure.cause}")
        state = TrialState.FAILED
    else:
        store.set_trial(row.run_id, row.number, state=TrialState.MEASURED)
        state = TrialState.MEASURED
    evidence.keep_after(invocation or invocation_of(ground.session, spec.unit), ground.read_facts)
    return state


def sweep_spec(ground: Ground, row: TrialRow, facts: HostFacts) -> ServiceSpec:
    """Return the spec of the sweep unit of a trial."""
    wish = Wish(model=ground.model, port=row.port, gpus=row.gpus, config=row.config)
    return service_spec(ground.host, wish, facts, persistent=False)


def is_fresh(row: TrialRow, invocation: str) -> bool:
    """True when the server of a trial that was begun earlier is another one now, and cold."""
    return row.effective.get("invocation", invocation) != invocation


def measure_all(
    ground: Ground, row: TrialRow, bench: Bench, server: Server, *, boot: str, fresh: bool
) -> None:
    """Run every workload of a trial: a warm-up with another seed, then the repeats; what is done is kept.

    A `fresh` server is warmed up again wherever repeats are left.
    Raises NotReady with the cause as soon as the server is not the one any more that it was at the start;
    HostRebooted when that is because its host has another boot now than `boot`.
    """
    session, said = ground.session, ground.said
    invocation = invocation_of(session, server.unit)

    def alive() -> None:
        asked = ("systemctl", "show", server.unit, "-P", "InvocationID", "-P", "ActiveState")
        words = session.read(asked).stdout.split()
        if invocation not in words or "active" not in words:
            refuse_reboot(session, boot)
            raise not_ready(session, server.unit, invocation, served=True)

    done = {
        (found.workload_index, found.repeat)
        for found in ground.store.measurements(row.run_id, row.number)
        if found.kind is MeasurementKind.MEASURE and found.finished
    }
    for index, workload in enumerate(row.workloads):
        for kind, repeat in _order(row, bench):
            task = Task(
                run_id=row.run_id,
                trial=row.number,
                workload_index=index,
                workload=warm_up(workload) if kind is MeasurementKind.WARMUP else workload,
                repeat=repeat,
                kind=kind,
                seed=seed_of(bench.seed, kind, index, repeat),
                limit_s=bench.limit_s,
            )
            left = not done.issuperset((index, number) for number in range(1, row.repeats + 1))
            try:
                found = measure(
                    ground.store,
                    task,
                    server,
                    bench.client,
                    bench.session,
                    credential=CREDENTIAL,
                    again=fresh and left and kind is MeasurementKind.WARMUP,
                    said=said,
                    alive=alive,
                )
            except HostRebooted:
                raise  # without a verdict: it is measured again
            except NotReady as exc:
                _finish_dead(ground.store, task, exc)
                raise
            speed = found.result.output_throughput if found.result else None
            shown = f"{speed:,.0f} output tok/s" if speed is not None else "no result"
            # One wave is too short for a verdict, on purpose; only that a warm-up failed is worth a word.
            judged = kind is MeasurementKind.MEASURE or found.verdict is Verdict.INVALID
            word = f", {found.verdict}" if judged else ""
            if judged and found.verdict is not Verdict.VALID and found.reasons:
                word += f": {found.reasons[0]}"
            said(f"trial {row.number} {kind.value} {repeat}: {shown}{word}")


def warm_up(workload: Workload) -> Workload:
    """Return the workload of a warm-up: the measured shape and concurrency, one wave of it."""
    wave = workload.max_concurrency or 16
    return replace(workload, num_prompts=max(1, min(workload.num_prompts, wave)))


def seed_of(base: int, kind: MeasurementKind, workload_index: int, repeat: int) -> int:
    """Return the seed of one execution.

    The same list for every configuration, so that comparisons are paired; never twice the same in one
    server's life, because equal prompts would measure the prefix cache; warm-ups apart from repeats.
    """
    apart = 500 if kind is MeasurementKind.WARMUP else 0
    return base * 1_000_000 + workload_index * 1_000 + apart + repeat


def _order(row: TrialRow, bench: Bench) -> list[tuple[MeasurementKind, int]]:
    warm = [(MeasurementKind.WARMUP, 1)] if bench.warmup else []
    return warm + [(MeasurementKind.MEASURE, repeat) for repeat in range(1, row.repeats + 1)]


def _serving_with_retry(ground: Ground, row: TrialRow, spec: ServiceSpec, facts: HostFacts) -> str:
    """Start the server; once more where the cause may go away by itself (a port race, a dying process)."""
    try:
        return _serving(ground, row, spec, facts)
    except NotReady as exc:
        if not (exc.failure and exc.failure.retryable):
            raise
        ground.said(f"trial {row.number}: {exc.failure.cause}; this may pass, trying once more")
    lifecycle.stop(ground.session, spec.unit)
    return _serving(ground, row, spec, ground.read_facts(ground.session))


def _serving(ground: Ground, row: TrialRow, spec: ServiceSpec, facts: HostFacts) -> str:
    """Make sure that the trial's server serves, and return its invocation."""
    session, said = ground.session, ground.said
    there = units_of(facts).get(spec.unit)
    target = lifecycle.Target.of(spec)
    if there is not None and there.running and there.running_spec == spec_hash(spec):
        said(f"trial {row.number}: its server still runs")
        invocation = there.invocation
    else:
        if there is not None and there.load != "not-found":
            lifecycle.stop(session, spec.unit)
        refuse(ground.host, spec, ground.read_facts(session), ours=ground.borrowed)
        lifecycle.drain(session, spec.gpus, ground.read_facts, port=spec.port, said=said)
        session.put(render(spec).encode(), spec.unit_path)
        session.read(("systemctl", "daemon-reload"), timeout_s=60)
        invocation = lifecycle.start(session, spec.unit)
    ready = lifecycle.wait_ready(
        session,
        target,
        invocation=invocation,
        timeout_s=ground.ready_timeout_s,
        said=said,
        phase_of=phase,
    )
    ground.store.set_trial(
        row.run_id,
        row.number,
        vllm_version=ready.served.version,
        ready_s=ready.seconds,
        effective={"max_model_len": ready.served.max_model_len, "invocation": invocation},
    )
    said(f"trial {row.number}: ready after {ready.seconds:.0f} s (vLLM {ready.served.version})")
    return invocation


def _server(ground: Ground, spec: ServiceSpec, client: Host) -> Server:
    return Server(
        host=ground.host,
        address=server_address(ground.host, client, spec.bind),
        port=spec.port,
        model=spec.model,
        served_name=spec.served_name,
        unit=spec.unit,
    )


def _finish_dead(store: Store, task: Task, exc: NotReady) -> None:
    store.finish_measurement(
        task.run_id,
        task.trial,
        task.workload_index,
        task.repeat,
        task.kind,
        result=None,
        verdict=Verdict.INVALID,
        reasons=(f"the server died during the run: {exc.what}",),
    )


def as_failure(exc: FleetbenchError) -> Failure:
    """Return an error that names no failure of its own as one."""
    return Failure(kind="refused", cause=exc.what, evidence=exc.cause, advice=exc.next_step)
