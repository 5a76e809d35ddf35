"""A language model of half a megabyte with random weights, which real vLLM serves; made in a second.

No network, no torch, no numpy: weights come from `random.Random(seed)` and the safetensors file is written
by hand. The same arguments give the same bytes on every machine.

What vLLM asks of it:

* head size 32, the smallest that its CPU attention takes;
* 4 heads, 2 key/value heads, 4 experts: can be split in two (tp=2), but not in three;
* channel 0 of the residual stream is a constant; through it the output layer makes the end of turn and all
  other marks unlikely, so that text is printable ASCII and a request runs to its `max_tokens`.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetbench.errors import NotPossible, UsageError
from fleetbench.lab import tiny_tokenizer
from fleetbench.lab.tiny_tokenizer import END_OF_TEXT, END_OF_TURN, MARKS, SPECIAL, VOCABULARY

HIDDEN, LAYERS, HEADS, KEY_VALUE_HEADS, HEAD_SIZE = 64, 2, 4, 2, 32
FEED_FORWARD, EXPERTS, EXPERTS_PER_TOKEN, EXPERT_FEED_FORWARD = 128, 4, 2, 64
ARCHITECTURES: Mapping[str, str] = {
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "llama": "LlamaForCausalLM",
}
UNLIKELY = -30.0


@dataclass(frozen=True, slots=True)
class _Tensor:
    shape: tuple[int, ...]
    values: Sequence[float]


def make(
    directory: Path, *, architecture: str = "qwen3", max_position: int = 4096, seed: int = 0
) -> tuple[Path, ...]:
    """Write a model into `directory` and return its files, the one that makes it complete last.

    Args:
        directory: made when it is not there; files of the same names are replaced one by one, each whole.
        architecture: `qwen3`, `qwen3_moe` or `llama`.
        max_position: longest sequence, in tokens, that the model says it can do.
        seed: of the weights.

    Raises:
        UsageError: unknown architecture, or a length that makes no model.
        NotPossible: the directory cannot be written.
    """
    if architecture not in ARCHITECTURES:
        raise UsageError(
            f"no tiny model of architecture {architecture!r}",
            next_step=f"use one of {', '.join(ARCHITECTURES)}",
        )
    if max_position < 1:
        raise UsageError(f"a model cannot have {max_position} positions", next_step="use for example 4096")
    contents = {
        "tokenizer.json": _json(tiny_tokenizer.tokenizer()),
        "tokenizer_config.json": _json(tiny_tokenizer.tokenizer_config()),
        "special_tokens_map.json": _json({"eos_token": END_OF_TURN, "pad_token": END_OF_TEXT}),
        "chat_template.jinja": tiny_tokenizer.CHAT_TEMPLATE.encode(),
        "generation_config.json": _json(generation_config()),
        "model.safetensors": safetensors(dict(tensors(architecture, seed))),
        "config.json": _json(config(architecture, max_position)),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            partial = directory / f".{name}.{os.getpid()}"
            partial.write_bytes(content)
            partial.replace(directory / name)
    except OSError as error:
        raise NotPossible(
            f"cannot write the tiny model to {directory}",
            cause=str(error),
            next_step="choose a directory that can be written",
        ) from error
    return tuple(directory / name for name in contents)


def config(architecture: str, max_position: int) -> dict[str, object]:
    """Return the content of config.json."""
    common: dict[str, object] = {
        "architectures": [ARCHITECTURES[architecture]],
        "model_type": architecture,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_SIZE,
        "intermediate_size": FEED_FORWARD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": max_position,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "torch_dtype": "bfloat16",
        "bos_token_id": None,
        "eos_token_id": tiny_tokenizer.identifier(END_OF_TURN),
        "pad_token_id": tiny_tokenizer.identifier(END_OF_TEXT),
        "initializer_range": 0.02,
        "use_cache": True,
    }
    if architecture != "qwen3_moe":
        return common
    return common | {
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_FEED_FORWARD,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
    }


def generation_config() -> dict[str, object]:
    """Return the content of generation_config.json: sampling at temperature 1 unless a request says else."""
    return {
        "do_sample": True,
        "eos_token_id": [tiny_tokenizer.identifier(END_OF_TURN)],
        "temperature": 1.0,
    }


def tensors(architecture: str, seed: int) -> Iterator[tuple[str, _Tensor]]:
    """Yield the weights by name, in the order in which the generator draws them."""
    draw = random.Random(seed)  # noqa: S311  weights, not secrets

    def drawn(rows: int, columns: int, spread: float = 0.08, *, keeps_constant: bool = False) -> _Tensor:
        values = [draw.gauss(0.0, spread) for _ in range(rows * columns)]
        if keeps_constant:  # adds nothing to channel 0 of the residual stream
            values[:columns] = [0.0] * columns
        return _Tensor((rows, columns), values)

    def ones(size: int) -> _Tensor:
        return _Tensor((size,), [1.0] * size)

    yield "model.embed_tokens.weight", _with_first_column(drawn(VOCABULARY, HIDDEN, 1.0), [2.0] * VOCABULARY)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", ones(HIDDEN)
        yield f"{at}.post_attention_layernorm.weight", ones(HIDDEN)
        yield f"{at}.self_attn.q_proj.weight", drawn(HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.k_proj.weight", drawn(KEY_VALUE_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.v_proj.weight", drawn(KEY_VALUE_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.o_proj.weight", drawn(HIDDEN, HEADS * HEAD_SIZE, keeps_constant=True)
        if architecture.startswith("qwen3"):
            yield f"{at}.self_attn.q_norm.weight", ones(HEAD_SIZE)
            yield f"{at}.self_attn.k_norm.weight", ones(HEAD_SIZE)
        networks = [(f"{at}.mlp", FEED_FORWARD)]
        if architecture == "qwen3_moe":
            yield f"{at}.mlp.gate.weight", drawn(EXPERTS, HIDDEN)
            networks = [(f"{at}.mlp.experts.{number}", EXPERT_FEED_FORWARD) for number in range(EXPERTS)]
        for network, width in networks:
            yield f"{network}.gate_proj.weight", drawn(width, HIDDEN)
            yield f"{network}.up_proj.weight", drawn(width, HIDDEN)
            yield f"{network}.down_proj.weight", drawn(HIDDEN, width, keeps_constant=True)
    yield "model.norm.weight", ones(HIDDEN)
    marks = {*SPECIAL, *MARKS}
    wanted = [UNLIKELY if text in marks or text == "\r" else 0.0 for text in tiny_tokenizer.tokens()]
    yield "lm_head.weight", _with_first_column(drawn(VOCABULARY, HIDDEN, 0.12), wanted)


def safetensors(weights: Mapping[str, _Tensor]) -> bytes:
    """Return a safetensors file: eight bytes length, a JSON header padded to eight bytes, bfloat16 data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name in sorted(weights):
        tensor = weights[name]
        start = len(data)
        data += struct.pack(f"<{len(tensor.values)}H", *map(_bfloat16, tensor.values))
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def _with_first_column(tensor: _Tensor, column: Sequence[float]) -> _Tensor:
    values = list(tensor.values)
    values[:: tensor.shape[1]] = column
    return _Tensor(tensor.shape, values)


def _bfloat16(value: float) -> int:
    """The upper half of a 32-bit float, rounded to the nearest even."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def _json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
