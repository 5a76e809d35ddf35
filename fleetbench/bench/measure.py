"""One measurement from start to stored verdict; interrupted anywhere, it goes on where it was.

Written down before each step: the row (seed, unit name, client) before the client starts, the raw files
before the numbers, the numbers before anything is removed from the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from fleetbench.bench import client as clients
from fleetbench.bench.judged import Sent, judged
from fleetbench.bench.left import begin_again, keep, read_blocks
from fleetbench.bench.prepare import Programs, environment, executable
from fleetbench.bench.witness import NoWitness, Witness
from fleetbench.bench_command import bench_command
from fleetbench.bench_program import Choice, Program, choose
from fleetbench.errors import HostRebooted, NotReady, UsageError
from fleetbench.model import Host, Workload
from fleetbench.results import manifest
from fleetbench.results.records import document_of
from fleetbench.results.rows import Json, MeasurementKind, MeasurementRow
from fleetbench.results.rules.around import around
from fleetbench.results.store import Store
from fleetbench.transport.durable import DurableSession

INSTEAD = "-python"
_MARKS = {MeasurementKind.WARMUP: "w", MeasurementKind.MEASURE: "r", MeasurementKind.CONTROL: "c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the client talks to: where, which model under which name, and whose tokenizer.

    `endpoints` are address and port of each server behind it, as their host reaches them; empty: unknown.
    """

    host: Host
    address: str
    port: int
    model: str
    served_name: str
    unit: str
    endpoints: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One measurement that is wanted; `notes` are said of it whatever comes out."""

    run_id: str
    trial: int
    workload_index: int
    workload: Workload
    repeat: int
    kind: MeasurementKind
    seed: int
    limit_s: float
    notes: tuple[str, ...] = ()


def measure(
    store: Store,
    task: Task,
    server: Server,
    client: Host,
    session: DurableSession,
    *,
    credential: str = "",
    programs: Programs | None = None,
    again: bool = False,
    said: Callable[[str], None] = lambda _: None,
    alive: Callable[[], None] = lambda: None,
    passing: Callable[[str], None] = lambda _: None,
    counted: Callable[[clients.Count], None] = lambda _: None,
    ended: Callable[[], None] = lambda: None,
    witness: Witness = NoWitness(),  # noqa: B008  holds nothing
) -> MeasurementRow:
    """Run (or find again) one execution of the bench client and return its finished row.

    With `again` one that is finished is run once more: a warm-up, when the server is another one by now.
    `session` leads to the client host, and `programs` are what `prepare` found there. A client that vanished
    with a reboot or crashed is started once more, and the row counts the attempt; so is one that was chosen
    for the workload and came to nothing, with the Python client in its place. One that had no room for its
    results raises FleetbenchError: a resumed run measures it again. One whose server went away in between is
    kept when it had come to a good end, and begun anew otherwise. `passing` gets lines of no interest
    later, `counted` how far the client is; it is told `ended` before what it left is fetched.
    """
    row = _record(store, task, client, again=False)
    if again and row.finished:
        row = _record(store, task, client, again=True)
    while not row.finished:
        made, choice = _client(store, row, task, server, client, session, credential, programs or Programs())
        begun = clients.begun(session, made)
        outlived = begun and witness.outlived(row)
        if not begun:
            witness.before(row)
        state = clients.start(session, made)
        passing(f"{_name(task)}: {state.value}")
        if state in (clients.State.STARTED, clients.State.RUNNING) and not outlived:
            try:
                state = clients.wait(
                    session,
                    made,
                    said=lambda text: passing(f"{_name(task)}: {text}"),
                    alive=alive,
                    counted=counted,
                )
            except NotReady as exc:  # the server died: its client has nothing left to measure
                clients.stop(session, made)
                ended()
                keep(store, row, made, clients.fetch(session, made), **_asked(task))
                clients.clear(session, made)
                witness.forget(row, keep=True)
                if isinstance(exc, HostRebooted):
                    _record(store, task, client, again=True)
                raise
        ended()
        left = clients.fetch(session, made)
        if left.exit_status != 0 and not outlived:
            alive()  # what ended the client may have ended the server too, and that is another matter
        if left.exit_status != 0:
            clients.refuse_without_room(session, made, _name(task))
        more: dict[str, Json] = {"not_rust": choice.why, "version": client.build.version}
        keep(store, row, made, left, **more, **_asked(task))
        rust = choice.program is Program.RUST and task.workload.client_program == "auto"
        why, instead = begin_again(
            row.attempt, state, left, outlived=outlived, wanted=task.workload.num_prompts, rust=rust
        )
        if why:
            said(f"{_name(task)}: {why}")
            clients.clear(session, made)
            witness.forget(row)
            row = _record(store, task, client, again=True, instead=instead or _instead(row))
            continue
        row = _judge(store, task, row, left, client.build.version, witness)
        clients.clear(session, made)
        witness.forget(row)
    return row


def abandon(
    store: Store, run_id: str, trials: Collection[int], client: Host, session: DurableSession
) -> None:
    """End the clients of these trials that still run: their server is about to go.

    A resumed run starts them anew under the same name, with the same seed.
    """
    for row in store.measurements(run_id):
        if row.trial in trials and not row.finished and row.client == client.name:
            clients.abandon(session, row.unit_name, _directory(client, row))


def _directory(client: Host, row: MeasurementRow) -> str:
    return f"{client.prefix}/runs/{row.unit_name}"


def _client(
    store: Store,
    row: MeasurementRow,
    task: Task,
    server: Server,
    client: Host,
    session: DurableSession,
    credential: str,
    programs: Programs,
) -> tuple[clients.Client, Choice]:
    directory = _directory(client, row)
    command = bench_command(
        version=client.build.version,
        executable=(executable(client),),
        model=server.model,
        served_name=server.served_name,
        tokenizer="",
        host=server.address,
        port=server.port,
        workload=_with_prompts(task.workload, session, directory, client.user),
        seed=row.seed,
        result_dir=f"{directory}/out",
        result_filename=clients.RESULT,
    )
    choice = choose(task.workload, command, client.build.version, programs.rust)
    if choice.program is Program.RUST and (_instead(row) or _measured_by_python(store, row)):
        choice = Choice(Program.PYTHON, "the Rust client came to nothing")
    by_rust = choice.program is Program.RUST and programs.rust is not None
    made = clients.Client(
        unit=row.unit_name,
        directory=directory,
        user=client.user,
        command=(programs.rust.path, *command[1:]) if by_rust and programs.rust else command,
        environment={"no_proxy": server.address} | dict(environment(client)),
        credential=credential,
        limit_s=task.limit_s,
        python=f"{client.venv}/bin/python",
        program=choice.program,
        preloaded="" if by_rust else programs.preloaded,
    )
    return made, choice


def _measured_by_python(store: Store, row: MeasurementRow) -> bool:
    """Repeats of one workload in one server's life are measured by one client, so that they compare."""
    rows = store.measurements(row.run_id, row.trial)
    same = [other for other in rows if other.workload_index == row.workload_index and other.finished]
    return any(other.client_program.startswith(Program.PYTHON) for other in same)


def _with_prompts(workload: Workload, session: DurableSession, directory: str, user: str) -> Workload:
    """Copy a prompts file to the client host and return the workload that names it there."""
    if not workload.prompts:
        return workload
    local = Path(workload.prompts)
    try:
        content = local.read_bytes()
    except OSError as exc:
        raise UsageError(f"cannot read the prompts file {local}", cause=exc.strerror or str(exc)) from exc
    remote = f"{directory}/prompts{local.suffix}"
    clients.own_place(session, directory, user)
    session.put(content, remote)
    return replace(workload, prompts=remote)


def _record(store: Store, task: Task, client: Host, *, again: bool, instead: bool = False) -> MeasurementRow:
    place = f"t{task.trial}-l{task.workload_index}-{_MARKS[task.kind]}{task.repeat}"
    suffix = f"-again-{os.urandom(2).hex()}{INSTEAD if instead else ''}" if again else ""
    return store.start_measurement(
        task.run_id,
        task.trial,
        task.workload_index,
        task.repeat,
        task.kind,
        seed=task.seed,
        unit_name=f"fleetbench-bench-{task.run_id}-{place}{suffix}",
        client=client.name,
        again=again,
    )


def _instead(row: MeasurementRow) -> bool:
    """Whether this attempt is the Python client's after the Rust client's came to nothing."""
    return row.unit_name.endswith(INSTEAD)


def _judge(
    store: Store,
    task: Task,
    row: MeasurementRow,
    left: clients.Left,
    version: str,
    witness: Witness,
) -> MeasurementRow:
    block, unread = read_blocks(left.content, row.directory)
    result = block.result if block else None
    seen = witness.after(replace(row, client_program=left.program or ""), result)
    near = around(row, store.trials(row.run_id), store.measurements(row.run_id, row.trial))
    judgement, said = judged(row, left, block, unread, _sent(task), seen, near, client_version=version)
    manifest.record(store.directory(row.run_id), row.directory)
    return store.finish_measurement(
        task.run_id,
        task.trial,
        task.workload_index,
        task.repeat,
        task.kind,
        result=result,
        verdict=judgement.verdict,
        findings=judgement.findings,
        reasons=said,
        exit_status=left.exit_status,
        client_program=left.program or "",
        client_version=version if left.program else "",
        telemetry=seen.telemetry,
        ceiling=seen.ceiling,
    )


def _asked(task: Task) -> dict[str, Json]:
    """What client.json says of the task: with it the result can be judged once more."""
    return {"workload": document_of(task.workload), "notes": list(task.notes)}


def _sent(task: Task) -> Sent:
    return Sent(workload=task.workload, limit_s=task.limit_s, notes=task.notes)


def _name(task: Task) -> str:
    what = "warm-up" if task.kind is MeasurementKind.WARMUP else f"repeat {task.repeat}"
    return f"trial {task.trial} {task.workload.label} {what}"
