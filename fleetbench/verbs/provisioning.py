"""hosts and provision: what the hosts are, and making them ready to serve."""

from __future__ import annotations

import os
from pathlib import Path

from fleetbench import console, fleet
from fleetbench.audit import AuditLog
from fleetbench.errors import Exit
from fleetbench.facts.table import COLUMNS, overview
from fleetbench.facts.values import HostFacts
from fleetbench.lab import wheelhouse
from fleetbench.lab.settings import from_environment
from fleetbench.lock import LockFile
from fleetbench.model import Host
from fleetbench.reconcile import HostResult, hf_token, provision_host
from fleetbench.sweep.lease import refuse_locked
from fleetbench.transport.open import open_session
from fleetbench.verbs.common import Options, audit_path, facts_of, print_failures, say, session_to


def show_hosts(options: Options) -> Exit:
    """Show one line for each chosen host."""
    hosts = options.chosen(options.load())

    def look(host: Host) -> HostFacts:
        session = session_to(host, patience_s=0)
        try:
            return facts_of(session, host)
        finally:
            session.close()

    outcomes = fleet.on_each(hosts, look, parallel=options.parallel)
    rows = [
        overview(outcome.value)[0].cells
        if outcome.value is not None
        else (outcome.host.name, *["?"] * (len(COLUMNS) - 2), outcome.status.value)
        for outcome in outcomes
    ]
    console.print_rows(COLUMNS, rows, form=options.form)
    print_failures(outcomes, options)
    return fleet.exit_status(outcomes)


def provision(options: Options, *, diff: bool) -> Exit:
    """Bring the chosen hosts to what the inventory says; with `--check` only say what would change."""
    inventory = options.load()
    hosts = options.chosen(inventory)
    token = hf_token(os.environ, Path.home())
    locks = {  # hosts of the same build share what it resolved to; its lock lies beside its TOML file
        build.name: LockFile(
            Path(inventory.sources[f"builds.{build.name}"].file).parent / "locks",
            wheelhouse=_on_controller(build.wheelhouse),
            keep=not options.check,
        )
        for build in {host.build.name: host.build for host in hosts}.values()
    }
    audit = None if options.check else AuditLog(audit_path())
    if audit is not None:
        audit.ready()

    def work(host: Host) -> HostResult:
        if not options.check:
            _refuse_locked(host)
        result = provision_host(
            lambda: open_session(host),
            host,
            locks=locks[host.build.name],
            check=options.check,
            hf_token=token,
            progress=say(host),
            audit=audit,
        )
        for remark in result.remarks:
            console.progress(f"note: {remark}", host=host.name)
        return result

    outcomes = fleet.on_each(
        hosts,
        work,
        status_of=lambda result: result.status,
        parallel=options.parallel,
        done=_tell,
    )
    if options.form == "table" and (diff or options.check):
        for outcome in outcomes:
            if outcome.value is not None and outcome.value.steps:
                console.write(
                    f"{outcome.host.name}: {len(outcome.value.steps)} steps, plan {outcome.value.plan}"
                )
                console.write(outcome.value.diff if diff else _steps(outcome.value))
    rows = [
        (
            outcome.host.name,
            outcome.status.value if outcome.value is None or outcome.value.steps else "no changes",
            len(outcome.value.steps) if outcome.value is not None else None,
            outcome.value.plan if outcome.value is not None and outcome.value.steps else "",
        )
        for outcome in outcomes
    ]
    console.print_rows(("host", "outcome", "steps", "plan"), rows, form=options.form)
    print_failures(outcomes, options)
    return fleet.exit_status(outcomes)


def _refuse_locked(host: Host) -> None:
    session = session_to(host, patience_s=0)
    try:
        refuse_locked(session)
    finally:
        session.close()


def _steps(result: HostResult) -> str:
    return "\n".join(f"  {step.summary}  ({step.reason})" for step in result.steps)


def _tell(outcome: fleet.HostOutcome[HostResult]) -> None:
    if outcome.value is None:
        console.progress(outcome.status.value, host=outcome.host.name)
    elif not outcome.value.steps:
        console.progress("no changes", host=outcome.host.name)
    else:
        console.progress(f"{outcome.status.value}: {len(outcome.value.steps)} steps", host=outcome.host.name)


def _on_controller(path: str) -> Path | None:
    """A host's wheelhouse as the controller sees it: FLEETBENCH_WHEELHOUSE, the lab's, or the same path."""
    if not path:
        return None
    named = os.environ.get("FLEETBENCH_WHEELHOUSE", "")
    if named:
        return Path(named)
    ours = wheelhouse.on_controller(path, from_environment().cache)
    return ours or (Path(path) if Path(path).is_dir() else None)
