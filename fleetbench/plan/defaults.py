"""vLLM's defaults and its use of GPU memory by version, from `data/memory.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fleetbench.vllm_features import Version, parse_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tokens that one step works on at most, and sequences that one engine runs at a time."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTable:
    """The whole file; the meaning of each number is said there. Memory in GiB."""

    utilisation: tuple[tuple[Version, float], ...]
    large_from_gib: float
    never_large: tuple[str, ...]
    large: Batch
    small: Batch
    windows_counted_since: Version
    graphs_counted_since: Version
    graphs_counted_since_v2: Version
    graphs_gib: float
    runner_v2_dense_since: Version
    sampler_copies: float
    sampler_copies_v2: float
    process_gib: float
    doubling_gib: float
    moe_chunk_tokens: int
    band: float

    def share(self, version: Version) -> float:
        """Return the default of --gpu-memory-utilization."""
        return [value for since, value in self.utilisation if since <= version][-1]

    def batch(self, gpu: str, visible_gib: float) -> Batch:
        """Return the defaults for a GPU, by its name and the memory that torch sees."""
        small = visible_gib < self.large_from_gib or any(word in gpu.lower() for word in self.never_large)
        return self.small if small else self.large

    def runner_v2(self, version: Version, *, moe: bool) -> bool:
        """True when a model of this kind runs on vLLM's second model runner by default."""
        return not moe and version >= self.runner_v2_dense_since

    def graphs_counted(self, version: Version, *, moe: bool) -> bool:
        """True when CUDA graphs are part of the budget; else they come out of what it leaves."""
        if self.runner_v2(version, moe=moe):
            return version >= self.graphs_counted_since_v2
        return version >= self.graphs_counted_since


@cache
def memory_table() -> MemoryTable:
    """Return the table that comes with this package."""
    data = tomllib.loads((resources.files("fleetbench") / "data" / "memory.toml").read_text("utf-8"))
    graphs, overhead, batch = data["graphs"], data["overhead"], data["batch"]
    return MemoryTable(
        utilisation=tuple((parse_version(row["since"]), row["value"]) for row in data["utilisation"]),
        large_from_gib=batch["large_from_gib"],
        never_large=tuple(batch["never_large"]),
        large=_batch(batch["large"]),
        small=_batch(batch["small"]),
        windows_counted_since=parse_version(data["kv_tokens"]["windows_counted_since"]),
        graphs_counted_since=parse_version(graphs["counted_since"]),
        graphs_counted_since_v2=parse_version(graphs["counted_since_v2"]),
        graphs_gib=graphs["gib"],
        runner_v2_dense_since=parse_version(data["runner_v2"]["dense_since"]),
        sampler_copies=overhead["sampler_copies"],
        sampler_copies_v2=overhead["sampler_copies_v2"],
        process_gib=overhead["process_gib"],
        doubling_gib=overhead["doubling_gib"],
        moe_chunk_tokens=overhead["moe_chunk_tokens"],
        band=data["band"]["share"],
    )


def _batch(row: Mapping[str, int]) -> Batch:
    return Batch(tokens=row["tokens"], sequences=row["sequences"])
