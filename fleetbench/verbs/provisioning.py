"""hosts and provision: what the hosts are, and making them ready to serve."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleetbench import console, fleet
from fleetbench.audit import AuditLog
from fleetbench.errors import Exit, UsageError
from fleetbench.facts.table import COLUMNS, overview
from fleetbench.facts.values import HostFacts
from fleetbench.inventory import Inventory, find_build, find_sweep
from fleetbench.lab import wheelhouse
from fleetbench.lab.settings import from_environment
from fleetbench.lock import LockFile
from fleetbench.model import Build, Host
from fleetbench.reconcile import HostResult, hf_token, provision_host
from fleetbench.transport.open import open_session
from fleetbench.verbs.common import Options, audit_path, facts_of, print_failures, say, session_to
from fleetbench.verbs.holding import refuse_held


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


def provision(options: Options, *, diff: bool, build: str = "", sweep: str = "") -> Exit:
    """Bring the chosen hosts to what the inventory says; with `--check` only say what would change.

    `build` (names, joined by commas) or `sweep` (all builds of it) add venvs beside the host's own, and
    units go on with the one that they follow.
    """
    inventory = options.load()
    hosts = options.chosen(inventory)
    further = further_builds(inventory, build, sweep)
    outcomes: list[fleet.HostOutcome[HostResult]] = []
    if not further:
        outcomes += _bring(options, inventory, hosts, switch=True)
    for each in further:
        machines = [replace(host, build=each) for host in hosts]
        outcomes += _bring(options, inventory, machines, switch=False)
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
            *((outcome.host.build.name,) if further else ()),
            outcome.status.value if outcome.value is None or outcome.value.steps else "no changes",
            len(outcome.value.steps) if outcome.value is not None else None,
            outcome.value.plan if outcome.value is not None and outcome.value.steps else "",
        )
        for outcome in outcomes
    ]
    columns = ("host", *(("build",) if further else ()), "outcome", "steps", "plan")
    console.print_rows(columns, rows, form=options.form)
    print_failures(outcomes, options)
    return fleet.exit_status(outcomes)


def further_builds(inventory: Inventory, build: str, sweep: str) -> tuple[Build, ...]:
    """Return the builds that `--build` or `--sweep` names; none when neither is given.

    UsageError for both, or for a sweep that names no builds; InventoryError for a name that is unknown.
    """
    if build and sweep:
        raise UsageError("give either --build or --sweep", next_step="--sweep means all builds of that sweep")
    words = (word.strip() for word in build.split(","))
    names = find_sweep(inventory, sweep).builds if sweep else tuple(filter(None, words))
    if (sweep or build) and not names:
        raise UsageError(
            f"sweep {sweep} names no builds" if sweep else "--build names no build",
            next_step="without --build and --sweep each host gets its own build",
        )
    return tuple(find_build(inventory, name) for name in dict.fromkeys(names))


def _bring(
    options: Options, inventory: Inventory, hosts: Sequence[Host], *, switch: bool
) -> Sequence[fleet.HostOutcome[HostResult]]:
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
            switch=switch,
        )
        for remark in result.remarks:
            console.progress(f"note: {remark}", host=host.name)
        return result

    return fleet.on_each(
        hosts,
        work,
        status_of=lambda result: result.status,
        parallel=options.parallel,
        done=_tell,
    )


def _refuse_locked(host: Host) -> None:
    session = session_to(host, patience_s=0)
    try:
        refuse_held(session)
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
