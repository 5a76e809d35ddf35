"""The peaks of a GPU that count for a model: of the data sheet, and the most that no load can exceed."""

from __future__ import annotations

from fleetbench.ceiling.limits import Peaks
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.hardware import Card

_TERA, _GIGA, _MIB = 1e12, 1e9, 2**20
# Storage that vLLM computes in, where the GPU has units for it; of all others it makes 16 bit first.
_FP8 = frozenset({"fp8", "fbgemm_fp8", "modelopt", "mxfp8", "compressed-tensors"})
_FP4 = frozenset({"modelopt_fp4", "nvfp4"})


def peaks(card: Card, architecture: Architecture) -> Peaks:
    """Return the data sheet's figures in the precision that the model's weights are computed in."""
    return Peaks(
        bandwidth_b_s=card.bandwidth_gb_s * _GIGA,
        flop_s=_tflops(card, architecture) * _TERA,
        link_b_s=card.link_gb_s * _GIGA,
    )


def most(card: Card, *, narrow: bool) -> Peaks:
    """Return what the highest clocks allow; `narrow` where weights or cache have fewer than 16 bits, so that
    some arithmetic may be done in the GPU's fastest units. The link is left out."""
    tflops = max(card.tflops, card.most_tflops)
    if narrow:
        fastest = max(card.fp8_tflops, card.fp4_tflops, card.int8_tops, card.tflops)
        tflops = max(tflops, fastest * tflops / card.tflops)
    return Peaks(
        bandwidth_b_s=max(card.bandwidth_gb_s, card.most_bandwidth_gb_s) * _GIGA,
        flop_s=tflops * _TERA,
        cache_bytes=card.cache_mib * _MIB,
    )


def precision(card: Card, architecture: Architecture) -> str:
    """Return the name of the precision that `peaks` takes: `16 bit`, `FP8` or `FP4`."""
    quantisation = architecture.quantisation
    if quantisation is None or quantisation.experts_only:
        return "16 bit"
    if quantisation.method in _FP4 and card.fp4_tflops > 0:
        return "FP4"
    wide = 8 <= quantisation.bits < 9  # compressed-tensors of 4 bits keeps activations in 16
    return "FP8" if quantisation.method in _FP8 and wide and card.fp8_tflops > 0 else "16 bit"


def _tflops(card: Card, architecture: Architecture) -> float:
    return {"16 bit": card.tflops, "FP8": card.fp8_tflops, "FP4": card.fp4_tflops}[
        precision(card, architecture)
    ]
