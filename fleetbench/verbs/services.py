"""deploy, restart, remove: the persistent services of the fleet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from fleetbench import console, deploy, fleet
from fleetbench.audit import AuditLog, operator
from fleetbench.errors import Exit, NotPossible, UsageError
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.inventory import find_model
from fleetbench.model import Config, GpuSet, Host, ServiceSpec
from fleetbench.operations import files
from fleetbench.operations.systemd import absent
from fleetbench.preflight import refuse, refuse_model
from fleetbench.promotion.intent import configuration_path
from fleetbench.rollback.back import or_as_before, started_again
from fleetbench.rollback.stand import UNIT_DIRECTORY, Spot, Stand, known_units, openings
from fleetbench.service import lifecycle
from fleetbench.service_log import phase
from fleetbench.steps import Step, fold
from fleetbench.sweep.lease import give_up, holder_of
from fleetbench.transport.durable import DurableSession
from fleetbench.units import render
from fleetbench.verbs.common import Options, at_least, audit_path, facts_of, print_failures, say, session_to
from fleetbench.verbs.ending import Ending
from fleetbench.verbs.holding import holding, refuse_held
from fleetbench.verbs.unit_files import apply_steps, kept_on, verify_unit


def deploy_service(
    options: Options,
    *,
    model: str,
    port: int,
    gpus: str,
    config: Config,
    bind: str,
    served_name: str,
    open_firewall: bool,
    timeout_s: float,
) -> Exit:
    """Install one service on each chosen host and wait until it serves."""
    inventory = options.load()
    try:
        gpu_set = GpuSet.parse(gpus)
    except ValueError as exc:
        raise UsageError(f"--gpus {gpus!r} cannot be read", cause=str(exc), next_step="0,1 or 0-3") from exc
    at_least(1, tp=config.tp, dp=config.dp, pp=config.pp, timeout=timeout_s)
    at_least(0, max_model_len=config.max_model_len or 0)
    if not 1 <= port <= 65535:
        raise UsageError(f"--port {port} is no port", next_step="a number from 1 to 65535")
    wish = deploy.Wish(
        model=find_model(inventory, model),
        port=port,
        gpus=gpu_set,
        config=config,
        bind=bind,
        served_name=served_name,
        open_firewall=open_firewall,
        ready_timeout_s=timeout_s,
    )
    hosts = options.chosen(inventory)
    ending = Ending()
    if not options.check:
        AuditLog(audit_path()).ready()
    outcomes = ending.on_each(
        hosts,
        lambda host: _deploy_on(host, wish, options, ending),
        status_of=lambda status: status,
        parallel=options.parallel,
    )
    print_failures(outcomes, options)
    rows = [
        (o.host.name, f"vllm-{port}", wish.model.name, gpus, config.label, o.status.value) for o in outcomes
    ]
    console.print_rows(("host", "unit", "model", "gpus", "config", "outcome"), rows, form=options.form)
    return ending.exit_status(outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What a deploy finds on a host: what it is to be, the steps to there, and why its server must start.

    `spot` is what has to be put back when that fails; None where nothing is to be done.
    """

    spec: ServiceSpec
    steps: tuple[Step, ...]
    why: str
    spot: Spot | None

    @property
    def nothing(self) -> bool:
        return self.spot is None


def _deploy_on(host: Host, wish: deploy.Wish, options: Options, ending: Ending) -> fleet.Status:
    with contextlib.closing(session_to(host, stop=ending.stop)) as session:
        looked = _look(session, host, wish)
        refuse_held(session)
        if options.check and not looked.nothing:
            _show_plan(host, looked)
            return fleet.Status.WOULD_CHANGE
        if options.check or looked.nothing:
            return _unchanged(session, looked, wish, options)
        with holding(session, f"deploy vllm-{wish.port}"):
            looked = _look(session, host, wish)  # what is true from now on
            if looked.nothing:
                return _unchanged(session, looked, wish, options)
            return _deployed(session, looked, wish, ending)


def _look(session: DurableSession, host: Host, wish: deploy.Wish) -> _Looked:
    """Return what there is to do; NotPossible or Occupied for what cannot work."""
    facts = facts_of(session, host)
    spec = deploy.service_spec(host, wish, facts)
    refuse_model(host, wish.model, facts)
    refuse(host, spec, facts)
    outcome = deploy.plan(spec, facts, open_firewall=wish.open_firewall)
    why = deploy.must_restart(spec, facts)
    spot = deploy.spot_of(host, spec, facts) if outcome.steps or why else None
    return _Looked(spec=spec, steps=outcome.steps, why=why, spot=spot)


def _unchanged(session: DurableSession, looked: _Looked, wish: deploy.Wish, options: Options) -> fleet.Status:
    spec, said = looked.spec, say(session.host)
    if not options.check:  # it may still be loading, or go round in a crash loop
        target = lifecycle.Target.of(spec)
        lifecycle.wait_ready(session, target, timeout_s=wish.ready_timeout_s, said=said, phase_of=phase)
    said(f"{spec.unit}: no changes")
    return fleet.Status.OK


def _deployed(session: DurableSession, looked: _Looked, wish: deploy.Wish, ending: Ending) -> fleet.Status:
    host, spec, said = session.host, looked.spec, say(session.host)
    verify_unit(session, host, spec.unit, render(spec))
    stand = Stand(spots=(looked.spot,) if looked.spot else (), ports=openings(session, looked.steps))
    with ending.changing(host), or_as_before(session, stand, said=said, keep=kept_on(host)):
        apply_steps(session, looked.steps)
        ready = deploy.bring_up(session, spec, timeout_s=wish.ready_timeout_s, said=said, phase_of=phase)
    said(f"{spec.unit} serves {ready.served.models[0]} after {ready.seconds:.0f} s")
    return fleet.Status.CHANGED


def _show_plan(host: Host, looked: _Looked) -> None:
    for step in looked.steps:
        console.progress(f"would {step.summary} ({step.reason})", host=host.name)
        if step.diff:
            console.write(f"# {host.name}\n{step.diff}")
    if looked.why:
        console.progress(f"would start {looked.spec.unit} ({looked.why})", host=host.name)


def restart(options: Options, *, port: int, timeout_s: float) -> Exit:
    """Restart the service on a port of each chosen host, one host after the other; each has to answer."""

    ending = Ending()

    def again(host: Host) -> fleet.Status:
        with contextlib.closing(session_to(host, stop=ending.stop)) as session:
            _unit_on(host, facts_of(session, host), port)
            with holding(session, f"restart vllm-{port}"):
                return restarted(host, session, say(host))

    def restarted(host: Host, session: DurableSession, said: Callable[[str], None]) -> fleet.Status:
        facts = facts_of(session, host)
        unit = _unit_on(host, facts, port)
        target, gpus = lifecycle.Target.installed(unit, facts), _gpus(unit)
        with ending.changing(host):
            with started_again(session, unit.name, said=said):
                lifecycle.stop(session, unit.name, said=said)
                lifecycle.drain(session, gpus, lambda s: facts_of(s, host), port=port, said=said)
            invocation = lifecycle.start(session, unit.name)
            ready = lifecycle.wait_ready(
                session, target, invocation=invocation, timeout_s=timeout_s, said=said, phase_of=phase
            )
        said(f"{unit.name} serves {ready.served.models[0]} after {ready.seconds:.0f} s")
        return fleet.Status.CHANGED

    return _rolling(options, again, ending)


def remove(options: Options, *, port: int) -> Exit:
    """Stop, disable and delete the service on a port of each chosen host, with all servers of a balancer."""

    ending = Ending()

    def gone(host: Host) -> fleet.Status:
        session, said = session_to(host, stop=ending.stop), say(host)
        with contextlib.closing(session):
            steps = _steps_away(session, host, port)
            if not steps:
                said(f"vllm-{port}.service: no changes")
                return fleet.Status.OK
            for step in steps:
                said(f"{'would ' if options.check else ''}{step.summary}")
            if options.check:
                return fleet.Status.WOULD_CHANGE
            with holding(session, f"remove vllm-{port}"):
                steps = _steps_away(session, host, port)
                with ending.changing(host):
                    apply_steps(session, steps)
            return fleet.Status.CHANGED

    return _rolling(options, gone, ending)


def _steps_away(session: DurableSession, host: Host, port: int) -> tuple[Step, ...]:
    """Return what removes the service on a port, and what stands behind it."""
    name, configuration = f"vllm-{port}.service", configuration_path(port)
    facts = facts_of(session, host, (configuration,))
    known = known_units(host, facts)
    front = known.get(name, Unit(name=name))
    # The one that names the others goes last: what fails in between is found by the same words.
    names = (*(f"vllm-{each}.service" for each in front.servers), name)
    for each in names:
        _refuse_packaged(host, known.get(each))
    wanted = [step for each in names for step in absent(each, f"{UNIT_DIRECTORY}/{each}")]
    return fold(facts, (*wanted, files.gone(configuration, "its service goes"))).steps


def unlock(options: Options) -> Exit:
    """End the lease that somebody has on the chosen hosts, and give production back there at once."""

    def freed(host: Host) -> fleet.Status:
        session, said = session_to(host), say(host)
        try:
            holder = holder_of(session)
            if holder is None:
                said("is not locked")
                return fleet.Status.OK
            said(f"is locked by {holder}")
            if options.check:
                return fleet.Status.WOULD_CHANGE
            if not options.yes and not console.confirm(f"{host.name}: end this and give production back?"):
                raise UsageError("not unlocked", host=host.name, next_step="again with --yes")
            give_up(session, f"unlocked by {operator()}")
            said("unlocked; what was borrowed is being started")
            return fleet.Status.CHANGED
        finally:
            session.close()

    return _rolling(options, freed)


def _rolling(options: Options, work: Callable[[Host], fleet.Status], ending: Ending | None = None) -> Exit:
    """One host after the other; after the first failure no further host is touched.

    Without `ending`, Ctrl-C is a KeyboardInterrupt: where the operator is asked, that is an answer.
    """
    hosts = options.chosen(options.load())
    if not options.check:
        AuditLog(audit_path()).ready()
    on_each = fleet.on_each if ending is None else ending.on_each
    outcomes = on_each(hosts, work, status_of=lambda status: status, parallel=1, max_failures=0)
    print_failures(outcomes, options)
    rows = [(outcome.host.name, outcome.status.value) for outcome in outcomes]
    console.print_rows(("host", "outcome"), rows, form=options.form)
    return fleet.exit_status(outcomes) if ending is None else ending.exit_status(outcomes)


def _unit_on(host: Host, facts: HostFacts, port: int) -> Unit:
    name, known = f"vllm-{port}.service", known_units(host, facts)
    unit = known.get(name)
    if unit is None or unit.load == "not-found":
        there = ", ".join(sorted(n for n in known if n.startswith("vllm-"))) or "none"
        raise NotPossible(f"{name} does not exist", host=host.name, cause=f"vLLM units there: {there}")
    return unit


def _gpus(unit: Unit) -> GpuSet:
    """Return the GPUs of a unit; none where its file does not say them in words that can be read."""
    try:
        return GpuSet.parse(unit.gpus)
    except ValueError:
        return GpuSet(())


def _refuse_packaged(host: Host, unit: Unit | None) -> None:
    """Raise NotPossible for a unit that would still be there when its file in /etc is gone."""
    if unit is not None and unit.fragment and not unit.fragment.startswith(f"{UNIT_DIRECTORY}/"):
        raise NotPossible(
            f"{unit.name} is not in {UNIT_DIRECTORY}",
            host=host.name,
            cause=f"it comes from {unit.fragment}",
            next_step=f"remove what put it there; to stop it: systemctl disable --now {unit.name}",
        )
