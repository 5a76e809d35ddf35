"""The balancer of a trial on its host: started when the servers serve, and proven to reach each of them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fleetbench.errors import NotReady
from fleetbench.facts.values import HostFacts
from fleetbench.preflight import units_of
from fleetbench.service import http, lifecycle
from fleetbench.service.diagnose import not_ready
from fleetbench.service.several import first_dead
from fleetbench.sweep.arrangement import Arrangement
from fleetbench.sweep.balancer import ANSWER_HEADER, ASK_HEADER, Balancer, config_text, spec_hash, unit_text
from fleetbench.sweep.ground import Ground
from fleetbench.transport.base import Session
from fleetbench.transport.durable import DurableSession

PROOF_S = 30.0


def make_way(ground: Ground, balancer: Balancer, facts: HostFacts) -> None:
    """Stop what has the balancer's unit and is something else, like the only server of an earlier trial."""
    unit = units_of(facts).get(balancer.unit)
    if unit is not None and unit.active == "active" and not runs(balancer, facts):
        lifecycle.stop(ground.session, balancer.unit, said=ground.said)


def bring_up(
    ground: Ground, wanted: Arrangement, facts: HostFacts, began: dict[str, str], *, proven: bool
) -> None:
    """Start the balancer in front of servers that serve, unless it runs; `began` gets its invocation.

    Ready means that a completion came through it from each server. One that still runs as it was started is
    left alone: clients may be talking to it; `proven` says that it was ready before.
    NotReady when it does not start, or does not reach a server.
    """
    balancer = wanted.balancer
    if balancer is None:
        return
    kept = runs(balancer, facts)
    if kept:
        began[balancer.unit] = units_of(facts)[balancer.unit].invocation
    else:
        began[balancer.unit] = _start(ground, balancer)
    member = wanted.members[0]
    target = lifecycle.Target(
        unit=balancer.unit,
        port=balancer.port,
        address=wanted.address,
        model=member.served_name or member.model,
    )
    lifecycle.wait_ready(
        ground.session, target, invocation=began[balancer.unit], timeout_s=PROOF_S, said=ground.track.progress
    )
    if not (kept and proven):
        reach_each(ground.session, balancer, target, began)
        ground.said(f"nginx on port {balancer.port} reaches all {len(balancer.members)} servers")


def runs(balancer: Balancer, facts: HostFacts) -> bool:
    """True when this balancer runs.

    nginx writes its title over its environment, where others keep the hash of their spec. What its file says
    is true too, because that is never written while the unit runs.
    """
    unit = units_of(facts).get(balancer.unit)
    return unit is not None and unit.running and unit.spec == spec_hash(balancer) and not unit.need_reload


def _start(ground: Ground, balancer: Balancer) -> str:
    session = ground.session
    lifecycle.stop(session, balancer.unit)
    session.put(config_text(balancer).encode(), balancer.config_path)
    session.put(unit_text(balancer).encode(), balancer.unit_path, step=f"write {balancer.unit_path}")
    session.read(("systemctl", "daemon-reload"), timeout_s=60)
    return lifecycle.start(session, balancer.unit)


def reach_each(
    session: DurableSession, balancer: Balancer, target: lifecycle.Target, began: Mapping[str, str]
) -> None:
    """Send completions through the balancer until each server has answered one; NotReady names who does not.

    `began` has the invocation of each unit.
    """
    host = session.host.name
    left = {f"{balancer.member_address}:{port}" for port in balancer.members}
    give_up = time.monotonic() + PROOF_S
    while left:
        try:
            left.discard(session.patiently(lambda inner: _who_answers(inner, target)))
        except http.Unanswered as exc:
            _raise_dead(session, began)
            raise NotReady(
                f"{balancer.unit} is up but does not pass requests on: {exc.what}",
                host=host,
                cause=exc.cause,
                next_step=f"invoke logs --hosts {host} --unit {balancer.unit}",
            ) from exc
        if left and time.monotonic() > give_up:
            _raise_dead(session, began)
            raise NotReady(
                f"{balancer.unit} sends nothing to {', '.join(sorted(left))}",
                host=host,
                next_step=f"invoke logs --hosts {host} --unit {balancer.unit}",
            )


def _who_answers(session: Session, target: lifecycle.Target) -> str:
    with session.forward(target.port, target.address) as local:
        _, headers = http.complete(local, target.model, headers={ASK_HEADER: "1"})
    return headers.get(ANSWER_HEADER.lower(), "")


def _raise_dead(session: DurableSession, began: Mapping[str, str]) -> None:
    dead = first_dead(session, began)
    if dead:
        raise not_ready(session, dead, began[dead])
