"""Which splits vLLM refuses: each rule with its numbers, before anything is started.

Sources: vLLM's own checks, 0.8.5 to 0.33.0 (model configuration, linear layers, fused MoE, FP8 and Marlin
weights). A rule that is not certain for all versions is not here but in `gates`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.model import Config
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.quantisation import GROUPED
from fleetbench.plan.reason import Reason, impossible, remark

_MARLIN_OUT, _MARLIN_IN = 64, 128


def split_reasons(architecture: Architecture, config: Config, gpus: int) -> tuple[Reason, ...]:
    """Given a model's shape, a configuration and the host's number of GPUs, return what stands against it.

    No reason with effect `impossible` means that the split is valid.
    """
    return (
        *_world(architecture, config, gpus),
        *_heads(architecture, config.tp),
        *_mlp(architecture, config.tp),
        *_experts(architecture, config),
        *_fp8_blocks(architecture, config),
        *_marlin(architecture, config),
    )


def _world(architecture: Architecture, config: Config, gpus: int) -> Iterator[Reason]:
    if config.gpus > gpus:
        units = f"×units={config.units}" if config.units > 1 else ""
        yield impossible(
            "gpus",
            f"tp={config.tp}×dp={config.dp}×pp={config.pp}{units} needs {config.gpus} GPUs, there are {gpus}",
        )
    if config.pp > architecture.layers:
        yield impossible("pp", f"pp={config.pp} is more than the {architecture.layers} layers")
    elif left := architecture.layers % config.pp:
        yield remark(
            "pp", f"{architecture.layers} layers over pp={config.pp}: {left} of the stages get one layer more"
        )
    if config.max_model_len is not None and config.max_model_len > architecture.max_positions:
        yield impossible(
            "context",
            f"max-model-len {config.max_model_len} is more than the {architecture.max_positions} positions"
            " that config.json allows",
        )


def _heads(architecture: Architecture, tp: int) -> Iterator[Reason]:
    heads, pairs = architecture.heads, architecture.kv_heads
    if heads % tp:
        yield impossible("heads", f"{heads} attention heads are not divisible by tp={tp}")
    if architecture.latent is not None:
        if tp > 1:
            yield remark("kv heads", f"latent attention: each of the {tp} GPUs keeps the whole KV cache")
        return
    if pairs % tp and tp % pairs:
        yield impossible("kv heads", f"{pairs} KV heads and tp={tp}: neither divides the other")
    elif tp > pairs:
        yield remark(
            "kv heads",
            f"tp={tp} is more than the {pairs} KV heads: each is kept {tp // pairs} times,"
            " the cache stops growing",
        )


def _mlp(architecture: Architecture, tp: int) -> Iterator[Reason]:
    if architecture.dense_layers and architecture.intermediate % tp:
        yield impossible("mlp", f"intermediate_size {architecture.intermediate} is not divisible by tp={tp}")


def _experts(architecture: Architecture, config: Config) -> Iterator[Reason]:
    experts, ranks = architecture.experts, config.tp * config.dp
    if experts is None:
        if config.ep:
            yield impossible("ep", "the model has no experts: expert parallelism is refused")
        return
    if experts.shared and experts.shared % config.tp:
        yield impossible("shared experts", f"their width {experts.shared} is not divisible by tp={config.tp}")
    if not config.ep:
        # MXFP4 kernels round each slice up to whole blocks instead.
        if experts.intermediate % ranks and not architecture.mxfp4:
            yield impossible(
                "moe",
                f"moe_intermediate_size {experts.intermediate} is not divisible by tp×dp={ranks}"
                " (data parallel ranks split the experts too)",
            )
    elif ranks == 1:
        yield remark("ep", "with tp×dp=1 expert parallelism changes nothing")
    elif experts.count < ranks:
        yield impossible("ep", f"{experts.count} experts are fewer than tp×dp={ranks}")
    elif left := experts.count % ranks:
        yield remark("ep", f"{experts.count} experts over tp×dp={ranks}: {left} of the GPUs hold one more")


def _fp8_blocks(architecture: Architecture, config: Config) -> Iterator[Reason]:
    quantisation, tp = architecture.quantisation, config.tp
    if quantisation is None or quantisation.block is None:
        return
    height, width = quantisation.block
    experts = architecture.experts
    if experts is not None:
        ranks = 1 if config.ep else tp * config.dp
        part, over = experts.intermediate // ranks, f"tp×dp={ranks}"
        if not experts.intermediate % ranks and (part % height or (ranks > 1 and part % width)):
            yield impossible(
                "fp8 block",
                f"moe_intermediate_size {experts.intermediate} over {over} is {part},"
                f" not a multiple of the {height}×{width} blocks",
            )
    cut = [(name, whole, height) for name, whole in _column_slices(architecture, tp)]
    cut += [(name, whole, width) for name, whole in _row_slices(architecture) if tp > 1]
    for name, whole, side in cut:
        if not whole % tp and whole // tp % side:
            yield impossible(
                "fp8 block", f"{name} {whole} over tp={tp} is {whole // tp}, not a multiple of {side}"
            )
            return


def _marlin(architecture: Architecture, config: Config) -> Iterator[Reason]:
    quantisation, tp = architecture.quantisation, config.tp
    if quantisation is None or quantisation.method not in GROUPED or quantisation.experts_only:
        return
    for name, whole in _column_slices(architecture, tp):
        if not whole % tp and whole // tp % _MARLIN_OUT:
            yield impossible("marlin", f"{name} {whole} over tp={tp} is {whole // tp}, not a multiple of 64")
            return
    step = max(_MARLIN_IN, quantisation.group) if quantisation.group else _MARLIN_IN
    for name, whole in _row_slices(architecture):
        part = whole // tp
        if not whole % tp and (part % _MARLIN_IN or (quantisation.group and part % quantisation.group)):
            yield impossible(
                "marlin",
                f"{name} {whole} over tp={tp} is {part}, not a multiple of {step} (group size, tile)",
            )
            return


def _column_slices(architecture: Architecture, tp: int) -> tuple[tuple[str, int], ...]:
    """Output widths that tensor parallelism cuts; KV heads are repeated when tp is more than them."""
    found = [("the MLP's width", architecture.intermediate)] if architecture.dense_layers else []
    if architecture.experts is not None and architecture.experts.shared:
        found.append(("the shared experts' width", architecture.experts.shared))
    if architecture.latent is None:
        found.append(("the queries' width", architecture.heads * architecture.head_dim))
        pairs = max(architecture.kv_heads, tp)
        found.append(("the keys' width", pairs * architecture.head_dim))
    return tuple(found)


def _row_slices(architecture: Architecture) -> tuple[tuple[str, int], ...]:
    """Input widths that tensor parallelism cuts."""
    latent = architecture.latent
    out = latent.value_dim if latent is not None else architecture.head_dim
    found = [("the attention output's width", architecture.heads * out)]
    if architecture.dense_layers:
        found.append(("the MLP's inner width", architecture.intermediate))
    if architecture.experts is not None and architecture.experts.shared:
        found.append(("the shared experts' inner width", architecture.experts.shared))
    return tuple(found)
