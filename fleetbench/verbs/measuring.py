"""bench and sweep: numbers from real servers, stored with their evidence."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from fleetbench import console, fleet
from fleetbench.errors import Exit, NotPossible, UsageError
from fleetbench.inventory import Inventory, find_host, find_model, find_sweep
from fleetbench.model import GpuSet, Host, Model, Sweep, Trial, TrialState
from fleetbench.plan.durations import in_words
from fleetbench.plan.roofline import Guess
from fleetbench.plan.schedule import Place, trials
from fleetbench.results.rows import UNFINISHED, RunKind, RunRow
from fleetbench.results.store import Store, open_store
from fleetbench.sweep.engine import run_sweep
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.history import kinds_of
from fleetbench.sweep.loan import to_borrow
from fleetbench.sweep.timeline import Timeline
from fleetbench.sweep.times import Times, as_arguments
from fleetbench.transport.durable import DurableSession
from fleetbench.verbs.common import Options, at_least, facts_of, print_failures, session_to
from fleetbench.verbs.forecast import Forecast, restoring_s, show_steps, show_total
from fleetbench.verbs.planning import cells, guess_on, verdicts
from fleetbench.verbs.watched import plain

PATIENCE_S = 900


def sweep(
    options: Options,
    *,
    model: str,
    sweep_name: str,
    client: str,
    resume: str,
    repeats: int,
    new: bool,
    prune: bool = True,
    steps: bool = False,
) -> Exit:
    """Measure the configurations of a sweep on the chosen hosts, or continue a run that was interrupted."""
    at_least(0, repeats=repeats)  # 0: as the sweep says
    inventory = options.load()
    with open_store() as store:
        if resume:
            return _finish(store, inventory, resumable(store, resume, RunKind.SWEEP))
        if not model:
            raise UsageError("no model given", next_step="--model NAME, from models.toml")
        wanted = find_model(inventory, model)
        named = find_sweep(inventory, sweep_name or wanted.sweep or "default")
        named = replace(named, repeats=repeats) if repeats else named
        hosts = replace(options, hosts=options.hosts or wanted.hosts).chosen(inventory)
        if client:
            find_host(inventory, client)  # a wrong name makes no run
        sites = _sites(hosts, wanted, options)
        forecast = Forecast.of(store, named, wanted, sites)
        places = [place for place, _ in sites]
        planned = trials(named, wanted, places, expected_s=forecast.seconds)
        if options.check:
            _show_plan(store, planned, hosts, forecast, options, steps=steps)
            return Exit.CHANGES_PENDING
        arguments = _arguments(named, client) | {
            "prune": prune,
            "kinds": dict(forecast.kinds),
            "guesses": as_arguments(forecast.guesses),
            "weights_gib": forecast.weights_gib,
        }
        fingerprint = _fingerprint(wanted, named, hosts, client)
        unfinished = store.find_unfinished(
            kind=RunKind.SWEEP, hosts=[h.name for h in hosts], model=wanted.name, fingerprint=fingerprint
        )
        if unfinished is not None and not new:
            console.progress(
                f"continuing run {unfinished.id}, started {unfinished.created_at} (--new starts afresh)"
            )
            return _finish(store, inventory, unfinished)
        run = store.create_run(
            kind=RunKind.SWEEP,
            model=wanted.name,
            repo=wanted.repo,
            sweep=named.name,
            hosts=[host.name for host in hosts],
            arguments=arguments,
            fingerprint=fingerprint,
        )
        store.add_trials(run.id, planned)
        console.progress(f"run {run.id}: {len(planned)} trials on {', '.join(h.name for h in hosts)}")
        return _finish(store, inventory, run)


def resumable(store: Store, name: str, kind: RunKind) -> RunRow:
    """Return the unfinished run that `--resume` names; UsageError when it is done or another verb's."""
    run = store.run(name)
    if run.kind is not kind:
        raise UsageError(
            f"run {run.id} is a {run.kind.value}", next_step=f"invoke {run.kind.value} --resume {run.id}"
        )
    if run.state not in UNFINISHED:
        raise UsageError(
            f"run {run.id} is {run.state.value}", next_step=f"fleetbench report {run.id}, or start a new run"
        )
    return run


def _finish(store: Store, inventory: Inventory, run: RunRow) -> Exit:
    """Work on a run until it is done; say where the results are and what to type next."""
    run = store.claim_run(run.id)
    arguments = run.arguments
    stop = threading.Event()
    client = str(arguments.get("client") or "")

    patience_s = _real(arguments, "patience_s", PATIENCE_S)

    def session(host: Host) -> DurableSession:
        return session_to(host, patience_s=patience_s, known=True, stop=stop)

    wanted = find_model(inventory, run.model)
    times = Times(store, run, warmup=bool(arguments.get("warmup", True)), arguments=wanted.serve_args)
    timeline = Timeline(run.id, store.directory(run.id), said=console.progress)
    engine = Engine(
        store=store,
        hosts={name: find_host(inventory, name) for name in run.hosts},
        model=wanted,
        client=find_host(inventory, client) if client else None,
        seed=_whole(arguments, "seed", 1),
        ready_timeout_s=_real(arguments, "ready_timeout_s", 1800),
        bench_timeout_s=_real(arguments, "bench_timeout_s", 7200),
        prune=bool(arguments.get("prune", True)),
        lease_s=_real(arguments, "lease_s", 900),
        warmup=bool(arguments.get("warmup", True)),
        open_session=session,
        read_facts=facts_of,
        kinds=kinds_of(run),
        times=times,
        expected=times.by_step,
        said=lambda text, host: console.progress(text, host=host),
        stop=stop,
        timeline=timeline,
        watch=plain,
    )
    with timeline:
        status = run_sweep(engine, run)
    rows = store.trials(run.id)
    done = sum(row.state is TrialState.MEASURED for row in rows)
    console.progress(f"run {run.id}: {done} of {len(rows)} trials measured")
    console.write(f"fleetbench report {run.id}")
    return status


def _sites(hosts: Sequence[Host], model: Model, options: Options) -> list[tuple[Place, Guess]]:
    """Return each host as a place for trials, and what their durations there are guessed from."""

    def look(host: Host) -> tuple[Place, Guess]:
        session = session_to(host)
        try:
            facts = facts_of(session, host)
            return Place.of(host, facts), guess_on(session, host, facts, model)
        finally:
            session.close()

    outcomes = fleet.on_each(hosts, look, parallel=options.parallel)
    sites = [outcome.value for outcome in outcomes if outcome.value is not None]
    if len(hosts) == 1 and outcomes[0].error is not None:
        raise outcomes[0].error
    print_failures(outcomes, options)
    if len(sites) < len(hosts):
        missing = ", ".join(outcome.host.name for outcome in outcomes if outcome.value is None)
        raise NotPossible(
            "a sweep needs all its hosts",
            cause=f"not usable: {missing}",
            next_step="mend them, or leave them out of --hosts",
        )
    return sites


def _show_plan(
    store: Store,
    planned: Sequence[Trial],
    hosts: Sequence[Host],
    forecast: Forecast,
    options: Options,
    *,
    steps: bool,
) -> None:
    """Print the trials with what the planner says of each (or their steps), and what would be borrowed."""
    named, model = forecast.sweep, forecast.model
    rows: list[tuple[object, ...]] = []
    restoring: dict[str, float] = {}
    for host in hosts:
        session = session_to(host)
        try:
            facts = facts_of(session, host)
            judged, remark = verdicts(session, host, facts, named, model)
        finally:
            session.close()
        mine = [trial for trial in planned if trial.host == host.name]
        gpus = GpuSet(tuple(sorted({index for trial in mine for index in trial.gpus.indices})))
        lent = to_borrow(facts, gpus)
        restoring[host.name] = restoring_s(store, forecast, host.name, lent)
        for unit in lent:
            console.progress(f"would borrow the GPUs of {unit.name} (GPU {unit.gpus})", host=host.name)
        if remark:
            console.progress(remark, host=host.name)
        rows += [
            (
                *(t.number, t.host, str(t.gpus), t.port, t.config.label, t.repeats),
                in_words(forecast.of_trial(t).seconds),
                *cells(judged.get(t.config)),
            )
            for t in mine
        ]
    columns = (
        *("trial", "host", "gpus", "port", "config", "repeats", "time"),
        *("verdict", "weights GiB", "KV tokens", "reason"),
    )
    if steps:
        show_steps(planned, forecast, form=options.form)
    else:
        console.print_rows(columns, sorted(rows, key=lambda row: str(row[0]).zfill(6)), form=options.form)
    for workload in named.workloads:
        console.progress(f"workload: {workload.label}")
    show_total(planned, forecast, restoring)


def _arguments(named: Sweep, client: str) -> dict[str, Any]:
    return {
        "client": client,
        "seed": named.seed,
        "ready_timeout_s": named.ready_timeout_s,
        "bench_timeout_s": named.bench_timeout_s,
        "lease_s": named.lease_s,
        "patience_s": named.patience_s,
        "warmup": True,
    }


def _fingerprint(model: Model, named: Sweep, hosts: Sequence[Host], client: str) -> str:
    asked = [model.name, model.repo, asdict(named), [host.name for host in hosts], client]
    return hashlib.sha256(json.dumps(asked, default=str, sort_keys=True).encode()).hexdigest()[:16]


def _whole(arguments: Mapping[str, object], name: str, default: int) -> int:
    value = arguments.get(name)
    return value if isinstance(value, int) else default


def _real(arguments: Mapping[str, object], name: str, default: float) -> float:
    value = arguments.get(name)
    return float(value) if isinstance(value, int | float) else default
