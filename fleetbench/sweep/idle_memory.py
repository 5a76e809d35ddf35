"""How much memory each GPU of a host holds when it is idle: what it has to come back to between trials."""

from __future__ import annotations

from collections.abc import Mapping

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.service.held import IDLE_MIB


class IdleMemory:
    """The least memory (MiB) seen in use on each GPU while no process was on it.

    Learned from every reading: when production has left its GPUs, and whenever they are free again.
    """

    def __init__(self) -> None:
        self._lowest: dict[int, int] = {}

    def note(self, facts: HostFacts) -> None:
        """Learn from a reading.

        A GPU with a process on it is not idle, and neither is one whose memory is full of what the driver
        does not show (a process in a container).
        """
        for gpu in () if isinstance(facts.gpus, Missing) else facts.gpus:
            if gpu.used_mib is not None and gpu.used_mib <= IDLE_MIB and not gpu.processes:
                self._lowest[gpu.index] = min(gpu.used_mib, self._lowest.get(gpu.index, gpu.used_mib))

    @property
    def lowest(self) -> Mapping[int, int]:
        """By GPU index; a GPU that was never seen idle is not in it."""
        return dict(self._lowest)
