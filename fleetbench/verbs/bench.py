"""bench: measure a service that already runs, from its own host or from another one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import partial

from fleetbench import console
from fleetbench.bench.measure import Server
from fleetbench.bench.prepare import Preload, dismiss
from fleetbench.bench.prompts import check_prompts
from fleetbench.errors import Exit, FleetbenchError, HostRebooted, NotReady, UsageError
from fleetbench.facts.values import HostFacts
from fleetbench.inventory import Inventory, find_host
from fleetbench.model import GpuSet, Host, Model, Step, Trial, TrialState, Workload
from fleetbench.plan.schedule import gpu_name
from fleetbench.preflight import refuse_prompts
from fleetbench.results.manifest import sealing
from fleetbench.results.rows import MeasurementKind, RunKind, RunRow, RunState, TrialRow, Verdict
from fleetbench.results.store import Store, open_store
from fleetbench.service import lifecycle
from fleetbench.service.lifecycle import address_of, bound_to
from fleetbench.service_log import phase
from fleetbench.sweep.alive import Start
from fleetbench.sweep.boots import boot_of, facts_when_running
from fleetbench.sweep.evidence import Evidence
from fleetbench.sweep.ground import Bench, Ground
from fleetbench.sweep.reach import server_address
from fleetbench.sweep.repeats import is_fresh, measure_all
from fleetbench.sweep.timeline import Timeline
from fleetbench.sweep.track import Track
from fleetbench.sweep.trial import as_failure, prepared
from fleetbench.transport.durable import DurableSession
from fleetbench.units import as_kept, served_by
from fleetbench.verbs.bench_load import check_load
from fleetbench.verbs.common import Options, facts_of, session_to
from fleetbench.verbs.display import watching
from fleetbench.verbs.found import running_unit, text_of
from fleetbench.verbs.holding import refuse_held
from fleetbench.verbs.measuring import PATIENCE_S, resumable

READY_S = 1800


def bench(
    options: Options,
    *,
    port: int,
    client: str,
    workload: Workload,
    repeats: int,
    seed: int,
    limit_s: float,
    warmup: bool,
    resume: str,
    new: bool,
    lines_only: bool = False,
) -> Exit:
    """Measure the service on a port of one host; an interrupted run of the same work is continued."""
    check_load(workload, repeats=repeats, seed=seed, limit_s=limit_s)
    inventory = options.load()
    with open_store() as store:
        if resume:
            run = resumable(store, resume, RunKind.BENCH)
            return _finish(store, inventory, store.claim_run(run.id), options, lines_only)
        hosts = options.chosen(inventory)
        if len(hosts) != 1:
            raise UsageError(
                f"bench measures one service, {len(hosts)} hosts are chosen", next_step="name one host"
            )
        host = hosts[0]
        find_host(inventory, client or host.name)  # a wrong name makes no run
        for remark in check_prompts((workload,)):
            console.progress(f"note: {remark}")
        session = session_to(host)
        try:
            refuse_held(session)
            facts = facts_of(session, host)
        finally:
            session.close()
        if client in ("", host.name):
            refuse_prompts(host, (workload,), facts)
        unit = running_unit(host, facts, port)
        model, served, config = served_by(text_of(host, facts, unit))
        asked = [host.name, port, client, asdict(workload), repeats, seed, unit.spec]
        fingerprint = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()[:16]
        name = served or model.rstrip("/").rpartition("/")[2]
        unfinished = store.find_unfinished(
            kind=RunKind.BENCH, hosts=[host.name], model=name, fingerprint=fingerprint
        )
        if unfinished is not None and not new:
            console.progress(
                f"continuing run {unfinished.id}, started {unfinished.created_at} (--new starts afresh)"
            )
            return _finish(store, inventory, store.claim_run(unfinished.id), options, lines_only)
        trial = Trial(
            number=1,
            host=host.name,
            gpus=GpuSet.parse(unit.gpus),
            port=port,
            config=config,
            workloads=(workload,),
            repeats=repeats,
            gpu_name=gpu_name(host, facts),
        )
        run = store.create_run(
            kind=RunKind.BENCH,
            model=name,
            repo=model,
            hosts=[host.name],
            arguments={
                "client": client,
                "seed": seed,
                "limit_s": limit_s,
                "warmup": warmup,
                "served": served,
                "unit": unit.name,
            },
            fingerprint=fingerprint,
            trials=[trial],
        )
        return _finish(store, inventory, run, options, lines_only)


def _finish(store: Store, inventory: Inventory, run: RunRow, options: Options, lines_only: bool) -> Exit:
    row = store.trials(run.id)[0]
    host = find_host(inventory, row.host)
    arguments = run.arguments
    client = find_host(inventory, str(arguments.get("client") or row.host))
    session = session_to(host, patience_s=PATIENCE_S, known=True)
    apart = client.name != host.name
    client_session = session_to(client, patience_s=PATIENCE_S, known=True) if apart else session
    timeline = Timeline(run.id, store.directory(run.id), said=partial(console.progress, host=host.name))
    watch = watching(run.id, [row], options, timeline.now_ms, lines_only=lines_only)
    said = partial(watch.said, host=host.name)
    for each in {session, client_session}:  # a sweep there would be disturbed, and would disturb
        refuse_held(each)

    def facts(through: DurableSession) -> HostFacts:
        return facts_of(through, host)

    track = Track(timeline, host.name, watch=watch.event)
    for each in (session, client_session):
        each.away = track.away
    ground = Ground(
        store=store,
        host=host,
        model=Model(name=run.model, repo=run.repo),
        session=session,
        read_facts=facts,
        borrowed=(),
        ready_timeout_s=READY_S,
        said=said,
        track=track,
    )
    evidence = Evidence(store.directory(run.id) / f"trial-{row.number:02d}", session)
    bench = Bench(
        client=client,
        session=client_session,
        seed=int(str(arguments.get("seed") or 1)),
        limit_s=float(str(arguments.get("limit_s") or 7200)),
        warmup=bool(arguments.get("warmup", True)),
    )
    with sealing(store, run.id), watch.until_closed(store), timeline:
        said(f"run {run.id}: {row.config.label} on GPU {row.gpus or '–'}, client {client.name}")
        try:
            _to_its_end(ground, run, row, bench, evidence)
        finally:
            session.close()
            client_session.close()
    _refuse_invalid(store, run, host)
    return Exit.OK


def _to_its_end(ground: Ground, run: RunRow, row: TrialRow, bench: Bench, evidence: Evidence) -> None:
    """Measure, and write down how it ended."""
    store, track = ground.store, ground.track
    track.begin_trial(row.number, row.config.label)
    track.enter(Step.STOP, "reading facts")
    try:
        _measure_service(ground, run, row, bench, evidence)
        dismiss(bench.session, Preload(run.id, row.host, bench.client))
    except KeyboardInterrupt:
        store.set_run_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
        console.progress(f"the client runs on; continue with: invoke bench --resume {run.id}")
        raise
    except HostRebooted as exc:
        store.set_run_state(run.id, RunState.INTERRUPTED, exc.what)
        exc.next_step = "type the same command again when the host stays up"
        raise
    except NotReady as exc:  # the server died: these numbers will not come any more
        failure = exc.failure or as_failure(exc)
        store.set_trial(run.id, row.number, state=TrialState.FAILED, failure=failure)
        store.set_run_state(run.id, RunState.FAILED, exc.what)
        track.end_trial(TrialState.FAILED, failure.cause)
        track.enter(Step.FETCH, "journal and facts")
        evidence.keep_after({"server.journal": exc.invocation}, ground.read_facts)
        dismiss(bench.session, Preload(run.id, row.host, bench.client))
        raise
    except FleetbenchError as exc:
        store.set_run_state(run.id, RunState.INTERRUPTED, exc.what)
        raise
    finally:
        track.close()
    store.set_trial(run.id, row.number, state=TrialState.MEASURED)
    store.set_run_state(run.id, RunState.DONE)
    track.end_trial(TrialState.MEASURED)


def _measure_service(ground: Ground, run: RunRow, row: TrialRow, bench: Bench, evidence: Evidence) -> None:
    """Measure the service on the trial's port; once more when its host was rebooted in the middle."""
    store, session, host = ground.store, ground.session, ground.host
    now = ground.read_facts(session)
    unit = running_unit(host, now, row.port)
    server = Server(
        host=host,
        address=server_address(host, bench.client, bound_to(unit, now)),
        port=row.port,
        model=run.repo,
        served_name=str(run.arguments.get("served") or ""),
        unit=unit.name,
        endpoints=((address_of(bound_to(unit, now)), row.port),),
    )
    text = as_kept(text_of(host, now, unit))
    evidence.keep_before({"unit.service": text}, now)
    evidence.keep_versions(host, now, bench, ground.read_facts)
    store.set_trial(
        run.id,
        row.number,
        state=TrialState.RUNNING,
        unit_name=unit.name,
        unit_text=text,
        spec_hash=unit.spec,
        vllm_version=host.build.version,
        effective={"invocation": unit.invocation},
    )
    try:
        _measure(ground, row, prepared(ground, row, bench), server, now)
    except HostRebooted as exc:
        ground.said(f"{exc.what}; measuring again when {unit.name} is back")
        now = facts_when_running(session, ground.read_facts, unit.name)
        row, unit = store.trials(run.id)[0], running_unit(host, now, row.port)
        _measure(ground, row, prepared(ground, row, bench), server, now)
    ground.track.enter(Step.FETCH, "journal and facts")
    evidence.keep_after({"server.journal": unit.invocation}, ground.read_facts)


def _refuse_invalid(store: Store, run: RunRow, host: Host) -> None:
    """Raise FleetbenchError when a repeat came to nothing: a run that measured nothing is no success."""
    measured = [m for m in store.measurements(run.id) if m.kind is MeasurementKind.MEASURE]
    invalid = [m for m in measured if m.verdict is Verdict.INVALID]
    if invalid:
        raise FleetbenchError(
            f"{len(invalid)} of {len(measured)} repeats invalid",
            host=host.name,
            cause="; ".join(invalid[0].reasons),
            next_step=f"raw files: {store.directory(run.id)}",
        )


def _measure(ground: Ground, row: TrialRow, bench: Bench, server: Server, facts: HostFacts) -> None:
    """Measure when the service answers: it may still be loading, and the client does not wait for it."""
    unit = running_unit(ground.host, facts, row.port)
    ground.track.enter(Step.LOAD, "until the service answers")
    lifecycle.wait_ready(
        ground.session,
        lifecycle.Target.installed(unit, facts),
        invocation=unit.invocation,
        timeout_s=ground.ready_timeout_s,
        said=ground.track.progress,
        phase_of=phase,
        seen=ground.track.journal,
    )
    fresh = is_fresh(row, unit.invocation)
    start = Start(unit=unit.name, invocation=unit.invocation, endpoint=server.endpoints[0])
    measure_all(ground, row, bench, server, [start], boot=boot_of(facts), fresh=fresh)
