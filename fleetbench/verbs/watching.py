"""status and logs: what the services of the fleet do, without touching them."""

from __future__ import annotations

import time

from fleetbench import console, fleet
from fleetbench.errors import CommandFailed, Exit, FleetbenchError, NotPossible, one_line
from fleetbench.facts.values import HostFacts, Missing, Unit
from fleetbench.model import Host
from fleetbench.preflight import units_of
from fleetbench.verbs.common import Options, at_least, facts_of, print_failures, session_to


def status(options: Options) -> Exit:
    """Show the vLLM units of each chosen host."""
    hosts = options.chosen(options.load())

    def look(host: Host) -> HostFacts:
        session = session_to(host)
        try:
            return facts_of(session, host)
        finally:
            session.close()

    outcomes = fleet.on_each(hosts, look, parallel=options.parallel)
    rows: list[tuple[object, ...]] = []
    for outcome in outcomes:
        if outcome.value is None:
            rows.append((outcome.host.name, "–", outcome.status.value, "", "", None, None, "", ""))
            continue
        for unit in sorted(units_of(outcome.value).values(), key=lambda unit: unit.name):
            if unit.name.startswith("vllm-"):
                rows.append(status_row(outcome.host, unit))
        if isinstance(outcome.value.units, Missing):
            rows.append((outcome.host.name, "–", outcome.value.units.reason, "", "", None, None, "", ""))
    columns = ("host", "unit", "state", "boot", "gpus", "port", "restarts", "spec", "note")
    console.print_rows(columns, rows, form=options.form)
    print_failures(outcomes, options)
    return fleet.exit_status(outcomes)


def status_row(host: Host, unit: Unit) -> tuple[object, ...]:
    """Return the cells of a unit; the last one is what has to be known of it."""
    notes = []
    known = not unit.servers and not unit.name.startswith(
        "vllm-sweep-"
    )  # nginx does not show its environment
    if unit.need_reload:
        notes.append("file changed since daemon-reload")
    elif known and unit.running and unit.running_spec != unit.spec:
        notes.append("restart pending: the file is newer than the process")
    elif unit.active == "failed":
        notes.append(f"{unit.result}, status {unit.exit_code}")
    if unit.servers:
        notes.append(f"nginx in front of {', '.join(f'vllm-{port}' for port in unit.servers)}")
    if unit.promoted:
        notes.append(_promoted(unit.promoted))
    state = f"{unit.active}/{unit.sub}"
    return (
        host.name,
        unit.name.removesuffix(".service"),
        state,
        unit.enabled,
        unit.gpus,
        unit.port,
        unit.restarts,
        unit.spec,
        "; ".join(notes),
    )


def _promoted(mark: str) -> str:
    """Return where a service comes from: `promoted from RUN trial 3 (1,234 tok/s at c=64)`."""
    trial, _, result = mark.partition(" ")
    run, _, number = trial.rpartition("/")
    return f"promoted from {run} trial {number}{f' ({result})' if result else ''}"


def logs(options: Options, *, unit: str, port: int, lines: int, follow: bool) -> Exit:
    """Show a unit's journal of one or several hosts; with `follow` until Ctrl-C.

    A host that cannot show it is named, and the others go on.
    """
    hosts = options.chosen(options.load())
    at_least(1, lines=lines)
    journals = [_Journal(host, unit or f"vllm-{port}.service", lines) for host in hosts]
    statuses: list[Exit] = []
    try:
        while True:
            for journal in list(journals):
                try:
                    for line in journal.news():
                        label = f"[{journal.host.name}] " if len(hosts) > 1 else ""
                        console.write(label + one_line(line, 4000))
                except FleetbenchError as exc:
                    console.error(exc, debug=options.debug)
                    statuses.append(exc.exit_status)
                    journals.remove(journal)
            if not follow or not journals:
                return min(statuses, default=Exit.OK)  # failed (1) before not reached (3)
            time.sleep(1)
    finally:
        for journal in journals:
            journal.session.close()


class _Journal:
    """The journal of one unit on one host, read from where the last look ended."""

    def __init__(self, host: Host, unit: str, lines: int) -> None:
        self.host = host
        self.session = session_to(host)
        self._unit = unit
        self._lines = lines
        self._cursor = ""

    def news(self) -> list[str]:
        """Return what is new; NotPossible when the host knows no such unit."""
        where = ("--after-cursor", self._cursor) if self._cursor else ("-n", str(self._lines))
        argv = ("journalctl", "-u", self._unit, "-o", "short-iso", "--no-pager", "--show-cursor", *where)
        result = self.session.read(argv, timeout_s=30)
        if not result.ok and result.stderr.strip():  # "no entries" has a status of 1 too
            raise CommandFailed(
                f"cannot read the journal of {self._unit}", host=self.host.name, cause=result.last_line
            )
        text, _, cursor = result.stdout.rpartition("-- cursor: ")
        found = [line for line in text.splitlines() if not line.startswith("-- ")]
        if not found and not self._cursor:
            there = sorted(units_of(facts_of(self.session, self.host)))
            raise NotPossible(
                f"the journal has nothing of {self._unit}",
                host=self.host.name,
                cause=f"units of ours there: {', '.join(there) or 'none'}",
                next_step="--port PORT or --unit NAME of one of those",
            )
        self._cursor = cursor.strip() or self._cursor
        return found
