"""How many bytes the weights have, counted from the shape, and how many of them lie on one GPU."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.model import Config
from fleetbench.plan.architecture import BYTES, Architecture

GIB = 2**30
# vLLM pads the vocabulary to a multiple of it, so that any tensor parallel size divides it.
_VOCABULARY_STEP = 64
# What vLLM's MXFP4 kernels (Marlin; the Triton ones come within 3 % of it) round an expert's sides up to.
_MXFP4_INNER, _MXFP4_OUTER = 128, 256
_MXFP4_BLOCK = 32
# A counted size that far from the files' is a part that was not counted, not rounding.
_SAME = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes of a model's parts, before any split.

    Attributes:
        embedding, head: input and output embedding; `head` is 0 when they are one tensor.
        attention, dense, router: of all layers together; `dense` includes shared experts.
        experts: of all layers and experts together.
        other: what the files hold beyond that (a vision tower).
    """

    embedding: int
    head: int
    attention: int
    dense: int
    router: int
    experts: int
    other: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        parts = self.embedding + self.head + self.attention + self.dense + self.router
        return parts + self.experts + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bytes on one GPU, the fullest of an engine: `whole` is held by each data parallel rank in full (its
    tensor parallel part of it), `experts` is divided among the ranks too."""

    whole: int
    experts: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.whole + self.experts


def count(architecture: Architecture, dtype: str = "") -> Weights:
    """Return the bytes of each part; `dtype` replaces the one of the file for what is not quantised.

    Where the index of the weight files is known, its total is right and the count is brought to it.
    """
    plain = float(BYTES.get(dtype, BYTES[architecture.dtype]))
    quantisation = architecture.quantisation
    packed = quantisation.bits / 8 if quantisation is not None and quantisation.bits < 16 else plain
    inner = plain if quantisation is None or quantisation.experts_only else packed
    layers, hidden = architecture.layers, architecture.hidden
    experts = architecture.experts
    counted = Weights(
        embedding=int(_padded(architecture.vocabulary) * hidden * plain),
        head=0 if architecture.tied else int(_padded(architecture.vocabulary) * hidden * plain),
        attention=layers * _attention(architecture, inner, plain),
        dense=int(_mlps(architecture) * hidden * inner) + layers * int(2 * hidden * plain),
        router=int(experts.layers * experts.count * hidden * plain) if experts else 0,
        experts=_experts(architecture, packed, plain),
    )
    return _to_files(counted, architecture, plain)


def share(weights: Weights, architecture: Architecture, config: Config) -> Share:
    """Return what lies on the fullest GPU of one engine.

    Each data parallel rank holds attention and dense layers in full, divided by tp only. Experts are divided
    among all tp×dp GPUs, in slices of each (no expert parallelism) or as whole experts (with it).
    """
    stage = largest_stage(architecture.layers, config.pp) / architecture.layers
    ends = (weights.embedding, weights.head or (weights.embedding if config.pp > 1 else 0))
    vocabulary = sum(ends) if config.pp == 1 else max(ends)
    layers = (weights.attention + weights.dense) / config.tp + weights.router
    rest = weights.other / config.tp
    return Share(
        whole=int(vocabulary / config.tp + layers * stage + rest),
        experts=int(weights.experts * stage * _expert_part(architecture, config)),
    )


def largest_stage(layers: int, pp: int) -> int:
    """Return how many layers the fullest stage has; vLLM gives those left over to the middle stages."""
    return -(-layers // pp)


def _expert_part(architecture: Architecture, config: Config) -> float:
    ranks = config.tp * config.dp
    experts = architecture.experts
    if experts is None or ranks == 1:
        return _mxfp4_padding(architecture, 1) if architecture.mxfp4 else 1.0
    if config.ep:
        part = -(-experts.count // ranks) / experts.count
        return part * (_mxfp4_padding(architecture, 1) if architecture.mxfp4 else 1.0)
    return _mxfp4_padding(architecture, ranks) / ranks if architecture.mxfp4 else 1 / ranks


def _mxfp4_padding(architecture: Architecture, ranks: int) -> float:
    """Return by how much an expert's slice grows by rounding up: 2880 wide becomes 2944, 2880 high 3072."""
    experts = architecture.experts
    assert experts is not None  # noqa: S101  narrows for mypy
    blocks = -(-experts.intermediate // _MXFP4_BLOCK)
    part = -(-blocks // ranks) * _MXFP4_BLOCK
    inner = -(-part // _MXFP4_INNER) * _MXFP4_INNER
    outer = -(-architecture.hidden // _MXFP4_OUTER) * _MXFP4_OUTER
    return inner * ranks / experts.intermediate * outer / architecture.hidden


def _padded(vocabulary: int) -> int:
    return -(-vocabulary // _VOCABULARY_STEP) * _VOCABULARY_STEP


def _attention(architecture: Architecture, inner: float, plain: float) -> int:
    """Bytes of one layer's attention."""
    hidden, heads = architecture.hidden, architecture.heads
    latent = architecture.latent
    if latent is not None:
        key = latent.nope_dim + latent.rope_dim
        query = (hidden + heads * key) * latent.q_rank if latent.q_rank else hidden * heads * key
        down = hidden * (latent.kv_rank + latent.rope_dim)
        up = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
        return int((query + down + up + heads * latent.value_dim * hidden) * inner)
    queries, pairs = heads * architecture.head_dim, 2 * architecture.kv_heads * architecture.head_dim
    biases = (queries + pairs if architecture.qkv_bias else 0) + (hidden if architecture.output_bias else 0)
    return int((hidden * (queries + pairs) + queries * hidden) * inner + biases * plain)


def _mlps(architecture: Architecture) -> int:
    """Widths of all dense MLPs and shared experts together, times the number of their matrices."""
    matrices = 3 if architecture.gated_mlp else 2
    shared = architecture.experts.shared * architecture.experts.layers if architecture.experts else 0
    return matrices * (architecture.intermediate * architecture.dense_layers + shared)


def _experts(architecture: Architecture, packed: float, plain: float) -> int:
    experts = architecture.experts
    if experts is None:
        return 0
    matrices = 3 if architecture.gated_mlp else 2
    each = matrices * experts.intermediate * architecture.hidden * packed
    if architecture.output_bias and architecture.mxfp4:  # gpt-oss: its experts have biases too
        each += (2 * experts.intermediate + architecture.hidden) * plain
    return int(experts.layers * experts.count * each)


def _to_files(counted: Weights, architecture: Architecture, plain: float) -> Weights:
    files = architecture.checkpoint_bytes
    # With another dtype than the file's the sizes say nothing: vLLM converts while it loads.
    if files is None or plain != BYTES[architecture.dtype] or abs(counted.total / files - 1) <= _SAME:
        return counted
    parts = ("embedding", "head", "attention", "dense", "router", "experts")
    if counted.total < files:
        return Weights(**{name: getattr(counted, name) for name in parts}, other=files - counted.total)
    factor = files / counted.total
    return Weights(**{name: int(getattr(counted, name) * factor) for name in parts})
