"""Production is borrowed, never taken: which units gave up their GPUs, and the proof that they are back.

Sweep units live in /run and the persistent units stay enabled on disk, so a reboot alone restores
production. What was running is written down before it is stopped; what was not running stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from fleetbench.errors import FleetbenchError
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.model import GpuSet, Host
from fleetbench.preflight import units_of
from fleetbench.results.rows import LoanRow
from fleetbench.results.store import Store
from fleetbench.service import lifecycle
from fleetbench.service.several import stop_all
from fleetbench.sweep import lease
from fleetbench.sweep.balancer import SWEEP_PREFIX, config_path
from fleetbench.transport.durable import DurableSession


def to_borrow(facts: HostFacts, gpus: GpuSet) -> tuple[Unit, ...]:
    """Given the facts, return the persistent units that run on GPUs of the set (or name none at all)."""
    found = []
    for unit in units_of(facts).values():
        if unit.name.startswith(SWEEP_PREFIX) or not unit.name.startswith("vllm-"):
            continue
        alive = unit.active in ("active", "activating", "reloading")
        held = set(GpuSet.parse(unit.gpus).indices) if unit.gpus else set(gpus.indices)
        if alive and (held & set(gpus.indices) or not gpus.indices):
            found.append(unit)
    return tuple(sorted(found, key=lambda unit: unit.name))


def open_loan(
    store: Store,
    run_id: str,
    session: DurableSession,
    facts: HostFacts,
    gpus: GpuSet,
    said: Callable[[str], None],
) -> tuple[str, ...]:
    """Write down what runs on the GPUs, then stop it; return the names of all units on loan to this run.

    Written down twice before anything stops: in the store, and on the host, where a timer gives production
    back when nobody renews the lease. What a dead run still owed on this host becomes this run's to return.
    """
    units = to_borrow(facts, gpus)
    adopted = [loan for loan in store.open_loans(session.host.name) if loan.run_id != run_id]
    if adopted:
        store.add_loans(run_id, [replace(loan, run_id=run_id) for loan in adopted])
        for loan in adopted:
            store.return_loan(loan.run_id, loan.host, loan.unit, f"taken over by run {run_id}")
    rows = [
        LoanRow(
            run_id=run_id,
            host=session.host.name,
            unit=unit.name,
            active_state=unit.active,
            enabled_state=unit.enabled,
            spec_hash=unit.spec,
        )
        for unit in units
    ]
    if rows:
        store.add_loans(run_id, rows)
    host = session.host.name
    owed = tuple(loan.unit for loan in store.loans(run_id, only_open=True) if loan.host == host)
    lease.arm(session, owed)
    for unit in units:
        said(f"borrowing the GPUs of {unit.name}")
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
) -> tuple[FleetbenchError, ...]:
    """Remove the sweep units, start what was borrowed and wait for a completion of each.

    Returns what went wrong; the other units are given back all the same.
    """
    facts = read_facts(session)
    sweeps = [PurePosixPath(name).name for name in units_of(facts) if name.startswith(SWEEP_PREFIX)]
    if sweeps:
        stop_all(session, sweeps, said=said)
        files = [path for name in sweeps for path in (f"/run/systemd/system/{name}", config_path(name))]
        session.read(("rm", "-f", "--", *files))
        session.read(("systemctl", "reset-failed", *sweeps))
    session.read(("systemctl", "daemon-reload"))
    problems: list[FleetbenchError] = []
    for loan in store.loans(run_id, only_open=True):
        if loan.host != host.name:
            continue
        try:
            proof = _serving_again(session, facts, loan.unit, ready_timeout_s, said)
            store.return_loan(run_id, host.name, loan.unit, proof)
            said(f"{loan.unit} serves again")
        except FleetbenchError as exc:
            problems.append(exc)
    return tuple(problems)


def _serving_again(
    session: DurableSession,
    facts: HostFacts,
    name: str,
    ready_timeout_s: float,
    said: Callable[[str], None],
) -> str:
    unit = units_of(facts).get(name)
    if unit is None or unit.port is None:
        raise FleetbenchError(
            f"{name} is not there any more",
            host=session.host.name,
            next_step=f"invoke deploy --hosts {session.host.name} … again",
        )
    said(f"giving back: starting {name}")
    invocation = lifecycle.start(session, name)
    ready = lifecycle.wait_ready(
        session,
        lifecycle.Target.installed(unit, facts),
        invocation=invocation,
        timeout_s=ready_timeout_s,
        said=said,
    )
    return f"completion after {ready.seconds:.0f} s: {ready.served.completion!r}"
