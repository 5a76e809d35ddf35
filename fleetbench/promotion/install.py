"""Making a host serve what is wanted there: written, started, proven; or everything is as it was before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fleetbench import deploy
from fleetbench.errors import FleetbenchError, Interrupted, NotReady
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, ServiceSpec
from fleetbench.promotion.intent import Intent, Spot
from fleetbench.service import lifecycle
from fleetbench.service.diagnose import not_ready
from fleetbench.service.several import first_dead, start_all, stop_all
from fleetbench.service_log import phase
from fleetbench.steps import Step
from fleetbench.sweep.effective import mismatches, same_version
from fleetbench.sweep.front import PROOF_S, reach_each
from fleetbench.sweep.readback import answers_of, asked_of
from fleetbench.transport.durable import DurableSession

NOT_STARTED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an installation is given.

    Attributes:
        apply: takes steps on the host. read_facts: reads its facts anew.
        facts: as they were when the intent was made.
        version: of vLLM that has to answer; empty: not known.
        ready_timeout_s: seconds that a server may take until it answers.
    """

    session: DurableSession
    apply: Callable[[Sequence[Step]], None]
    read_facts: lifecycle.ReadFacts
    facts: HostFacts
    said: Callable[[str], None]
    version: str = ""
    ready_timeout_s: float = 1800


def install(means: Means, intent: Intent) -> float:
    """Carry out an intent; return the seconds until everything served.

    Whatever goes wrong, what was there before is put back, and what served before has to answer a completion
    again; the error says so. Ctrl-C does not wait for that answer.
    """
    try:
        began = _change(means, intent)
        return prove(means, intent, began)
    except FleetbenchError as exc:
        waits = not isinstance(exc, Interrupted)  # Ctrl-C, where this host is not the only one
        raise deploy.failed(exc, _undone(means, intent, prove_it=waits)) from None
    except KeyboardInterrupt:
        _undone(means, intent, prove_it=False)
        raise


def prove(means: Means, intent: Intent, began: Mapping[str, str] = NOT_STARTED) -> float:
    """Wait until all units serve, and hold what they run with against what they were asked for.

    `began` has the invocation of each unit that was started. NotReady names the unit, and what it lacks.
    """
    session, units = means.session, intent.target.units
    seconds = 0.0

    def none_died() -> None:
        dead = first_dead(session, began) if len(units.members) > 1 and began else ""
        if dead:
            raise not_ready(session, dead, began[dead])

    for spec in units.members:
        ready = lifecycle.wait_ready(
            session,
            lifecycle.Target.of(spec),
            invocation=began.get(spec.unit, ""),
            timeout_s=means.ready_timeout_s,
            said=means.said,
            phase_of=phase,
            meanwhile=none_died,
        )
        seconds = max(seconds, ready.seconds)
        _as_asked(means, intent, spec, ready)
    if units.balancer is not None:
        first = units.members[0]
        front = lifecycle.Target(
            unit=units.unit, port=units.port, address=units.address, model=first.served_name or first.model
        )
        lifecycle.wait_ready(session, front, timeout_s=PROOF_S, said=means.said)
        reach_each(session, units.balancer, front, began)
        means.said(f"nginx on port {units.port} reaches all {len(units.members)} servers")
    return seconds


def _as_asked(means: Means, intent: Intent, spec: ServiceSpec, ready: lifecycle.Ready) -> None:
    answers = answers_of(means.session, spec, ready)
    wrong = list(mismatches(asked_of(intent.target.host, spec), answers.effective))
    version = ready.served.version
    if means.version and version and not same_version(means.version, version):
        wrong.append(f"vLLM {means.version} was measured, {version} answers")
    if wrong:
        raise NotReady(
            f"{spec.unit} serves, but not as it was measured",
            host=means.session.host.name,
            cause="; ".join(dict.fromkeys(wrong)),
            next_step=f"invoke logs --hosts {means.session.host.name} --unit {spec.unit}",
        )


def _change(means: Means, intent: Intent) -> dict[str, str]:
    """Write and start what is not as it is wanted; return the invocation of each unit that was started."""
    session, starts = means.session, intent.starts
    began: dict[str, str] = {}
    # A balancer does not show which of its files it runs with, so these are written while it is stopped.
    fronts = [spot.unit for spot in intent.spots if spot.balancer and spot.unit in starts and spot.ran]
    stop_all(session, fronts, said=means.said)
    means.apply(intent.steps)
    servers = [spec for spec in intent.target.units.members if spec.unit in starts]
    if servers:
        stop_all(session, [spec.unit for spec in servers], said=means.said)
        gpus = GpuSet(tuple(sorted(itertools.chain.from_iterable(spec.gpus.indices for spec in servers))))
        lifecycle.drain(session, gpus, means.read_facts, said=means.said)
        start_all(session, [spec.unit for spec in servers], began)
    if intent.target.units.balancer is not None and intent.target.units.unit in starts:
        began[intent.target.units.unit] = lifecycle.start(session, intent.target.units.unit)
    return began


def _undone(means: Means, intent: Intent, *, prove_it: bool) -> str:
    """Put back what was before; that this does not work either must not hide why it was tried."""
    means.session.stop = None  # what Ctrl-C ends is the promotion, not the way back
    means.session.still_ours()
    try:
        words = _undo(means, intent)
        if prove_it:
            words += _proven_again(means, intent)
        undone = "; ".join(words)
    except FleetbenchError as exc:
        undone = f"and could not be undone: {exc.what}"
    means.said(undone)
    return undone


def _undo(means: Means, intent: Intent) -> list[str]:
    """Put back files and units, servers before what stands in front of them; return what was done."""
    session = means.session
    touched = [spot for spot in intent.spots if not _runs_on(session, spot)]
    # All of them first: what comes back needs the GPUs of what goes.
    stop_all(session, [spot.unit for spot in touched], said=means.said)
    for path, text in intent.configurations.items():
        if text is None:
            session.change(("rm", "-f", "--", path), step=f"remove {path}")
        else:
            session.put(text.encode(), path, step=f"put {path} back")
    done = [deploy.undo(session, spot, spot.before, said=means.said) for spot in intent.spots]
    return (
        [f"{spot.unit}: {words}" for spot, words in zip(intent.spots, done, strict=True)]
        if len(done) > 1
        else done
    )


def _runs_on(session: DurableSession, spot: Spot) -> bool:
    return deploy.runs_on(lifecycle.look(session, spot.unit, spot.port, lines=0), spot.before[1])


def _proven_again(means: Means, intent: Intent) -> list[str]:
    """Wait until what served before serves again; return that in words."""
    words = []
    for spot in intent.spots:
        unit = spot.before[1]
        if unit is None or not spot.ran:
            continue
        target = lifecycle.Target.installed(unit, means.facts)
        try:
            ready = lifecycle.wait_ready(
                means.session, target, timeout_s=means.ready_timeout_s, said=means.said, phase_of=phase
            )
        except FleetbenchError as exc:
            words.append(f"which does not serve: {exc.what}")
        else:
            words.append(f"{spot.unit} serves {ready.served.models[0]} again")
    return words
