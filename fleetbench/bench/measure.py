"""One measurement from start to stored verdict; interrupted anywhere, it goes on where it was.

Written down before each step: the row (seed, unit name, client) before the client starts, the raw files
before the numbers, the numbers before anything is removed from the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleetbench.bench import client as clients
from fleetbench.bench_command import bench_command
from fleetbench.errors import FleetbenchError, HostRebooted, NotReady, Unreadable, UsageError, one_line
from fleetbench.model import Host, Workload
from fleetbench.results.parse import parse
from fleetbench.results.rows import MeasurementKind, MeasurementRow
from fleetbench.results.store import Store
from fleetbench.results.values import Block
from fleetbench.results.verdict import judge
from fleetbench.transport.durable import DurableSession

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the client talks to: where, which model under which name, and whose tokenizer."""

    host: Host
    address: str
    port: int
    model: str
    served_name: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One measurement that is wanted."""

    run_id: str
    trial: int
    workload_index: int
    workload: Workload
    repeat: int
    kind: MeasurementKind
    seed: int
    limit_s: float


def measure(
    store: Store,
    task: Task,
    server: Server,
    client: Host,
    session: DurableSession,
    *,
    credential: str = "",
    again: bool = False,
    said: Callable[[str], None] = lambda _: None,
    alive: Callable[[], None] = lambda: None,
    passing: Callable[[str], None] = lambda _: None,
    counted: Callable[[clients.Count], None] = lambda _: None,
    ended: Callable[[], None] = lambda: None,
) -> MeasurementRow:
    """Run (or find again) one execution of the bench client and return its finished row.

    With `again` one that is finished is run once more: a warm-up, when the server is another one by now.
    `session` leads to the client host. A client that vanished with a reboot is started once more, and the
    row counts the attempt. `passing` gets lines of no interest later, `counted` how far the client is; it is
    told `ended` before what it left is fetched.
    """
    row = _record(store, task, client, again=False)
    if again and row.finished:
        row = _record(store, task, client, again=True)
    while True:
        if row.finished:
            return row
        made = _client(store, row, task, server, client, session, credential)
        state = clients.start(session, made)
        passing(f"{_name(task)}: {state.value}")
        if state in (clients.State.STARTED, clients.State.RUNNING):
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
                _keep(store, row, made, clients.fetch(session, made))
                clients.clear(session, made)
                if isinstance(exc, HostRebooted):
                    _record(store, task, client, again=True)
                raise
        if state is clients.State.LOST and row.attempt < _ATTEMPTS:
            alive()  # the server may have gone with the same reboot
            said(f"{_name(task)}: the client host was rebooted; measuring again")
            clients.clear(session, made)
            row = _record(store, task, client, again=True)
            continue
        ended()
        left = clients.fetch(session, made)
        _keep(store, row, made, left)
        finished = _judge(store, task, row, left)
        clients.clear(session, made)
        return finished


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


def read_blocks(content: Mapping[str, bytes], source: str) -> tuple[Block | None, tuple[str, ...]]:
    """Given what a client left, return the block to trust (JSON first, then text) and what was unreadable."""
    reasons: list[str] = []
    for name in (clients.RESULT, "stdout"):
        if name not in content:
            reasons.append(f"no {name}")
            continue
        try:
            blocks = parse(content[name].decode("utf-8", "replace"), f"{source}/{name}")
        except Unreadable as exc:
            reasons.append(f"{name}: {exc.what}")
            continue
        if blocks:
            return blocks[-1], tuple(reasons)
    return None, tuple(reasons)


def _client(
    store: Store,
    row: MeasurementRow,
    task: Task,
    server: Server,
    client: Host,
    session: DurableSession,
    credential: str,
) -> clients.Client:
    directory = _directory(client, row)
    workload = _with_prompts(task.workload, session, directory)
    command = bench_command(
        version=client.build.version,
        executable=(f"{client.venv}/bin/vllm",),
        model=server.model,
        served_name=server.served_name,
        tokenizer="",
        host=server.address,
        port=server.port,
        workload=workload,
        seed=row.seed,
        result_dir=f"{directory}/out",
        result_filename=clients.RESULT,
    )
    environment = {
        "HOME": client.prefix,
        "PATH": f"{client.venv}/bin:/usr/bin:/bin",
        "HF_HOME": f"{client.prefix}/models/huggingface",
        "VLLM_NO_USAGE_STATS": "1",
        "no_proxy": server.address,
    } | dict(client.env)
    return clients.Client(
        unit=row.unit_name,
        directory=directory,
        user=client.user,
        command=command,
        environment=environment,
        credential=credential,
        limit_s=task.limit_s,
    )


def _with_prompts(workload: Workload, session: DurableSession, directory: str) -> Workload:
    """Copy a prompts file to the client host and return the workload that names it there."""
    if not workload.prompts:
        return workload

    local = Path(workload.prompts)
    try:
        content = local.read_bytes()
    except OSError as exc:
        raise UsageError(f"cannot read the prompts file {local}", cause=exc.strerror or str(exc)) from exc
    remote = f"{directory}/prompts{local.suffix}"
    clients.own_place(session, directory)
    session.put(content, remote)
    return replace(workload, prompts=remote)


def _record(store: Store, task: Task, client: Host, *, again: bool) -> MeasurementRow:
    mark = {MeasurementKind.WARMUP: "w", MeasurementKind.MEASURE: "r"}[task.kind]
    place = f"t{task.trial}-l{task.workload_index}-{mark}{task.repeat}"
    suffix = f"-again-{os.urandom(2).hex()}" if again else ""
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


def _keep(store: Store, row: MeasurementRow, made: clients.Client, left: clients.Left) -> None:
    """Write the raw files below the run's directory, each whole or not at all."""
    directory = store.directory(row.run_id) / row.directory
    described = {
        "unit": made.unit,
        "command": shlex.join(made.command),
        "environment": dict(made.environment),
        "exit_status": left.exit_status,
        "systemd_result": left.result,
        "seed": row.seed,
        "client": row.client,
        "attempt": row.attempt,
        "fetched_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    keep_files(directory, dict(left.content) | {"client.json": json.dumps(described, indent=2).encode()})


def keep_files(directory: Path, content: Mapping[str, bytes]) -> None:
    """Write files into a directory of the run, atomically; FleetbenchError when there is no room or right."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in content.items():
            temporary = directory / f".{name}.part"
            temporary.write_bytes(data)
            temporary.replace(directory / name)
    except OSError as exc:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise FleetbenchError(
            f"cannot keep the raw files in {directory}",
            cause=exc.strerror or str(exc),
            next_step="make room or mend the rights, then resume the run: nothing on the host is lost",
        ) from exc


def _judge(store: Store, task: Task, row: MeasurementRow, left: clients.Left) -> MeasurementRow:
    block, unread = read_blocks(left.content, row.directory)
    judgement = judge(
        block.result if block else None,
        task.workload,
        complete=block.complete if block else True,
        problems=block.problems if block else unread,
        exit_status=left.exit_status,
    )
    reasons = list(judgement.reasons)
    if left.result != "timeout" and block is None:
        reasons += [*unread, *_last_words(left)]
    if left.result == "timeout":
        reasons.insert(0, f"the client ran into its limit of {task.limit_s:g} s and was killed")
    return store.finish_measurement(
        task.run_id,
        task.trial,
        task.workload_index,
        task.repeat,
        task.kind,
        result=block.result if block else None,
        verdict=judgement.verdict,
        reasons=reasons,
        exit_status=left.exit_status,
    )


def _last_words(left: clients.Left) -> tuple[str, ...]:
    """Return what the client said last, and how its unit ended when it could not say its status."""
    said = re.split(r"[\r\n]+", left.content.get("stderr", b"").decode("utf-8", "replace").strip())
    words = (f"its last words: {one_line(said[-1], 200)}",) if said[-1] else ()
    return words if left.exit_status is not None else (*words, f"systemd calls its end {left.result!r}")


def _name(task: Task) -> str:
    what = "warm-up" if task.kind is MeasurementKind.WARMUP else f"repeat {task.repeat}"
    return f"trial {task.trial} {task.workload.label} {what}"
