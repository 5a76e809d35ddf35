"""How the weights are stored: the part of config.json that says so, in the forms that are around."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.errors import Unreadable
from fleetbench.plan.configuration import Table

_FIXED_BITS = {"fp8": 8.0, "fbgemm_fp8": 8.0, "modelopt": 8.0, "mxfp8": 8.25, "int8": 8.0, "mxfp4": 4.25}
_FOUR_BIT = {"modelopt_fp4": 4.5, "nvfp4": 4.5, "bitsandbytes": 4.5}
GROUPED = frozenset({"gptq", "gptq_marlin", "awq", "awq_marlin", "auto-round"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """Storage of quantised weights.

    Attributes:
        method: `fp8`, `mxfp4`, `awq`, `gptq`, `compressed-tensors` …, as in the file.
        bits: for each weight, scales and zero points included; 16 when the method is not known.
        block: height and width of the blocks that share a scale (FP8).
        group: inputs that share a scale (GPTQ, AWQ).
        experts_only: attention and dense layers are left as they were.
        minimum_capability: lowest CUDA compute capability that vLLM has kernels for.
    """

    method: str
    bits: float
    block: tuple[int, int] | None = None
    group: int = 0
    experts_only: bool = False
    minimum_capability: str = "8.0"


def read_quantisation(whole: Table, text: Table) -> Quantisation | None:
    """Return how weights are quantised, None when they are not."""
    found = whole.table("quantization_config", "compression_config")
    found = found or text.table("quantization_config", "compression_config")
    if found is None:
        return None
    method = found.text("quant_method").lower().replace("_tensors", "-tensors")
    producer = found.table("producer")
    if producer is not None and producer.text("name") == "modelopt":
        inner = found.table("quantization") or found
        method = "modelopt_fp4" if "FP4" in inner.text("quant_algo").upper() else "modelopt"
    if not method:
        return None
    left_out = " ".join((*found.texts("modules_to_not_convert"), *found.texts("ignore")))
    experts_only = method == "mxfp4" or "self_attn" in left_out
    if method in GROUPED:
        return _grouped(method, found, experts_only)
    if method == "compressed-tensors":
        return _compressed(found, experts_only)
    block = _block(found)
    bits = _FIXED_BITS.get(method, _FOUR_BIT.get(method, 16.0))
    if block is not None:
        bits += 32 / (block[0] * block[1])
    capability = "7.0" if method == "bitsandbytes" else "8.0"
    return Quantisation(
        method=method, bits=bits, block=block, experts_only=experts_only, minimum_capability=capability
    )


def _grouped(method: str, found: Table, experts_only: bool) -> Quantisation:
    bits = found.whole("bits", "w_bit", default=4, least=1)
    group = (
        -1 if found.values.get("group_size") == -1 else found.whole("group_size", "q_group_size", default=128)
    )
    # A 16-bit scale and a zero point of `bits` for each group; -1 is one group for each column.
    each = bits + (16 + bits) / group if group > 0 else float(bits)
    return Quantisation(
        method=method,
        bits=each,
        group=max(0, group),
        experts_only=experts_only,
        minimum_capability="7.5",
    )


def _compressed(found: Table, experts_only: bool) -> Quantisation:
    groups = found.table("config_groups")
    bits, group, block = 16.0, 0, None
    for name in list(groups.values)[:16] if groups is not None else ():
        entry = groups.table(name) if groups is not None else None
        weights = entry.table("weights") if entry is not None else None
        if weights is None:
            continue
        plain = weights.whole("num_bits", default=8, least=1)
        group = 0 if weights.values.get("group_size") == -1 else weights.whole("group_size", default=0)
        bits = min(bits, plain + (16 / group if group else 0))
        sides = weights.wholes("block_structure")
        block = (sides[0], sides[1]) if len(sides) == 2 and min(sides) > 0 else block
    return Quantisation(
        method="compressed-tensors", bits=bits, block=block, group=group, experts_only=experts_only
    )


def _block(found: Table) -> tuple[int, int] | None:
    sides = found.wholes("weight_block_size")
    if not sides:
        return None
    if len(sides) != 2 or min(sides) < 1:
        raise Unreadable("config.json: weight_block_size is not two numbers", cause=f"it is {sides!r:.80}")
    return sides[0], sides[1]
