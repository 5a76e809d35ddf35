"""promote: the configuration that a run found best becomes the persistent service, as it was measured."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetbench import console, fleet
from fleetbench.audit import AuditLog
from fleetbench.choice.objective import objective_named
from fleetbench.choice.recommend import recommend
from fleetbench.choice.slo import parse_slo
from fleetbench.commands.recommend import read_entries, refuse_unanswerable
from fleetbench.errors import Exit, NotPossible, UsageError, one_line
from fleetbench.facts.values import HostFacts
from fleetbench.inventory import Inventory
from fleetbench.inventory.tariff import find_tariff
from fleetbench.model import GpuSet, Host
from fleetbench.promotion.candidate import Candidate, candidate, refuse_doubtful
from fleetbench.promotion.changes import Difference, differences_of
from fleetbench.promotion.install import Means, install, prove
from fleetbench.promotion.intent import Intent, intent_of, paths_of
from fleetbench.promotion.place import Asked, place_of
from fleetbench.promotion.target import refuse_unequal, target_of
from fleetbench.report.files import read_report
from fleetbench.report.recommendation import Recommendation
from fleetbench.results.store import Store, open_store
from fleetbench.transport.durable import DurableSession
from fleetbench.verbs.common import Options, at_least, audit_path, facts_of, print_failures, say, session_to
from fleetbench.verbs.ending import Ending
from fleetbench.verbs.holding import holding, refuse_held
from fleetbench.verbs.unit_files import apply_steps, kept_on, verify_unit

COLUMNS = ("host", "unit", "model", "gpus", "config", "promoted", "measured spec", "service spec", "outcome")
CHANGES = ("setting", "measured", "service", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which trial: by its number, or (0, `best`) the one that `recommend` chooses by SLO and objective."""

    run: str
    best: bool = False
    trial: int = 0
    slo: str = ""
    objective: str = ""
    tariff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is promoted, and how; `ending` is what Ctrl-C means meanwhile."""

    found: Candidate
    inventory: Inventory
    asked: Asked
    anyway: bool
    open_firewall: bool
    timeout_s: float
    check: bool
    ending: Ending
    form: str = "table"

    @property
    def mark(self) -> str:
        """What the changes belong to, in the audit."""
        return f"promote {self.found.run.id}/{self.found.trial.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one host, or (`check`) would become of it."""

    status: fleet.Status
    intent: Intent
    differences: tuple[Difference, ...]


def promote(
    options: Options,
    wanted: Wanted,
    *,
    asked: Asked,
    anyway: bool,
    open_firewall: bool,
    timeout_s: float,
) -> Exit:
    """Install what a trial measured as the persistent service of each chosen host, one after the other."""
    at_least(1, timeout=timeout_s, parallel=options.parallel)
    inventory = options.load()
    hosts = options.chosen(inventory)
    with open_store(create=False) as store:
        found = chosen(store, wanted, options)
    if not anyway:
        refuse_doubtful(found)
    console.progress(f"promoting {found.name}{f': {found.result}' if found.result else ''}")
    if found.run.origin:
        console.progress(f"which was not measured here: {found.run.origin}")
    if not options.check:
        AuditLog(audit_path()).ready()
    request = Request(
        found=found,
        inventory=inventory,
        asked=asked,
        anyway=anyway,
        open_firewall=open_firewall,
        timeout_s=timeout_s,
        check=options.check,
        ending=Ending(),
        form=options.form,
    )
    outcomes = request.ending.on_each(
        hosts,
        lambda host: _on(request, host),
        status_of=lambda done: done.status,
        parallel=options.parallel,
        max_failures=None if options.check else 0,
    )
    print_failures(outcomes, options)
    _print(found, outcomes, options)
    return request.ending.exit_status(outcomes)


def asked_place(port: int, gpus: str, bind: str, served_name: str) -> Asked:
    """Return what was typed about the place of the service; UsageError for what cannot be read."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port} is no port", next_step="a number from 1 to 65535")
    try:
        chosen_gpus = GpuSet.parse(gpus) if gpus else None
    except ValueError as exc:
        raise UsageError(f"--gpus {gpus!r} cannot be read", cause=str(exc), next_step="0,1 or 0-3") from exc
    return Asked(port=port, gpus=chosen_gpus, bind=bind, served_name=served_name)


def chosen(store: Store, wanted: Wanted, options: Options) -> Candidate:
    """Return the trial that is wanted; NotPossible, with the reason, when there is none to choose."""
    report = read_report(store, wanted.run, requests=False)
    if wanted.trial:
        if wanted.best or wanted.slo or wanted.objective or wanted.tariff:
            raise UsageError(
                "--trial says which one already",
                next_step="--trial alone, or --best with --slo, --objective and --tariff",
            )
        return candidate(report, wanted.trial)
    bounds, objective = parse_slo(wanted.slo), objective_named(wanted.objective or "tokens/s")
    tariffs = find_tariff(wanted.tariff, options.directory)
    refuse_unanswerable(objective.name, bounds, tariffs)
    said = recommend(read_entries(store, report.run.id, bounds), bounds, objective, tariffs)
    best = said.best.entry if said.best is not None else None
    if best is None or best.trial is None:
        raise NotPossible(
            f"nothing of run {report.run.id} can be recommended",
            cause=" ".join(said.reasons),
            next_step=f"fleetbench recommend {report.run.id}, then name one with --trial{_among(said)}",
        )
    console.progress(said.reasons[0])
    return candidate(report, best.trial, best.workload_index)


def _among(said: Recommendation) -> str:
    """Return the trials that there are to choose from: ` (1, 2)`; empty when there are none."""
    trials = dict.fromkeys(str(pick.trial) for pick in said.candidates if pick.trial is not None)
    return f" ({', '.join(list(trials)[:10])})" if trials else ""


def _on(request: Request, host: Host) -> Done:
    with contextlib.closing(session_to(host, stop=request.ending.stop, plan=request.mark)) as session:
        refuse_held(session)
        if request.check or _intended(request, session, host)[0].nothing:
            return _promoted(request, session, host)
        with holding(session, request.mark):  # and look once more: that is true until it is over
            return _promoted(request, session, host)


def _promoted(request: Request, session: DurableSession, host: Host) -> Done:
    said, found = say(host), request.found
    intent, facts = _intended(request, session, host)
    target = intent.target
    done = Done(status=fleet.Status.OK, intent=intent, differences=differences_of(found, target))
    means = Means(
        session=session,
        apply=lambda steps: apply_steps(session, steps),
        read_facts=lambda inner: facts_of(inner, host),
        facts=facts,
        said=said,
        keep=kept_on(host),
        version=found.trial.vllm_version,
        ready_timeout_s=request.timeout_s,
    )
    if intent.nothing:
        if not request.check:  # it may still be loading, or go round in a crash loop
            prove(means, intent)
        said(f"{target.label}: no changes")
        return done
    _show(request, host, done)
    if request.check:
        return replace(done, status=fleet.Status.WOULD_CHANGE)
    for path, text in target.units.texts.items():
        if path.endswith(".service"):
            verify_unit(session, host, path.rpartition("/")[2], text)
    with request.ending.changing(host):
        seconds = install(means, intent)
    said(f"{target.label} serves {found.model} after {seconds:.0f} s")
    return replace(done, status=fleet.Status.CHANGED)


def _intended(request: Request, session: DurableSession, host: Host) -> tuple[Intent, HostFacts]:
    """Return what is to be done on a host, and its facts; refuse what cannot work or would be another."""
    place = place_of(request.found, host, facts_of(session, host), request.asked)
    facts = facts_of(session, host, paths_of(place))
    target = target_of(
        request.found,
        host,
        place,
        facts,
        builds=request.inventory.builds,
        measured_on=request.inventory.hosts.get(request.found.trial.host),
    )
    if not request.anyway:
        refuse_unequal(request.found, target)
    return intent_of(target, facts, open_firewall=request.open_firewall), facts


def _show(request: Request, host: Host, done: Done) -> None:
    """Show what is about to change, and why the service is nevertheless the one that was measured."""
    target, said = done.intent.target, say(host)
    if request.form == "table":
        rows = [(_names(one), one.measured or None, one.becomes or None, one.why) for one in done.differences]
        text = "".join(step.diff for step in done.intent.steps)
        console.print_table(CHANGES, rows, title=f"{host.name}: {request.found.name} -> {target.label}")
        console.write(f"# {host.name}\n{text}" if text else "")
    if target.measured == target.becomes:
        on = target.becomes
        count = on.servers * on.gpus
        gpus = f"{count} {'GPU' if count == 1 else 'GPUs'} of {on.gpu_name}" if count else "no GPU"
        said(f"measured spec {on.hash}: equal (build, arguments, environment, {gpus})")
    for doubt in target.doubts:
        said(f"not as measured: {doubt}")
    if request.check:
        for step in done.intent.steps:
            said(f"would {step.summary} ({step.reason})")
        for unit, why in done.intent.starts.items():
            said(f"would start {unit} ({why})")


def _names(one: Difference) -> str:
    shown = ", ".join(one.names[:2])
    return f"{shown} and {len(one.names) - 2} more" if len(one.names) > 2 else shown


def _print(found: Candidate, outcomes: Sequence[fleet.HostOutcome[Done]], options: Options) -> None:
    rows = [_row(found, outcome) for outcome in outcomes]
    if options.form != "json":
        console.print_rows(COLUMNS, rows, form=options.form)
        return
    documents = []
    for row, outcome in zip(rows, outcomes, strict=True):
        document: dict[str, object] = {
            name.replace(" ", "_"): cell for name, cell in zip(COLUMNS, row, strict=True)
        }
        if outcome.value is not None:
            intent = outcome.value.intent
            document |= {
                "differences": [
                    {"names": one.names, "measured": one.measured, "service": one.becomes, "why": one.why}
                    for one in outcome.value.differences
                ],
                "not_as_measured": intent.target.doubts,
                "steps": [f"{step.summary} ({step.reason})" for step in intent.steps],
                "starts": dict(intent.starts),
                "diff": "".join(step.diff for step in intent.steps),
            }
        elif outcome.error is not None:
            document["error"] = one_line(str(outcome.error), 1000)
        documents.append(document)
    console.print_json(documents)


def _row(found: Candidate, outcome: fleet.HostOutcome[Done]) -> tuple[object, ...]:
    trial, done = found.trial, outcome.value
    target = done.intent.target if done is not None else None
    return (
        outcome.host.name,
        target.label if target is not None else None,
        one_line(found.model, 200),
        str(target.place.gpus) if target is not None else None,
        one_line(trial.config.label, 200),
        f"{found.run.id}/{trial.number}",
        found.measured.hash,
        target.becomes.hash if target is not None else None,
        outcome.status.value,
    )
