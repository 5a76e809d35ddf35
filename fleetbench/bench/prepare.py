"""Ready a client's host for a trial: find its Rust client, have its Python client imported ahead.

Imports take seconds to half a minute, and each execution would take them anew. They are begun before the
server is started, so that they are over when it is ready, and made once for all executions. Nothing depends
on it: an execution that is not taken over starts its client by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fleetbench.bench.client import abandon, script
from fleetbench.bench_command import bench_command
from fleetbench.bench_program import SWITCH, Choice, Program, RustClient, choose, rust_client
from fleetbench.errors import CommandFailed
from fleetbench.model import Host, Workload
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession
from fleetbench.vllm_features import feature_table, parse_version

LIFETIME_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What a client's host has: the Rust client, and the directory of the preloaded client's socket."""

    rust: RustClient | None = None
    preloaded: str = ""


@dataclass(frozen=True, slots=True)
class Preload:
    """The unit that imports the client on `client`'s host for a run's trials on the host called `server`."""

    run_id: str
    server: str
    client: Host

    @property
    def unit(self) -> str:
        """Unit name without `.service`."""
        return f"fleetbench-preload-{self.run_id}-{self.server}"

    @property
    def directory(self) -> str:
        """On the client's host: root's, with the program in it."""
        return f"{self.client.prefix}/runs/{self.unit}"

    @property
    def place(self) -> str:
        """Name below /run of the socket's directory: the whole path has to fit into 108 bytes."""
        return f"fleetbench-preload-{hashlib.sha256(self.unit.encode()).hexdigest()[:12]}"


def prepare(
    session: DurableSession,
    preload: Preload,
    workloads: Sequence[Workload],
    *,
    credential: str,
    limit_s: float,
    idle_s: float,
    said: Callable[[str], None],
) -> Programs:
    """Begin the imports where the Python client will measure; return what there is to measure with.

    `session` leads to the client's host. `limit_s` is the most that one execution takes, `idle_s` the most
    that can pass between two: after that the imported client ends by itself, whoever forgot it.
    NotPossible or UsageError when a workload cannot be measured there.
    """
    client = preload.client
    rust = find_rust(session, client) if any(w.client_program != Program.PYTHON for w in workloads) else None
    choices = dict.fromkeys(_choice(client, workload, rust) for workload in workloads)
    if rust is not None:
        for choice in choices:
            said(f"the {choice.program} client measures{f': {choice.why}' if choice.why else ''}")
    if all(choice.program is Program.RUST for choice in choices):
        return Programs(rust=rust)
    started = session.read(
        bash(
            script("place.sh") + script("as_client.sh") + script("preload.sh"),
            preload.unit,
            preload.directory,
            client.user,
            credential,
            preload.place,
            f"{idle_s:.0f}",
            str(LIFETIME_S),
            f"{limit_s:.0f}",
            f"{client.venv}/bin/python",
            executable(client),
            script("on_client/preloaded.py"),
            *(f"{name}={value}" for name, value in environment(client).items()),
        ),
        timeout_s=60,
    )
    if not started.ok:
        said(f"the bench client is not imported ahead: {started.last_line}")
        return Programs(rust=rust)
    return Programs(rust=rust, preloaded=f"/run/{preload.place}")


def dismiss(session: DurableSession, preload: Preload) -> None:
    """End the unit with everything in it, and remove its directory."""
    abandon(session, preload.unit, preload.directory)


def find_rust(session: DurableSession, client: Host) -> RustClient | None:
    """Return the Rust client of the host's venv; None when there is none."""
    if feature_table().behaviour("bench_rust_client", parse_version(client.build.version)) != "yes":
        return None
    try:
        answer = session.read(bash(script("rust.sh"), client.venv, client.user), timeout_s=30)
    except CommandFailed:
        return None  # it does not answer: it would not measure either
    path, _, text = answer.stdout.partition("\n")
    return rust_client(path, text)


def environment(client: Host) -> Mapping[str, str]:
    """Return the environment of every execution on a host, but for what concerns one server."""
    own = {
        "HOME": client.prefix,
        "PATH": f"{client.venv}/bin:/usr/bin:/bin",
        "HF_HOME": f"{client.prefix}/models/huggingface",
        "VLLM_NO_USAGE_STATS": "1",
    } | dict(client.env)
    return {name: value for name, value in own.items() if name != SWITCH}


def executable(client: Host) -> str:
    """Return the path of a host's `vllm`."""
    return f"{client.venv}/bin/vllm"


def _choice(client: Host, workload: Workload, rust: RustClient | None) -> Choice:
    command = bench_command(
        version=client.build.version,
        executable=(executable(client),),
        model="any",
        served_name="",
        tokenizer="",
        host="127.0.0.1",
        port=1,
        workload=workload,
        seed=0,
        result_dir="/",
        result_filename="any",
    )
    return choose(workload, command, client.build.version, rust)
