"""Does a configuration fit into the GPUs' memory, and how much is left for the KV cache: an estimate.

    KV cache = utilisation × memory − weights − peak of one step − process and NCCL − CUDA graphs

Weights are counted (`weights`), the rest is fitted to real starts (`data/memory.toml` says to which). The
estimate decides nothing within 10 % of the limit: that is `tight`, and is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fleetbench.model import Config
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.arguments import ServeArguments
from fleetbench.plan.defaults import Batch, MemoryTable, memory_table
from fleetbench.plan.reason import Effect, Reason, remark
from fleetbench.plan.weights import GIB, count, largest_stage, share
from fleetbench.vllm_features import Version

# The KV cache is handed out in blocks of that many tokens.
_BLOCK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The GPU that an engine runs on: name, and the memory that torch sees, which is what vLLM divides."""

    name: str
    visible_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one GPU of an engine is used for, in GiB; KV tokens and sequences are of one engine.

    Attributes:
        headroom_gib: what the budget leaves of the GPU.
        experts_gib: the part of `weights_gib` that are experts.
        graphs_counted: whether CUDA graphs are part of the budget, or come out of the headroom.
        kv_gib: what is left for the KV cache; negative when nothing is.
        kv_bytes_per_token: all cached layers; `needed_kv_gib` is for one request of the whole context.
        kv_tokens: as the server's log will state them.
        sequences: requests of `request_tokens` at a time, at most the engine's own limit.
    """

    budget_gib: float
    headroom_gib: float
    weights_gib: float
    experts_gib: float
    step_gib: float
    process_gib: float
    graphs_gib: float
    graphs_counted: bool
    kv_gib: float
    kv_bytes_per_token: int
    needed_kv_gib: float
    kv_tokens: int
    request_tokens: int
    sequences: int
    batch: Batch
    reasons: tuple[Reason, ...] = ()

    @property
    def overhead_gib(self) -> float:
        """All that is neither weights nor KV cache, of the budget."""
        return self.step_gib + self.process_gib + (self.graphs_gib if self.graphs_counted else 0.0)

    @property
    def needed_gib(self) -> float:
        """What a server needs to start: weights, overhead, and one request of the whole context."""
        return self.weights_gib + self.overhead_gib + self.needed_kv_gib


def estimate(
    architecture: Architecture,
    config: Config,
    device: Device,
    version: Version,
    arguments: ServeArguments,
    *,
    request_tokens: int,
    overhead_gib: float | None = None,
) -> Estimate:
    """Return the estimate for one GPU, the fullest of an engine.

    `request_tokens` is the length of a request when it ends. `overhead_gib` is what an earlier start of this
    model on this kind of GPU was seen to need (`overhead_of`); it replaces the fitted parts.
    """
    table = memory_table()
    moe = architecture.experts is not None
    utilisation = arguments.utilisation or table.share(version)
    # vLLM rounds the bytes up.
    budget = math.ceil(device.visible_gib * GIB * utilisation) / GIB
    batch = _batch(table, device, arguments)
    weights = share(count(architecture, arguments.dtype), architecture, config)
    step = _step(table, architecture, config, batch, table.runner_v2(version, moe=moe))
    process = table.process_gib + table.doubling_gib * math.log2(config.tp * config.pp * config.dp)
    graphs = 0.0 if arguments.eager else table.graphs_gib
    counted = table.graphs_counted(version, moe=moe)
    if overhead_gib is not None:
        step, process, graphs = overhead_gib, 0.0, 0.0 if counted else graphs
    kv = budget - weights.total / GIB - step - process - (graphs if counted else 0.0)
    if arguments.kv_cache_bytes is not None:  # then the share of the GPU does not count
        budget, kv = device.visible_gib, arguments.kv_cache_bytes / GIB
    token = kv_bytes_per_token(architecture, config, arguments)
    length = config.max_model_len or architecture.max_positions
    of_request = kv_bytes(architecture, config, arguments, min(request_tokens, length), 0)
    needed = kv_bytes(architecture, config, arguments, length, batch.tokens)
    each = needed / length if version >= table.windows_counted_since else token
    found = Estimate(
        budget_gib=budget,
        headroom_gib=device.visible_gib - budget,
        weights_gib=weights.total / GIB,
        experts_gib=weights.experts / GIB,
        step_gib=step,
        process_gib=process,
        graphs_gib=graphs,
        graphs_counted=counted,
        kv_gib=kv,
        kv_bytes_per_token=token,
        needed_kv_gib=needed / GIB,
        kv_tokens=max(0, int(kv * GIB / each) // _BLOCK * _BLOCK),
        request_tokens=min(request_tokens, length),
        sequences=max(0, min(int(kv * GIB / of_request), batch.sequences)),
        batch=batch,
    )
    return _judged(found, length, table.band)


def kv_bytes_per_token(architecture: Architecture, config: Config, arguments: ServeArguments) -> int:
    """Return the bytes that one token takes on the fullest GPU, when no layer forgets."""
    layers = largest_stage(architecture.cached_layers or architecture.layers, config.pp)
    return max(1, layers * kv_layer_bytes(architecture, config, arguments))


def kv_bytes(
    architecture: Architecture, config: Config, arguments: ServeArguments, tokens: int, at_once: int
) -> int:
    """Return the bytes that a request of `tokens` takes; layers with a sliding window keep its tokens only,
    and those of the step that is being computed (`at_once`)."""
    cached = architecture.cached_layers or architecture.layers
    sliding = architecture.sliding_layers if architecture.window is not None else 0
    kept = min(tokens, (architecture.window or tokens) + at_once)
    part = largest_stage(cached, config.pp) / cached
    whole = (cached - sliding) * tokens + sliding * kept
    return max(1, int(part * whole * kv_layer_bytes(architecture, config, arguments)))


def overhead_of(budget_gib: float, weights_gib: float, kv_gib: float) -> float:
    """Return what a real start needed beside weights and KV cache, from the figures in its log."""
    return budget_gib - weights_gib - kv_gib


def kv_layer_bytes(architecture: Architecture, config: Config, arguments: ServeArguments) -> int:
    """Return the bytes of one token's keys and values in one layer, on one of the GPUs that share it."""
    size = 1 if arguments.kv_cache_dtype.startswith(("fp8", "int8", "nvfp4")) else 2
    if architecture.dtype == "float32" and not (arguments.dtype or arguments.kv_cache_dtype):
        size = 2  # vLLM's dtype "auto" makes 16 bit of 32
    if arguments.dtype in ("float32", "float") and not arguments.kv_cache_dtype:
        size = 4
    latent = architecture.latent
    if latent is not None:
        return (latent.kv_rank + latent.rope_dim) * size
    return 2 * max(1, architecture.kv_heads // config.tp) * architecture.head_dim * size


def _batch(table: MemoryTable, device: Device, arguments: ServeArguments) -> Batch:
    usual = table.batch(device.name, device.visible_gib)
    return Batch(
        tokens=arguments.batched_tokens or usual.tokens, sequences=arguments.sequences or usual.sequences
    )


def _step(table: MemoryTable, architecture: Architecture, config: Config, batch: Batch, v2: bool) -> float:
    """GiB at the peak of the largest step: the widest layer of the model, or the sampler after it."""
    hidden, tokens = architecture.hidden, batch.tokens
    width = 3 * architecture.intermediate // config.tp if architecture.dense_layers else 0
    forward = tokens * (width + 3 * hidden) * 2
    experts = architecture.experts
    if experts is not None:
        ranks = 1 if config.ep else config.tp * config.dp
        # Data parallel ranks gather their tokens before the experts.
        gathered = tokens * config.dp
        rows = min(gathered, table.moe_chunk_tokens) * experts.per_token
        inner = experts.intermediate // ranks
        routed = rows * (max(2 * inner, hidden) + inner) + 2 * gathered * hidden
        forward = max(forward, routed * 2 + tokens * 3 * hidden * 2)
    copies = table.sampler_copies_v2 if v2 else table.sampler_copies
    sampler = min(batch.sequences, tokens) * architecture.vocabulary * 4 * copies
    return max(forward, sampler) / GIB


def _judged(found: Estimate, length: int, band: float) -> Estimate:
    """Return the estimate with the reasons that its numbers give."""
    used = found.needed_gib / found.budget_gib
    sentence = (
        f"{found.weights_gib:.1f} GiB weights + {found.overhead_gib:.1f} overhead"
        f" + {found.needed_kv_gib:.1f} for one request of {length} tokens"
        f" = {found.needed_gib:.1f} of {found.budget_gib:.1f} GiB"
    )
    reasons: list[Reason] = []
    if 0 <= found.kv_gib < found.needed_kv_gib and used <= 1:  # only --kv-cache-memory-bytes does that
        text = f"{found.kv_gib:.1f} GiB given, one request of {length} tokens takes {found.needed_kv_gib:.1f}"
        reasons.append(Reason("kv cache", Effect.CANNOT, text))
    elif found.weights_gib > found.budget_gib * (1 + band):
        text = f"{found.weights_gib:.1f} GiB on each GPU do not go into {found.budget_gib:.1f} GiB"
        reasons.append(Reason("weights", Effect.CANNOT, text))
    elif used > 1 + band:
        reasons.append(Reason("memory", Effect.CANNOT, sentence))
    elif used > 1 / (1 + band):
        reasons.append(
            Reason("memory", Effect.DOUBT, f"{sentence} ({used:.0%}: within the estimate's ±{band:.0%})")
        )
    else:
        reasons.append(remark("memory", sentence))
    if not found.graphs_counted and found.graphs_gib > found.headroom_gib:
        text = (
            f"{found.graphs_gib:.1f} GiB come out of the {found.headroom_gib:.1f} GiB that the budget leaves;"
            " a lower --gpu-memory-utilization or --enforce-eager makes room"
        )
        reasons.append(Reason("cuda graphs", Effect.DOUBT, text))
    return replace(found, reasons=tuple(reasons))
