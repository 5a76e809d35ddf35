"""One persistent service on one host: refuse what cannot work, show the change, make it, prove it serves.

A deploy either ends with a server that answered a completion, or leaves the host as it found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fleetbench.accelerators import arch_env
from fleetbench.facts.values import HostFacts
from fleetbench.model import Config, GpuSet, Host, Model, ServiceSpec
from fleetbench.operations import systemd
from fleetbench.operations.credentials import HF_TOKEN_PATH
from fleetbench.operations.firewall import port_open
from fleetbench.preflight import units_of
from fleetbench.rollback.stand import Spot, standing
from fleetbench.service import lifecycle
from fleetbench.steps import Operation, Outcome, Step, fold
from fleetbench.transport.durable import DurableSession

CREDENTIAL = HF_TOKEN_PATH


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


def spot_of(host: Host, spec: ServiceSpec, facts: HostFacts) -> Spot:
    """Return what the unit of a service is now; NotPossible where it could not be put back as it is."""
    before = standing(host, spec.unit, facts)
    return Spot(unit=spec.unit, unit_path=spec.unit_path, port=spec.port, before=before)


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


def summary(steps: Sequence[Step]) -> str:
    """Return the steps as lines `summary (reason)`."""
    return "\n".join(f"{step.summary} ({step.reason})" for step in steps)
