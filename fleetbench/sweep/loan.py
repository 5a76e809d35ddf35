"""Production is borrowed, never taken: which units gave up their GPUs, and the proof that they are back.

Sweep units live in /run and the persistent units stay enabled on disk, so a reboot alone restores
production. What was running is written down before it is stopped; what was not running stays as it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from fleetbench.errors import FleetbenchError, NotReady, foreseen, one_line
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.model import GpuSet, Host
from fleetbench.preflight import units_of
from fleetbench.results.rows import LoanRow
from fleetbench.results.store import Store
from fleetbench.service import lifecycle
from fleetbench.service.several import stop_all
from fleetbench.sweep import lease
from fleetbench.sweep.balancer import SWEEP_PREFIX, config_path
from fleetbench.sweep.borrowable import (
    port_of,
    refuse_strangers,
    refuse_unreturnable,
    to_borrow,
)
from fleetbench.sweep.holders import intruders
from fleetbench.transport.durable import DurableSession

# How long production waits for GPUs that a sweep's server has just left, before it is started all the same.
FREE_AGAIN_S = 60
# How long a service that was not ready when it was borrowed is waited for.
UNREADY_S = 30
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Returned:
    """What came of giving back: units that do not serve (`problems`), and what the operator has to know."""

    problems: tuple[FleetbenchError, ...] = ()
    remarks: tuple[str, ...] = ()


def open_loan(
    store: Store,
    hold: lease.Hold,
    host: Host,
    session: DurableSession,
    facts: HostFacts,
    gpus: GpuSet,
    said: Callable[[str], None],
) -> tuple[str, ...]:
    """Write down what runs on the GPUs, then stop it; return the names of all units on loan to this run.

    Written down twice before anything stops: in the store, and on the host, where a timer gives production
    back when nobody renews the lease. What a dead run still owed on this host becomes this run's to return.

    Raises NotPossible or Occupied, with nothing stopped, for a unit that could not be given back as it is
    and for a stranger on the GPUs.
    """
    units = to_borrow(facts, gpus)
    refuse_unreturnable(host, units, facts)
    if units:  # nothing is stopped for the sake of GPUs that somebody else is on
        refuse_strangers(host, units, facts, gpus)
    _adopt(store, hold.run, host, session, facts)
    if units:
        store.add_loans(hold.run, [_row(hold.run, host, unit) for unit in units])
    owed = tuple(loan.unit for loan in store.loans(hold.run, only_open=True) if loan.host == host.name)
    hold.arm(session, owed)
    for unit in units:
        said(f"borrowing the GPUs of {unit.name}")
        hold.do(session, "systemctl", "stop", "--no-block", unit.name)
        lifecycle.stop(session, unit.name)
    return owed


def give_back(
    store: Store,
    run_id: str,
    host: Host,
    session: DurableSession,
    read_facts: lifecycle.ReadFacts,
    *,
    ready_timeout_s: float,
    said: Callable[[str], None],
) -> Returned:
    """Remove the sweep units, start what was borrowed and wait for a completion of each.

    What goes wrong with one unit does not keep the others from coming back, and neither does a store that
    cannot be written: production does not wait for a full disk.
    """
    problems: list[FleetbenchError] = []
    remarks: list[str] = []
    facts = read_facts(session)
    try:
        _remove_sweep_units(session, facts, said)
    except Exception as exc:
        problems.append(foreseen(exc))
    owed = _owed(store, run_id, host, session, facts, remarks)
    if owed:
        _wait_free(session, [units_of(facts).get(name) for name in owed], read_facts, said)
    for loan in owed.values():
        try:
            proof, remark = _returned(session, facts, loan, read_facts, ready_timeout_s, said)
        except Exception as exc:
            problems.append(foreseen(exc))
            continue
        remarks += [remark] if remark else []
        said(remark or f"{loan.unit} serves again")
        try:
            store.return_loan(run_id, host.name, loan.unit, proof)
        except FleetbenchError as exc:
            said(f"{loan.unit} is back, but that could not be written down: {exc.what} ({exc.cause})")
    return Returned(tuple(problems), tuple(remarks))


def _remove_sweep_units(session: DurableSession, facts: HostFacts, said: Callable[[str], None]) -> None:
    """Stop all sweep units, and let systemd forget them."""
    sweeps = [PurePosixPath(name).name for name in units_of(facts) if name.startswith(SWEEP_PREFIX)]
    if sweeps:
        stop_all(session, sweeps, said=said)
        files = [path for name in sweeps for path in (f"/run/systemd/system/{name}", config_path(name))]
        session.change(("rm", "-f", "--", *files), step=f"remove {', '.join(sweeps)}")
        session.read(("systemctl", "reset-failed", *sweeps))
    session.read(("systemctl", "daemon-reload"))


def _row(run_id: str, host: Host, unit: Unit) -> LoanRow:
    return LoanRow(
        run_id=run_id,
        host=host.name,
        unit=unit.name,
        active_state=unit.active,
        enabled_state=unit.enabled,
        spec_hash=unit.spec,
    )


def _adopt(store: Store, run_id: str, host: Host, session: DurableSession, facts: HostFacts) -> None:
    """Make what others still owe on this host this run's to return: their controllers are gone.

    The host itself has the last word. What it has given back by itself since (its timer, a reboot), and what
    does not run now because somebody stopped it, is no longer owed.
    """
    there = lease.owed_on(session)
    others = [loan for loan in store.open_loans(host.name) if loan.run_id != run_id]
    for loan in others:
        unit = units_of(facts).get(loan.unit)
        if loan.unit in there or (unit is not None and unit.active == "failed"):
            store.add_loans(run_id, [replace(loan, run_id=run_id)])
            proof = f"taken over by run {run_id}"
        else:
            proof = "given back by the host itself"
        store.return_loan(loan.run_id, loan.host, loan.unit, proof)
    known = {loan.unit for loan in store.loans(run_id, only_open=True) if loan.host == host.name}
    units = units_of(facts)
    strange = [units.get(name) or Unit(name=name) for name in there if name not in known]
    if strange:  # of a run in a store that is not this one
        store.add_loans(
            run_id, [replace(_row(run_id, host, unit), active_state="active") for unit in strange]
        )


def _owed(
    store: Store, run_id: str, host: Host, session: DurableSession, facts: HostFacts, remarks: list[str]
) -> Mapping[str, LoanRow]:
    """Return the units to give back by name; what the host knows where the store does not answer."""
    try:
        return {loan.unit: loan for loan in store.loans(run_id, only_open=True) if loan.host == host.name}
    except FleetbenchError as exc:
        remarks.append(f"the store does not answer ({exc.what}): giving back what the host knows of")
    units = units_of(facts)
    found = [units.get(name) or Unit(name=name) for name in lease.owed_on(session)]
    return {unit.name: replace(_row(run_id, host, unit), active_state="active") for unit in found}


def _wait_free(
    session: DurableSession,
    units: Iterable[Unit | None],
    read_facts: lifecycle.ReadFacts,
    said: Callable[[str], None],
) -> None:
    """Wait until the GPUs of these units are free of the sweep's servers; strangers are not waited for."""
    gpus = GpuSet(tuple(sorted({index for unit in units if unit for index in _gpus(unit)})))
    facts = read_facts(session)
    if not intruders(facts, gpus, ()):
        with contextlib.suppress(NotReady):  # production is started all the same
            lifecycle.drain(session, gpus, read_facts, timeout_s=FREE_AGAIN_S, said=said, facts=facts)


def _gpus(unit: Unit) -> tuple[int, ...]:
    try:
        return GpuSet.parse(unit.gpus).indices
    except ValueError:
        return ()


def _returned(
    session: DurableSession,
    facts: HostFacts,
    loan: LoanRow,
    read_facts: lifecycle.ReadFacts,
    ready_timeout_s: float,
    said: Callable[[str], None],
) -> tuple[str, str]:
    """Give one unit back; return the proof, and a remark when it is not what it was through somebody else.

    What somebody changed meanwhile is named and not overwritten; a service that was not ready when it was
    borrowed is started and owes no completion.
    """
    unit = units_of(facts).get(loan.unit) or _unloaded(session, loan.unit)
    if unit is None or unit.load == "masked":
        what = "removed" if unit is None else "masked"
        remark = f"{loan.unit} was {what} while it was on loan; it is left so"
        return remark, remark
    changes = []
    if unit.spec != loan.spec_hash:
        changes.append(f"its text is another one (spec {loan.spec_hash or '–'}, now {unit.spec or '–'})")
    if loan.enabled_state and unit.enabled != loan.enabled_state:
        changes.append(f"it was {loan.enabled_state} and is {unit.enabled}")
    remark = ""
    if changes:
        remark = f"{loan.unit} was changed while it was on loan: {', '.join(changes)}; it is left so"
    said(f"giving back: starting {loan.unit}")
    invocation = lifecycle.start(session, loan.unit)
    serving = loan.active_state in ("active", "reloading")
    limit_s = ready_timeout_s if serving else min(UNREADY_S, ready_timeout_s)
    try:
        unit, facts = _listening(session, unit, facts, read_facts, limit_s)
        target = replace(lifecycle.Target.installed(unit, facts), port=port_of(unit, facts) or 0)
        ready = lifecycle.wait_ready(session, target, invocation=invocation, timeout_s=limit_s, said=said)
    except NotReady as exc:
        if serving:
            raise
        remark = f"{loan.unit} was {loan.active_state} when it was borrowed, was started, and is not ready"
        return f"{remark}: {exc.what}", remark
    proof = f"completion after {ready.seconds:.0f} s: {ready.served.completion!r}"
    return (f"{proof}; {remark}" if remark else proof), remark


def _unloaded(session: DurableSession, name: str) -> Unit | None:
    """Return a unit that systemd knows only when it is asked for it by name, as instances of a template."""
    properties = ("LoadState", "ActiveState", "SubState", "UnitFileState", "FragmentPath")
    asked = session.read(("systemctl", "show", name, *(f"-p{each}" for each in properties)))
    shown = dict(line.split("=", 1) for line in asked.stdout.splitlines() if "=" in line)
    if shown.get("LoadState", "not-found") == "not-found":
        return None
    load, active, sub, enabled, fragment = (one_line(shown.get(each, "")) for each in properties)
    return Unit(name=name, load=load, active=active, sub=sub, enabled=enabled, fragment=fragment)


def _listening(
    session: DurableSession,
    unit: Unit,
    facts: HostFacts,
    read_facts: lifecycle.ReadFacts,
    limit_s: float,
) -> tuple[Unit, HostFacts]:
    """Return the unit and facts in which its port is known: a unit of others does not say it in its file."""
    give_up = time.monotonic() + limit_s
    while unit.port is None:
        facts = read_facts(session)
        unit = units_of(facts).get(unit.name, unit)
        if port_of(unit, facts) is not None:
            break
        if time.monotonic() > give_up or unit.active in ("failed", "inactive"):
            raise NotReady(
                f"{unit.name} runs, but listens on no port" if unit.running else f"{unit.name} does not run",
                host=session.host.name,
                next_step=f"systemctl status {unit.name} there",
            )
        time.sleep(_POLL_S)
    return unit, facts
