"""What of a unit decides how fast it is, and the hash over it that trial and service have in common. Pure.

A unit's own hash covers the whole text, so the persistent service never has that of the sweep's unit: it has
another name, port and place, and it is restarted. None of these makes a token faster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from fleetbench.errors import without_secrets
from fleetbench.model import ServiceSpec
from fleetbench.units import serve_arguments

# Words of a command line before what decides: program, serve, model, --host, its value, --port, its value.
_HEAD = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What decides how fast servers are.

    Attributes:
        build: name of the venv, that is package and version.
        arguments: model and everything else behind `vllm serve`, without where it listens and its name.
        environment: what inventory and GPUs add to what every unit has; paths and indices are no part of it.
        gpus: of one server. servers: how many there are side by side.
        gpu_name: what the GPUs are called; empty: there are none, or nobody knows.
    """

    build: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: int
    servers: int = 1
    gpu_name: str = ""

    @property
    def hash(self) -> str:
        """The 12-digit hash that tells two apart."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def measured_of(servers: Sequence[ServiceSpec], gpu_name: str) -> Measured:
    """Given the alike servers of a trial or a service and their kind of GPU, return what decides."""
    first = servers[0]
    return Measured(
        build=first.build,
        arguments=(first.model, *serve_arguments(replace(first, served_name=""))[_HEAD:]),
        environment=dict(first.env),
        gpus=len(first.gpus.indices),
        servers=len(servers),
        gpu_name=gpu_name,
    )


def differences(measured: Measured, wanted: Measured) -> tuple[str, ...]:
    """Return each thing that decides and is not as it was measured, in a few words; empty: they are equal."""
    return tuple(map(without_secrets, _differences(measured, wanted)))


def _differences(measured: Measured, wanted: Measured) -> Iterator[str]:
    if measured.build != wanted.build:
        yield f"build {wanted.build}, measured with {measured.build}"
    if measured.arguments != wanted.arguments:
        yield f"arguments {' '.join(wanted.arguments)}, measured with {' '.join(measured.arguments)}"
    for name in sorted({*measured.environment, *wanted.environment}):
        before, now = (each.environment.get(name) for each in (measured, wanted))
        if before != now:
            said = [f"{name} unset" if value is None else f"{name}={value}" for value in (now, before)]
            yield f"{said[0]}, measured with {said[1]}"
    if (measured.gpus, measured.servers) != (wanted.gpus, wanted.servers):
        yield f"{wanted.servers} x {wanted.gpus} GPUs, measured on {measured.servers} x {measured.gpus}"
    if measured.gpu_name != wanted.gpu_name:
        yield f"{wanted.gpu_name or 'no GPU'}, measured on {measured.gpu_name or 'an unknown kind of GPU'}"
