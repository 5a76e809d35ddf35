"""What serves a trial: brought up as it is arranged, once more where a cause may pass, proven, and ended.

Several servers are started side by side: they read the same weights, which the kernel keeps in memory once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fleetbench.bench.measure import Server
from fleetbench.errors import NotReady
from fleetbench.facts.values import HostFacts
from fleetbench.model import GpuSet, Host, ServiceSpec, Step, TrialState
from fleetbench.preflight import refuse, units_of
from fleetbench.results.rows import Json, TrialRow
from fleetbench.service import lifecycle
from fleetbench.service.diagnose import not_ready
from fleetbench.service.several import first_dead, start_all, stop_all
from fleetbench.service_log import phase
from fleetbench.sweep import front
from fleetbench.sweep.again import passing, row_for_another_try
from fleetbench.sweep.alive import Start
from fleetbench.sweep.arrangement import Arrangement, arrange, as_json
from fleetbench.sweep.balancer import SWEEP_PREFIX, config_path
from fleetbench.sweep.clearing import clear
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.reach import server_address
from fleetbench.sweep.readback import prove
from fleetbench.units import render, spec_hash


@dataclass(slots=True)
class Attempt:
    """What a trial is to be served by, and the invocation of each unit of it that was begun or found.

    Filled while it is brought up, so that it is known what there was when that fails.
    """

    wanted: Arrangement
    began: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One server that serves: its unit, port and GPUs, which start of it that is, and what it said."""

    unit: str
    port: int
    gpus: GpuSet
    invocation: str
    ready: lifecycle.Ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What serves a trial, all of it.

    Attributes:
        members: the servers, in the order of their GPU sets.
        unit, port, bind: what clients talk to: the only server, or the balancer in front of several.
        starts: which start each unit is, servers first; when one is not that any more, the trial is over.
        seconds: from the start to the first completion, with several through the balancer.
    """

    members: tuple[Member, ...]
    unit: str
    port: int
    bind: str
    starts: tuple[Start, ...]
    seconds: float


def bring_up(ground: Ground, row: TrialRow, attempt: Attempt, facts: HostFacts) -> Serving:
    """Make sure that everything of a trial serves, and return it; what already does is left alone.

    Once more where the cause may go away by itself: a dying process, a port that somebody took in the
    meantime; then it is served on another one, and the arrangement is another. NotReady names the unit.
    """
    try:
        return _serving(ground, row, attempt, facts)
    except NotReady as exc:
        failure = passing(exc)
        if failure is None:
            raise
        lost = exc.unit
    ground.said(f"trial {row.number}: {failure.cause}; this may pass, trying once more")
    ground.track.enter(Step.STOP, "to try once more")
    lifecycle.stop(ground.session, lost or attempt.wanted.unit)
    facts = ground.read_facts(ground.session)
    moved = row_for_another_try(ground, row, failure, facts)
    if moved is not row:
        ports = (moved.port, *moved.member_ports)
        ground.said(f"trial {row.number}: on port {', '.join(map(str, ports))}")
        _forget(ground, set(units_of_trial(row)) - set(units_of_trial(moved)))
        attempt.wanted = arrange(ground.host, ground.model, moved, facts)
        write_down(ground, moved, attempt.wanted)
    return _serving(ground, moved, attempt, facts)


def write_down(ground: Ground, row: TrialRow, wanted: Arrangement, state: TrialState | None = None) -> None:
    """Write down what is about to serve a trial."""
    ground.store.set_trial(
        row.run_id,
        row.number,
        state=state,
        unit_name=wanted.unit,
        unit_text=wanted.text,
        spec_hash=wanted.spec_hash,
    )


def units_of_trial(row: TrialRow) -> tuple[str, ...]:
    """Return the sweep units that a trial has on its host, what clients talk to first."""
    return tuple(f"{SWEEP_PREFIX}{port}.service" for port in (row.port, *row.member_ports))


def take_down(ground: Ground, row: TrialRow) -> None:
    """End everything of a trial, as far as it is there."""
    units = units_of_trial(row)
    stop_all(ground.session, units, said=ground.said)
    if row.member_ports:
        ground.session.read(("rm", "-f", "--", config_path(units[0])))


def end_strays(ground: Ground, rows: Sequence[TrialRow], facts: HostFacts) -> None:
    """Stop sweep units that none of these trials, which are begun, has: a killed controller left them."""
    ours = {unit for row in rows for unit in units_of_trial(row)}
    strays = [
        unit.name
        for unit in units_of(facts).values()
        if unit.name.startswith(SWEEP_PREFIX) and unit.name not in ours and unit.active == "active"
    ]
    stop_all(ground.session, strays, said=ground.said)


def server_of(ground: Ground, wanted: Arrangement, client: Host) -> Server:
    """Return what the bench client on `client` talks to."""
    first = wanted.members[0]
    return Server(
        host=ground.host,
        address=server_address(ground.host, client, wanted.bind),
        port=wanted.port,
        model=first.model,
        served_name=first.served_name,
        unit=wanted.unit,
        endpoints=tuple((lifecycle.address_of(spec.bind), spec.port) for spec in wanted.members),
    )


def starts_of(wanted: Arrangement, began: dict[str, str]) -> tuple[Start, ...]:
    """Given invocations by unit, return the starts of an arrangement's units, servers first."""
    servers = [
        Start(
            unit=spec.unit,
            invocation=began.get(spec.unit, ""),
            endpoint=(lifecycle.address_of(spec.bind), spec.port),
        )
        for spec in wanted.members
    ]
    if wanted.balancer is None:
        return tuple(servers)
    return (*servers, Start(unit=wanted.unit, invocation=began.get(wanted.unit, "")))


def _forget(ground: Ground, units: set[str]) -> None:
    """End units that a trial does not have any more, and remove their files."""
    stop_all(ground.session, sorted(units))
    files = [path for unit in sorted(units) for path in (f"/run/systemd/system/{unit}", config_path(unit))]
    ground.session.read(("rm", "-f", "--", *files))


def _serving(ground: Ground, row: TrialRow, attempt: Attempt, facts: HostFacts) -> Serving:
    wanted, began = attempt.wanted, attempt.began
    began.clear()
    if wanted.balancer is not None:
        front.make_way(ground, wanted.balancer, facts)
    fresh = _start(ground, row, attempt, facts)
    started = time.monotonic()
    members = tuple(_ready(ground, spec, attempt, started) for spec in wanted.members)
    if ground.ahead:
        ground.ahead.end()
    seconds = members[0].ready.seconds
    beside: dict[str, Json] = {}
    if wanted.balancer is not None:
        proven = not fresh and bool(row.effective.get("members"))
        front.bring_up(ground, wanted, facts, began, proven=proven)
        seconds = time.monotonic() - started
        beside = {"members": as_json(wanted, began)}
    if not fresh and row.ready_s is not None:  # it runs since before: what its start took is known already
        seconds = row.ready_s
    version = members[0].ready.served.version
    ground.store.set_trial(row.run_id, row.number, vllm_version=version, ready_s=seconds)
    served = [(spec, member.ready) for spec, member in zip(wanted.members, members, strict=True)]
    prove(ground, row, *served, beside=beside)
    ground.said(f"trial {row.number}: ready after {seconds:.0f} s (vLLM {version})")
    return Serving(
        members=members,
        unit=wanted.unit,
        port=wanted.port,
        bind=wanted.bind,
        starts=starts_of(wanted, began),
        seconds=seconds,
    )


def _start(ground: Ground, row: TrialRow, attempt: Attempt, facts: HostFacts) -> bool:
    """Start the servers that do not run as they are wanted; say whether there was one."""
    session, wanted = ground.session, attempt.wanted
    there = units_of(facts)
    lacking: list[ServiceSpec] = []
    for spec in wanted.members:
        unit = there.get(spec.unit)
        if unit is not None and unit.running and unit.running_spec == spec_hash(spec):
            attempt.began[spec.unit] = unit.invocation
        else:
            lacking.append(spec)
    if not lacking:
        runs = "its server still runs" if len(wanted.members) == 1 else "its servers still run"
        ground.said(f"trial {row.number}: {runs}")
        ground.track.enter(Step.LOAD, runs)
        return False
    units = [spec.unit for spec in lacking]
    old = [unit for unit in units if unit in there and there[unit].load != "not-found"]
    if old:
        ground.track.enter(Step.STOP, f"old {', '.join(old)}")
        stop_all(session, old)
    ground.track.enter(Step.DRAIN)
    gpus = GpuSet(tuple(sorted(index for spec in lacking for index in spec.gpus.indices)))
    ports = [spec.port for spec in lacking]
    if wanted.balancer is not None and not front.runs(wanted.balancer, facts):
        ports.append(wanted.port)
    now = clear(ground, gpus, *ports)
    for spec in lacking:
        refuse(ground.host, spec, now, ours=ground.borrowed)
    ground.track.enter(Step.LOAD)
    for spec in lacking:
        session.put(render(spec).encode(), spec.unit_path, step=f"write {spec.unit_path}")
    session.read(("systemctl", "daemon-reload"), timeout_s=60)
    guard = None if ground.hold is None else functools.partial(ground.hold.do, session)
    start_all(session, units, attempt.began, guard=guard)
    return True


def _ready(ground: Ground, spec: ServiceSpec, attempt: Attempt, started: float) -> Member:
    """Wait until one server serves; the death of any other ends the wait."""
    began = attempt.began

    def meanwhile() -> None:
        dead = first_dead(ground.session, began) if len(began) > 1 else ""
        if dead:
            raise not_ready(ground.session, dead, began[dead])

    invocation = began[spec.unit]
    ready = lifecycle.wait_ready(
        ground.session,
        lifecycle.Target.of(spec),
        invocation=invocation,
        timeout_s=max(1, ground.ready_timeout_s - int(time.monotonic() - started)),
        said=ground.track.progress,
        phase_of=ground.ahead.until_loading(phase) if ground.ahead else phase,
        seen=ground.track.journal,
        meanwhile=meanwhile,
    )
    return Member(unit=spec.unit, port=spec.port, gpus=spec.gpus, invocation=invocation, ready=ready)
