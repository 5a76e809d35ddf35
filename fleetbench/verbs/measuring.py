"""bench and sweep: numbers from real servers, stored with their evidence."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fleetbench import console
from fleetbench.audit import AuditLog
from fleetbench.bench.prompts import check_prompts
from fleetbench.commands.plan import read_saved_config
from fleetbench.errors import Exit, UsageError
from fleetbench.inventory import Inventory, find_host, find_model, find_sweep
from fleetbench.model import Config, Host, Model, Sweep, Trial
from fleetbench.plan.flags import check_flags
from fleetbench.plan.ruled_out import with_verdicts
from fleetbench.plan.schedule import Place, trials
from fleetbench.results.interference import LEAST_REPEATS
from fleetbench.results.manifest import sealing
from fleetbench.results.rows import UNFINISHED, RunKind, RunRow
from fleetbench.results.store import Store, open_store
from fleetbench.sweep.engine import run_sweep
from fleetbench.sweep.ground import Engine
from fleetbench.sweep.history import kinds_of
from fleetbench.sweep.succession import predecessor_of
from fleetbench.sweep.timeline import Timeline
from fleetbench.sweep.times import Times, as_arguments
from fleetbench.transport.durable import DurableSession
from fleetbench.verbs.checking import show
from fleetbench.verbs.common import Options, at_least, audit_path, facts_of, session_to
from fleetbench.verbs.display import watching
from fleetbench.verbs.forecast import Forecast
from fleetbench.verbs.interruption import Interruption
from fleetbench.verbs.planning import Question, Survey, refuse_nothing, refuse_unready, survey, tell

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
    try_all: bool = False,
    config_file: str = "",
    pack: bool = False,
    lines_only: bool = False,
) -> Exit:
    """Measure the configurations of a sweep on the chosen hosts, or continue a run that was interrupted."""
    at_least(0, repeats=repeats)  # 0: as the sweep says
    inventory = options.load()
    with open_store() as store:
        if resume:
            begun = resumable(store, resume, RunKind.SWEEP)
            return _finish(store, inventory, begun, options, lines_only)
        if not model:
            raise UsageError("no model given", next_step="--model NAME, from models.toml")
        wanted = find_model(inventory, model)
        named = find_sweep(inventory, sweep_name or wanted.sweep or "default")
        named = replace(named, repeats=repeats) if repeats else named
        hosts = replace(options, hosts=options.hosts or wanted.hosts).chosen(inventory)
        if pack and named.repeats < LEAST_REPEATS:
            raise UsageError(
                f"--pack cannot tell noise from harm by {named.repeats} repeat",
                next_step=f"--repeats {LEAST_REPEATS} or more, or without --pack",
            )
        measuring = find_host(inventory, client) if client else None  # a wrong name makes no run
        question = Question(
            sweep=named,
            model=wanted,
            builds=inventory.builds,
            try_all=try_all,
            architecture=read_saved_config(Path(config_file)) if config_file else None,
        )
        for remark in check_prompts(named.workloads):
            console.progress(f"note: {remark}")
        for host in hosts:
            check_flags(named, wanted, question.served_on(host))
        fingerprint = _fingerprint(wanted, named, hosts, client, try_all)
        unfinished = store.find_unfinished(
            kind=RunKind.SWEEP, hosts=[h.name for h in hosts], model=wanted.name, fingerprint=fingerprint
        )
        if unfinished is not None and not new and not options.check:
            console.progress(
                f"continuing run {unfinished.id}, started {unfinished.created_at} (--new starts afresh)"
            )
            return _finish(store, inventory, unfinished, options, lines_only)
        surveys = survey(hosts, question, options)
        forecast = Forecast.of(store, named, wanted, [(one.place, one.guess) for one in surveys])
        found = _trials(surveys, question, forecast)
        if options.check:
            show(store, surveys, found, question, forecast, options, client=measuring, steps=steps)
            return Exit.CHANGES_PENDING
        refuse_unready(surveys, found, question, measuring)
        tell(surveys, found)
        refuse_nothing(found)
        run = store.create_run(
            kind=RunKind.SWEEP,
            model=wanted.name,
            repo=wanted.repo,
            sweep=named.name,
            hosts=[host.name for host in hosts],
            arguments=_arguments(named, client)
            | {
                "prune": prune,
                "pack": pack,
                "kinds": dict(forecast.kinds),
                "guesses": as_arguments(forecast.guesses),
                "weights_gib": forecast.weights_gib,
            },
            fingerprint=fingerprint,
            trials=found,
        )
        tried = sum(trial.skipped is None for trial in found)
        console.progress(f"run {run.id}: {tried} trials on {', '.join(h.name for h in hosts)}")
        return _finish(store, inventory, run, options, lines_only)


def _trials(surveys: Sequence[Survey], question: Question, forecast: Forecast) -> tuple[Trial, ...]:
    """Return the trials in order, those that the planner rules out with its reason; these take no time."""
    at = {one.host.name: one for one in surveys}

    def seconds(config: Config, place: Place) -> float:
        return forecast.seconds(config, place) if at[place.host.name].tries(config) else 0.0

    found = trials(question.sweep, question.model, [one.place for one in surveys], expected_s=seconds)
    return with_verdicts(found, {name: one.judged for name, one in at.items()})


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


def _finish(store: Store, inventory: Inventory, run: RunRow, options: Options, lines_only: bool) -> Exit:
    """Work on a run until it is done; say where the results are and what to type next."""
    hosts = {name: find_host(inventory, name) for name in run.hosts}
    predecessor = predecessor_of(run, hosts.values(), session_to)
    AuditLog(audit_path()).ready()
    run = store.claim_run(run.id)
    arguments = run.arguments
    stop = threading.Event()
    client = str(arguments.get("client") or "")

    patience_s = _real(arguments, "patience_s", PATIENCE_S)

    def session(host: Host) -> DurableSession:
        return session_to(host, patience_s=patience_s, known=True, stop=stop, plan=run.id)

    def owed() -> list[str]:
        return [f"{loan.host}: {loan.unit}" for loan in store.loans(run.id, only_open=True)]

    wanted = find_model(inventory, run.model)
    times = Times(store, run, warmup=bool(arguments.get("warmup", True)), arguments=wanted.serve_args)
    timeline = Timeline(run.id, store.directory(run.id), said=console.progress)
    watch = watching(
        run.id,
        store.trials(run.id),
        options,
        timeline.now_ms,
        lines_only=lines_only,
        expected=times.by_step,
    )
    engine = Engine(
        store=store,
        hosts=hosts,
        model=wanted,
        builds=inventory.builds,
        client=find_host(inventory, client) if client else None,
        seed=_whole(arguments, "seed", 1),
        ready_timeout_s=_real(arguments, "ready_timeout_s", 1800),
        bench_timeout_s=_real(arguments, "bench_timeout_s", 7200),
        prune=bool(arguments.get("prune", True)),
        pack=bool(arguments.get("pack", False)),
        stall_timeout_s=_real(arguments, "stall_timeout_s", 300),
        lease_s=_real(arguments, "lease_s", 900),
        warmup=bool(arguments.get("warmup", True)),
        open_session=session,
        read_facts=facts_of,
        kinds=kinds_of(run),
        times=times,
        said=watch.said,
        stop=stop,
        timeline=timeline,
        watch=watch.event,
        expected=watch.expected,
        predecessor=predecessor,
    )
    interruption = Interruption(stop, run_id=run.id, owed=owed)
    with sealing(store, run.id), watch.until_closed(store), timeline, interruption:
        return run_sweep(engine, run)


def _arguments(named: Sweep, client: str) -> dict[str, Any]:
    return {
        "client": client,
        "seed": named.seed,
        "ready_timeout_s": named.ready_timeout_s,
        "bench_timeout_s": named.bench_timeout_s,
        "stall_timeout_s": named.stall_timeout_s,
        "lease_s": named.lease_s,
        "patience_s": named.patience_s,
        "warmup": True,
    }


def _fingerprint(model: Model, named: Sweep, hosts: Sequence[Host], client: str, try_all: bool) -> str:
    asked = [model.name, model.repo, asdict(named), [host.name for host in hosts], client, try_all]
    return hashlib.sha256(json.dumps(asked, default=str, sort_keys=True).encode()).hexdigest()[:16]


def _whole(arguments: Mapping[str, object], name: str, default: int) -> int:
    value = arguments.get(name)
    return value if isinstance(value, int) else default


def _real(arguments: Mapping[str, object], name: str, default: float) -> float:
    value = arguments.get(name)
    return float(value) if isinstance(value, int | float) else default
