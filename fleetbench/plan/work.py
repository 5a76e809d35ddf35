"""What one GPU of an engine reads and computes for a token, from a model's shape: bytes and operations.

The one place of these formulas: durations (`roofline`) and ceilings (`fleetbench.ceiling`) both use them.
Sources: a token passes each weight it uses once, two operations a weight; attention is
2 × heads × (key width + value width) operations for each token of context (4 × heads × head width where both
are alike); a ring all-reduce sends 2(t−1)/t of its vector, and a decoder layer has two of them; a token
chooses k of E experts, so B tokens that choose evenly and independently touch 1 − (1 − k/E)^B of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetbench.model import Config
from fleetbench.plan.architecture import BYTES, Architecture
from fleetbench.plan.arguments import ServeArguments
from fleetbench.plan.memory import kv_layer_bytes
from fleetbench.plan.weights import Weights, count

_REDUCES_A_LAYER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Bytes that one GPU reads, floating-point operations that it does, bytes that it sends.

    Attributes:
        dense_bytes: weights that every step reads, however many tokens it has.
        expert_bytes: all experts, of which a token uses `expert_share`.
        kv_bytes: for each token of context, in the layers that keep all of it.
        window_kv_bytes: the same in layers that keep the last `window` tokens only.
        token_flop: for each token, attention apart; head_flop: for each token that is put out, on top.
        attention_flop, window_attention_flop: for each token, and each token of context that it looks at.
        link_bytes: for each token, over the link between the GPUs of one engine.
    """

    dense_bytes: float
    expert_bytes: float = 0.0
    expert_share: float = 1.0
    kv_bytes: float = 0.0
    window_kv_bytes: float = 0.0
    window: int = 0
    token_flop: float = 0.0
    head_flop: float = 0.0
    attention_flop: float = 0.0
    window_attention_flop: float = 0.0
    link_bytes: float = 0.0

    def weight_bytes(self, batch: float) -> float:
        """Return what one step reads of the weights for `batch` tokens (of all ranks that share experts)."""
        return self.dense_bytes + self.expert_bytes * coverage(batch, self.expert_share)

    def context_bytes(self, context: float) -> float:
        """Return what one token reads of the keys and values of `context` tokens."""
        return self.kv_bytes * context + self.window_kv_bytes * min(context, self.window)

    def decode_flop(self, context: float) -> float:
        """Return the operations of one token that is put out after `context` others."""
        looks = self.window_attention_flop * min(context, self.window)
        return self.token_flop + self.head_flop + self.attention_flop * context + looks

    def prefill_flop(self, tokens: float) -> float:
        """Return the operations of a prompt of so many tokens, each of which looks at those before it."""
        seen = min(tokens, self.window)
        windows = seen * seen / 2 + (tokens - seen) * seen
        return (
            self.token_flop * tokens
            + self.attention_flop * tokens * tokens / 2
            + self.window_attention_flop * windows
        )


def coverage(batch: float, share: float) -> float:
    """Return the part of the experts that `batch` tokens touch, each using `share` of them: choices that are
    even and independent, as many of one token's as of `batch` below 1."""
    if share >= 1:
        return 1.0
    return float(1 - (1 - share) ** max(batch, 1.0))


def work(architecture: Architecture, config: Config, arguments: ServeArguments) -> Work:
    """Return what one GPU does, as it is to be expected: every weight that the engine holds is read.

    Of a pipeline, as many groups of requests as stages are under way: keys, values and operations are divided
    by the stages, and the weights are read once for each group, which makes up for their division.
    """
    weights, parameters = count(architecture, arguments.dtype), parameters_of(architecture)
    tp, stages = config.tp, config.tp * config.pp
    held = weights.embedding + weights.head + weights.attention + weights.dense
    full, sliding = _layers(architecture)
    token_kv = kv_layer_bytes(architecture, config, arguments) / config.pp
    attention = _attention_flop(architecture) / stages
    return Work(
        dense_bytes=held / tp + weights.router,
        expert_bytes=weights.experts / (tp * config.dp),
        expert_share=expert_share(architecture),
        kv_bytes=full * token_kv,
        window_kv_bytes=sliding * token_kv,
        window=architecture.window or 0,
        token_flop=2 * active(parameters, architecture) / stages,
        attention_flop=full * attention,
        window_attention_flop=sliding * attention,
        link_bytes=_link_bytes(architecture, config),
    )


def least_work(architecture: Architecture, config: Config, arguments: ServeArguments) -> Work:
    """Return what one GPU does at the very least, whatever the texts and however vLLM does it.

    All tokens may choose the same experts; the input embedding is looked up, not read; only tokens that are
    put out pass the output embedding; windows and the link are left out.
    """
    most = work(architecture, config, arguments)
    weights, parameters = count(architecture, arguments.dtype), parameters_of(architecture)
    head = weights.head or weights.embedding
    matrices = weights.attention + weights.dense + head
    stages = config.tp * config.pp
    inner = active(parameters, architecture) - parameters.embedding - parameters.head
    return Work(
        dense_bytes=matrices / config.tp + weights.router + most.expert_bytes * most.expert_share,
        kv_bytes=most.kv_bytes,
        token_flop=2 * inner / stages,
        head_flop=2 * (parameters.head or parameters.embedding) / stages,
        attention_flop=most.attention_flop,
    )


def parameters_of(architecture: Architecture) -> Weights:
    """Return the number of parameters of each part, whatever their storage."""
    plain = replace(architecture, quantisation=None, checkpoint_bytes=None, dtype="bfloat16")
    weights, size = count(plain), BYTES["bfloat16"]
    return Weights(**{name: getattr(weights, name) // size for name in Weights.__dataclass_fields__})


def active(parameters: Weights, architecture: Architecture) -> float:
    """Return how many parameters one token uses, embeddings among them."""
    rest = parameters.total - parameters.experts - parameters.other
    return rest + parameters.experts * expert_share(architecture)


def expert_share(architecture: Architecture) -> float:
    """Return the part of the experts that a token uses; 1 of a dense model."""
    experts = architecture.experts
    return min(1.0, experts.per_token / experts.count) if experts else 1.0


def _layers(architecture: Architecture) -> tuple[int, int]:
    """Layers that keep all tokens, and those that keep a window of them."""
    cached = architecture.cached_layers or architecture.layers
    sliding = architecture.sliding_layers if architecture.window is not None else 0
    return cached - sliding, sliding


def _attention_flop(architecture: Architecture) -> float:
    """Operations of one layer for a token and one token of its context."""
    latent = architecture.latent
    if latent is not None:
        return 2.0 * architecture.heads * (latent.nope_dim + latent.rope_dim + latent.value_dim)
    return 4.0 * architecture.heads * architecture.head_dim


def _link_bytes(architecture: Architecture, config: Config) -> float:
    vector = architecture.hidden * BYTES[architecture.dtype]
    ring = 2 * (config.tp - 1) / config.tp
    return _REDUCES_A_LAYER * architecture.layers / config.pp * vector * ring
