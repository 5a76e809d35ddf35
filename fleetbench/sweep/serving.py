"""The server of a trial: its spec, its start, once more where the cause may pass, and where it is reached."""

from __future__ import annotations

from fleetbench.bench.measure import Server
from fleetbench.deploy import Wish, service_spec
from fleetbench.errors import NotReady
from fleetbench.facts.values import HostFacts
from fleetbench.model import Host, ServiceSpec, TrialState
from fleetbench.preflight import refuse, units_of
from fleetbench.results.rows import TrialRow
from fleetbench.results.timeline import Step
from fleetbench.service import lifecycle
from fleetbench.service_log import phase
from fleetbench.sweep.again import passing, row_for_another_try
from fleetbench.sweep.clearing import clear
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.reach import server_address
from fleetbench.sweep.readback import prove
from fleetbench.units import render, spec_hash


def sweep_spec(ground: Ground, row: TrialRow, facts: HostFacts) -> ServiceSpec:
    """Return the spec of the sweep unit of a trial."""
    wish = Wish(model=ground.model, port=row.port, gpus=row.gpus, config=row.config)
    return service_spec(ground.host, wish, facts, persistent=False)


def serve(ground: Ground, row: TrialRow, spec: ServiceSpec, facts: HostFacts) -> tuple[ServiceSpec, str]:
    """Start the server; return what serves and its invocation.

    Once more where the cause may go away by itself: a dying process, a port that somebody took in the
    meantime; then it is served on another one, and the spec is another.
    """
    try:
        return spec, _serving(ground, row, spec, facts)
    except NotReady as exc:
        failure = passing(exc)
        if failure is None:
            raise
    ground.said(f"trial {row.number}: {failure.cause}; this may pass, trying once more")
    ground.track.enter(Step.STOP, "to try once more")
    lifecycle.stop(ground.session, spec.unit)
    facts = ground.read_facts(ground.session)
    moved = row_for_another_try(ground, row, failure, facts)
    if moved.port != row.port:
        ground.said(f"trial {row.number}: on port {moved.port}")
        ground.session.read(("rm", "-f", "--", spec.unit_path))
        spec = sweep_spec(ground, moved, facts)
        write_down(ground, moved, spec)
    return spec, _serving(ground, moved, spec, facts)


def write_down(ground: Ground, row: TrialRow, spec: ServiceSpec, state: TrialState | None = None) -> None:
    """Write down what is about to serve a trial."""
    ground.store.set_trial(
        row.run_id,
        row.number,
        state=state,
        unit_name=spec.unit,
        unit_text=render(spec),
        spec_hash=spec_hash(spec),
    )


def _serving(ground: Ground, row: TrialRow, spec: ServiceSpec, facts: HostFacts) -> str:
    """Make sure that the trial's server serves, and return its invocation."""
    session, said = ground.session, ground.said
    there = units_of(facts).get(spec.unit)
    target = lifecycle.Target.of(spec)
    if there is not None and there.running and there.running_spec == spec_hash(spec):
        said(f"trial {row.number}: its server still runs")
        ground.track.enter(Step.LOAD, "its server still runs")
        invocation = there.invocation
    else:
        if there is not None and there.load != "not-found":
            ground.track.enter(Step.STOP, f"old {spec.unit}")
            lifecycle.stop(session, spec.unit)
        ground.track.enter(Step.DRAIN)
        refuse(ground.host, spec, clear(ground, spec.gpus, spec.port), ours=ground.borrowed)
        ground.track.enter(Step.LOAD)
        session.put(render(spec).encode(), spec.unit_path)
        session.read(("systemctl", "daemon-reload"), timeout_s=60)
        invocation = lifecycle.start(session, spec.unit)
    ready = lifecycle.wait_ready(
        session,
        target,
        invocation=invocation,
        timeout_s=ground.ready_timeout_s,
        said=ground.track.progress,
        phase_of=ground.ahead.until_loading(phase) if ground.ahead else phase,
        seen=ground.track.journal,
    )
    if ground.ahead:
        ground.ahead.end()
    ground.store.set_trial(
        row.run_id,
        row.number,
        vllm_version=ready.served.version,
        ready_s=ready.seconds,
    )
    prove(ground, row, (spec, ready))
    said(f"trial {row.number}: ready after {ready.seconds:.0f} s (vLLM {ready.served.version})")
    return invocation


def server_of(ground: Ground, spec: ServiceSpec, client: Host) -> Server:
    """Return what the bench client on `client` talks to."""
    return Server(
        host=ground.host,
        address=server_address(ground.host, client, spec.bind),
        port=spec.port,
        model=spec.model,
        served_name=spec.served_name,
        unit=spec.unit,
        endpoints=((lifecycle.address_of(spec.bind), spec.port),),
    )
