"""Making a host serve what is wanted there: written, started, proven; or everything is as it was before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fleetbench.errors import Interrupted, NotReady, foreseen
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, ServiceSpec
from fleetbench.promotion.intent import Intent
from fleetbench.rollback.back import Keep, or_as_before
from fleetbench.rollback.stand import Stand, openings
from fleetbench.rollback.undone import Left, Undone
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
        keep: keeps a text on the controller that could not be put back; returns where.
        ready_timeout_s: seconds that a server may take until it answers.
    """

    session: DurableSession
    apply: Callable[[Sequence[Step]], None]
    read_facts: lifecycle.ReadFacts
    facts: HostFacts
    said: Callable[[str], None]
    keep: Keep
    version: str = ""
    ready_timeout_s: float = 1800


def install(means: Means, intent: Intent) -> float:
    """Carry out an intent; return the seconds until everything served.

    Whatever goes wrong, what was there before is put back, and what served before has to answer a completion
    again; the error says so. Ctrl-C does not wait for that answer. NotUndone when not all could be put back.
    """
    session = means.session
    stand = Stand(spots=intent.spots, texts=intent.configurations, ports=openings(session, intent.steps))
    with or_as_before(
        session,
        stand,
        said=means.said,
        keep=means.keep,
        proof=lambda undone: _proven_again(means, intent, undone),
    ):
        began = _change(means, intent)
        return prove(means, intent, began)


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
    fronts = [spot.unit for spot in intent.spots if spot.balancer and spot.unit in starts and spot.went]
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


def _proven_again(means: Means, intent: Intent, undone: Undone) -> None:
    """Wait until what served before serves again, and say so. Ctrl-C ends the wait."""
    left = {each.name for each in undone.left}
    for spot in intent.spots:
        unit = spot.before.unit
        if unit is None or not spot.ran or spot.unit in left:
            continue
        target = lifecycle.Target.installed(unit, means.facts)
        try:
            ready = lifecycle.wait_ready(
                means.session, target, timeout_s=means.ready_timeout_s, said=means.said, phase_of=phase
            )
        except Interrupted:
            undone.words.append(f"whether {spot.unit} serves again was not waited for")
        except Exception as exc:
            mend, state = f"journalctl -u {spot.unit}", "was put back and does not serve"
            undone.left.append(Left(name=spot.unit, why=foreseen(exc), mend=mend, state=state))
        else:
            undone.words.append(f"{spot.unit} serves {ready.served.models[0]} again")
