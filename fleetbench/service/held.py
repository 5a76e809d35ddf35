"""What stands in the way of a start: somebody on the GPUs, memory not free yet, a taken port. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.model import Failure, GpuSet

PORT_TAKEN = "port-taken"
GPU_HELD = "gpu-held-by-a-foreign-process"
MEMORY_NOT_FREE = "gpu-memory-not-free"
# None of these says anything about what was to be started.
NOT_ITS_OWN = (PORT_TAKEN, GPU_HELD, MEMORY_NOT_FREE)

# Memory that a driver and its contexts may hold on an idle GPU (a display, persistence mode, MPS).
IDLE_MIB = 1024
# Above a known baseline: noise of the driver, and less than the context of one leftover process.
BASELINE_NOISE_MIB = 256

_CAUSES: Mapping[str, tuple[str, str]] = {
    PORT_TAKEN: ("The port is taken by a foreign process", "end that process, or choose another port"),
    GPU_HELD: ("GPU held by a foreign process", "end that process, or choose other GPUs"),
    MEMORY_NOT_FREE: (
        "GPU memory did not come back to what it was when the GPU was idle",
        "nvidia-smi on the host; a process that the driver does not show, or a GPU that needs a reset",
    ),
}


@dataclass(frozen=True, slots=True)
class Held:
    """An obstacle: its kind, and a sentence that names GPU or port, pid, program and unit."""

    kind: str
    sentence: str

    def failure(self) -> Failure:
        """Return it as the failure of a start; it may go away by itself, so it is worth another try."""
        cause, advice = _CAUSES[self.kind]
        return Failure(kind=self.kind, cause=cause, evidence=self.sentence, advice=advice, retryable=True)


def obstacle(
    facts: HostFacts, gpus: GpuSet, baseline_mib: Mapping[int, int], port: int | None = None
) -> Held | None:
    """Given facts, return what is in the way of a server on these GPUs and this port; None: nothing.

    `baseline_mib` is what each GPU holds when it is idle; where it is not known, IDLE_MIB is allowed.
    """
    owner = port_owner(facts, port) if port is not None else ""
    if owner:
        return Held(PORT_TAKEN, owner)
    for gpu in () if isinstance(facts.gpus, Missing) else facts.gpus:
        if gpu.index not in gpus.indices:
            continue
        for process in gpu.processes:
            unit = f"unit {process.unit}" if process.unit else "no unit"
            size = f", {process.used_mib} MiB" if process.used_mib is not None else ""
            by = f"pid {process.pid} ({process.name}, {unit}{size})"
            return Held(GPU_HELD, f"GPU {gpu.index} is held by {by}")
        idle = baseline_mib.get(gpu.index)
        limit = IDLE_MIB if idle is None else idle + BASELINE_NOISE_MIB
        if gpu.used_mib is not None and gpu.used_mib > limit:
            was = "" if idle is None else f" ({idle} MiB when idle)"
            return Held(
                MEMORY_NOT_FREE,
                f"GPU {gpu.index} still has {gpu.used_mib} MiB in use{was} and no process to show for it",
            )
    return None


def port_owner(facts: HostFacts, port: int) -> str:
    """Given facts, say who listens on a port; empty when nobody does."""
    for listener in () if isinstance(facts.listeners, Missing) else facts.listeners:
        if listener.port == port:
            owner = listener.unit or listener.process or "an unknown process"
            return f"port {port} is held by {owner} (pid {listener.pid})"
    return ""
