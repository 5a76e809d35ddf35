"""One persistent service on one host: refuse what cannot work, show the change, make it, prove it serves.

A deploy either ends with a server that answered a completion, or leaves the host as it found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fleetbench.accelerators import arch_env
from fleetbench.errors import CommandFailed, FleetbenchError
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.model import Config, GpuSet, Host, Model, ServiceSpec
from fleetbench.operations import systemd
from fleetbench.operations.credentials import HF_TOKEN_PATH
from fleetbench.operations.firewall import port_open
from fleetbench.preflight import units_of
from fleetbench.service import lifecycle
from fleetbench.service.watch import Watch
from fleetbench.steps import Operation, Outcome, Step, fold
from fleetbench.transport.durable import DurableSession

CREDENTIAL = HF_TOKEN_PATH

# Text and state of the unit that a deploy replaces; None where there is none.
Before = tuple[str | None, Unit | None]


class Placed(Protocol):
    """What has a unit file of its own: a service, or something else on a port."""

    @property
    def unit(self) -> str:
        """Full unit name."""
        ...

    @property
    def unit_path(self) -> str:
        """Where its file is."""
        ...

    @property
    def port(self) -> int:
        """Where it listens."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an operator asks for."""

    model: Model
    port: int
    gpus: GpuSet
    config: Config
    bind: str = "0.0.0.0"  # noqa: S104  the source serves the network; firewalld stays closed by default
    served_name: str = ""
    open_firewall: bool = False
    ready_timeout_s: float = 1800


def service_spec(host: Host, wish: Wish, facts: HostFacts, *, persistent: bool = True) -> ServiceSpec:
    """Return the spec of the unit for a wish on a host. Sweep units run from the venv, not from its link."""
    config = wish.config
    if config.max_model_len is None and wish.model.max_model_len is not None:
        config = replace(config, max_model_len=wish.model.max_model_len)
    return ServiceSpec(
        name=f"vllm-{wish.port}" if persistent else f"vllm-sweep-{wish.port}",
        model=wish.model.repo,
        port=wish.port,
        gpus=wish.gpus,
        config=config,
        user=host.user,
        prefix=host.prefix,
        venv=host.venv_link if persistent else host.venv,
        build=host.build.venv_name,
        device=host.build.device,
        served_name=wish.served_name,
        bind=wish.bind,
        serve_args=wish.model.serve_args,
        env=dict(arch_env(host.build, facts, host.arch_list)) | dict(host.env) | dict(wish.model.env),
        credential=CREDENTIAL in facts.files and bool(facts.files[CREDENTIAL].sha256),
        persistent=persistent,
    )


def plan(spec: ServiceSpec, facts: HostFacts, *, open_firewall: bool = False) -> Outcome:
    """Return the steps that install the unit (and open its port), and the facts after them."""
    return fold(facts, operations(spec, open_firewall=open_firewall))


def operations(spec: ServiceSpec, *, open_firewall: bool = False) -> list[Operation]:
    """Return the operations that a deployed service stands for."""
    want = systemd.UnitFile.of(spec)
    wanted: list[Operation] = [systemd.installed(want), systemd.enabled(want)]
    if open_firewall:
        wanted.append(port_open(spec.port))
    return wanted


def must_restart(spec: ServiceSpec, facts: HostFacts) -> str:
    """Say why the running server is not the wanted one; empty when it is."""
    unit = units_of(facts).get(spec.unit)
    if unit is None or not unit.running:
        return "is not running"
    if unit.running_spec != systemd.UnitFile.of(spec).spec:
        return f"runs spec {unit.running_spec or 'unknown'}"
    return ""


def previous(spec: Placed, facts: HostFacts) -> Before:
    """Return the text and state of the unit that the deploy replaces; None where there is none."""
    file = facts.files.get(spec.unit_path)
    text = file.text if file is not None and file.sha256 else None
    return text, units_of(facts).get(spec.unit)


def bring_up(
    session: DurableSession,
    spec: ServiceSpec,
    *,
    timeout_s: float,
    said: Callable[[str], None],
    phase_of: Callable[[str], str] = lambda _: "",
) -> lifecycle.Ready:
    """Restart the unit and wait until it serves."""
    lifecycle.stop(session, spec.unit, said=said)
    invocation = lifecycle.start(session, spec.unit)
    return lifecycle.wait_ready(
        session,
        lifecycle.Target.of(spec),
        invocation=invocation,
        timeout_s=timeout_s,
        said=said,
        phase_of=phase_of,
    )


def undo(
    session: DurableSession,
    spec: Placed,
    before: Before,
    *,
    said: Callable[[str], None],
) -> str:
    """Put the unit back as it was before a deploy that failed; return what was done, in a few words.

    A service that still runs as it did before is left alone: not every failure comes after a change.
    """
    text, unit = before
    now = lifecycle.look(session, spec.unit, spec.port, lines=0)
    untouched = runs_on(now, unit)
    if untouched and text is not None and _holds(session, spec.unit_path, text):
        return "the service runs on as before"
    if not untouched:
        lifecycle.stop(session, spec.unit, said=said)
    if text is None and now.load == "not-found":
        return "nothing was changed"
    if text is None:
        session.change(("systemctl", "disable", spec.unit), step=f"disable {spec.unit}")
        session.change(("rm", "-f", "--", spec.unit_path), step=f"remove {spec.unit_path}")
        session.read(("systemctl", "daemon-reload"))
        session.read(("systemctl", "reset-failed", spec.unit))
        return "the new unit was removed again; its journal is kept"
    session.put(text.encode(), spec.unit_path, step=f"put {spec.unit_path} back")
    session.read(("systemctl", "daemon-reload"))
    session.read(("systemctl", "reset-failed", spec.unit))
    if unit is not None and unit.enabled != "enabled":
        session.change(("systemctl", "disable", spec.unit), step=f"disable {spec.unit}")
    elif unit is not None and now.load == "not-found":  # it was to be removed
        session.change(("systemctl", "enable", spec.unit), step=f"enable {spec.unit}")
    if untouched:
        return "the previous unit was put back, its service runs on"
    if unit is not None and unit.running:
        lifecycle.start(session, spec.unit)
        return "the previous unit was put back and started"
    return "the previous unit was put back"


def runs_on(now: Watch, before: Unit | None) -> bool:
    """Tell whether a unit is the very start that it was before."""
    was = before.invocation or "none" if before is not None and before.running else ""
    return bool(was) and not now.dead and now.invocation == was


def _holds(session: DurableSession, path: str, text: str) -> bool:
    try:
        return session.get(path) == text.encode()
    except CommandFailed:
        return False


def failed(exc: FleetbenchError, what_was_undone: str) -> FleetbenchError:
    """Say in the error what was undone, without hiding the cause."""
    exc.what = f"{exc.what} ({what_was_undone})"
    return exc


def summary(steps: Sequence[Step]) -> str:
    """Return the steps as lines `summary (reason)`."""
    return "\n".join(f"{step.summary} ({step.reason})" for step in steps)
