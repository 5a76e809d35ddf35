"""What a model's config.json says about its shape: everything that splitting and memory follow from.

Names of keys are those that vLLM itself looks for. What cannot be known from the file is in `notes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.errors import Unreadable
from fleetbench.plan.configuration import Table, read_table
from fleetbench.plan.quantisation import Quantisation, read_quantisation

BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "float8_e4m3fn": 1, "float64": 8}
# Of rotary scalings these leave the length alone: their configs hold the scaled one already.
_LENGTH_IS_SCALED = frozenset({"su", "longrope", "llama3", "default", ""})
_EVERY_SECOND_SLIDES = frozenset({"gemma2", "gemma2_text"})
_EVERY_SIXTH_IS_FULL = frozenset({"gemma3", "gemma3_text"})
# Their attention always has biases for q, k and v, whatever the file says.
_QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"})
_UNKNOWN_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv", "gated_deltanet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture-of-experts part. Widths in elements; `shared` is that of all shared experts together."""

    count: int
    per_token: int
    intermediate: int
    layers: int
    shared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention: one compressed vector a token, which no tensor parallelism divides."""

    kv_rank: int
    q_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The shape of one language model.

    Attributes:
        name, kind: first of `architectures`, and `model_type`.
        layers: all layers; `dense_layers` of them have an ordinary MLP of width `intermediate`.
        cached_layers: layers that keep keys and values for each token of a request.
        sliding_layers: those of the cached ones that keep the last `window` tokens only.
        max_positions: longest context that vLLM derives from the file.
        dtype: of the weights, `bfloat16`; activations and KV cache have it too unless arguments say else.
        qkv_bias, output_bias: whether these projections have biases.
        tied: input and output embedding are one tensor.
        checkpoint_bytes: size of all weight files where the index is known.
    """

    name: str
    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    dense_layers: int
    vocabulary: int
    max_positions: int
    dtype: str = "bfloat16"
    latent: Latent | None = None
    experts: Experts | None = None
    quantisation: Quantisation | None = None
    window: int | None = None
    cached_layers: int = 0
    sliding_layers: int = 0
    gated_mlp: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    tied: bool = False
    checkpoint_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def mxfp4(self) -> bool:
        """True when the experts are stored in MXFP4."""
        return self.quantisation is not None and self.quantisation.method == "mxfp4"


def read_architecture(config: str, index: str = "") -> Architecture:
    """Given the text of config.json, and of model.safetensors.index.json if there is one, return the shape.

    Unreadable, with the key, when the file holds no language model or a value that cannot be.
    """
    whole = read_table(config)
    # Models that see or hear keep the language model one level down.
    text = whole.table("text_config", "llm_config", "language_config", "thinker_config") or whole
    if text is not whole and "text_config" in text:
        text = text.table("text_config") or text
    kind = text.text("model_type") or whole.text("model_type")
    names = whole.texts("architectures") or text.texts("architectures")
    if whole.flag("is_encoder_decoder"):
        raise Unreadable(
            f"{names[0] if names else kind} is an encoder-decoder model",
            next_step="the planner knows decoder-only language models; name its splits in sweeps.toml",
        )
    layers = text.whole("num_hidden_layers", "n_layer", "num_layers", least=1)
    hidden = text.whole("hidden_size", "n_embd", "d_model", least=1)
    heads = text.whole("num_attention_heads", "n_head", "n_heads", least=1)
    head_dim = text.whole("head_dim", "hidden_size_per_head", default=0) or hidden // heads
    if head_dim < 1:
        raise text.wrong("num_attention_heads", f"at most hidden_size={hidden}", heads)
    kv_heads = text.whole(
        "num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num", default=heads, least=1
    )
    experts = _experts(text, layers)
    intermediate = text.whole(
        "intermediate_size", "n_inner", "ffn_hidden_size", default=4 * hidden if experts is None else 0
    )
    window, sliding, cached, notes = _attention(text, kind, layers)
    if text is not whole and ("vision_config" in whole or "audio_config" in whole) and not index:
        notes = (*notes, "the vision or audio part is not counted; the index of the weights would tell")
    return Architecture(
        name=names[0] if names else kind,
        kind=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        dense_layers=layers - experts.layers if experts else layers,
        vocabulary=text.whole("vocab_size", least=1),
        max_positions=_positions(text),
        dtype=_dtype(whole, text),
        latent=_latent(text),
        experts=experts,
        quantisation=read_quantisation(whole, text),
        window=window,
        cached_layers=cached,
        sliding_layers=sliding,
        gated_mlp=text.text("hidden_act", "activation_function") not in ("relu2", "gelu_new", "gelu_fast"),
        qkv_bias=kind in _QKV_BIAS or text.flag("attention_bias") or text.flag("qkv_bias"),
        output_bias=text.flag("attention_bias"),
        tied=whole.flag("tie_word_embeddings") or text.flag("tie_word_embeddings"),
        checkpoint_bytes=_total_size(index) if index else None,
        notes=notes,
    )


def _dtype(whole: Table, text: Table) -> str:
    name = whole.text("torch_dtype", "dtype") or text.text("torch_dtype", "dtype")
    name = name.removeprefix("torch.")
    if name and name not in BYTES:
        raise whole.wrong("torch_dtype", f"one of {', '.join(sorted(BYTES))}", name)
    return name or "bfloat16"


def _experts(text: Table, layers: int) -> Experts | None:
    count = text.whole("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts", default=0)
    if count < 2:
        return None
    width = text.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", least=1)
    dense = set(text.wholes("mlp_only_layers"))
    first = text.whole("first_k_dense_replace", default=0)
    step = text.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1, least=1)
    if "moe_layer_freq" in text and not isinstance(text.values["moe_layer_freq"], list):
        step = text.whole("moe_layer_freq", least=1)
    sparse = sum(
        1
        for layer in range(min(layers, 10_000))
        if layer not in dense and layer >= first and (layer + (0 if first else 1)) % step == 0
    )
    shared = text.whole("shared_expert_intermediate_size", default=0)
    if not shared:
        shared = text.whole("n_shared_experts", "num_shared_experts", default=0) * width
    per_token = text.whole("num_experts_per_tok", "moe_topk", "moe_top_k", "num_experts_per_token", default=1)
    return Experts(count=count, per_token=max(1, per_token), intermediate=width, layers=sparse, shared=shared)


def _latent(text: Table) -> Latent | None:
    rank = text.whole("kv_lora_rank", default=0)
    if not rank:
        return None
    return Latent(
        kv_rank=rank,
        q_rank=text.whole("q_lora_rank", default=0),
        rope_dim=text.whole("qk_rope_head_dim", default=64),
        nope_dim=text.whole("qk_nope_head_dim", default=128),
        value_dim=text.whole("v_head_dim", default=128),
    )


def _attention(text: Table, kind: str, layers: int) -> tuple[int | None, int, int, tuple[str, ...]]:
    """Return window, sliding layers, layers with a KV cache, and what is not known about them."""
    window = text.whole("sliding_window", default=0) or None
    kinds = text.texts("layer_types")[:layers]
    if kinds:
        without = sum(1 for name in kinds if name in _UNKNOWN_LAYERS)
        sliding = sum(1 for name in kinds if "sliding" in name or "chunked" in name)
        note = (f"{without} layers without attention are counted like the others",) if without else ()
        window = window or text.whole("attention_chunk_size", default=0) or None
        return window, sliding if window else 0, layers - without, note
    if window is None or not text.flag("use_sliding_window", default=True):
        return None, 0, layers, ()
    if kind in _EVERY_SECOND_SLIDES:
        return window, layers - layers // 2, layers, ()
    pattern = text.whole("sliding_window_pattern", default=6 if kind in _EVERY_SIXTH_IS_FULL else 0)
    if pattern > 1:
        return window, layers - layers // pattern, layers, ()
    full = text.whole("max_window_layers", default=0) if kind.startswith("qwen") else 0
    return window, max(0, layers - full), layers, ()


def _positions(text: Table) -> int:
    length = text.whole(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=2048, least=1
    )
    scaling = text.table("rope_scaling", "rope_parameters")
    if scaling is None:
        return length
    kind = scaling.text("rope_type", "type")
    if kind in _LENGTH_IS_SCALED:
        return length
    original = scaling.whole("original_max_position_embeddings", default=length, least=1)
    return max(length, int(original * scaling.number("factor", 1.0)))


def _total_size(index: str) -> int:
    metadata = read_table(index, "model.safetensors.index.json").table("metadata")
    value = metadata.values.get("total_size") if metadata else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**15:
        raise Unreadable(
            "model.safetensors.index.json has no metadata.total_size", cause=f"it is {value!r:.80}"
        )
    return value
