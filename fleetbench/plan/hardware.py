"""The GPUs of a host as the planner needs them: from its facts, or from words such as `8x H100 80GB`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fleetbench.errors import UsageError, one_line
from fleetbench.facts.values import Gpu, HostFacts, Missing
from fleetbench.model import Build, Device
from fleetbench.plan import memory
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.arguments import ServeArguments
from fleetbench.plan.reason import Reason, impossible, remark
from fleetbench.releases import number, table
from fleetbench.vllm_features import Version

_MIB_PER_GIB = 1024
# Of a GPU that is not in the catalogue torch sees that share of what nvidia-smi prints (0.985 to 0.997 there)
_USUAL_SHARE = 0.99
_MOST_GPUS = 1024
_BFLOAT16_FROM = (8, 0)
_MAKERS = frozenset({"nvidia", "amd", "instinct", "tesla"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One row of `data/gpus.toml`; units are in the names there and here."""

    words: tuple[str, ...]
    name: str
    memory_mib: int
    visible_mib: int
    capability: str
    bandwidth_gb_s: float
    tflops: float
    link_gb_s: float
    fp8_tflops: float
    fp4_tflops: float
    int8_tops: float
    most_bandwidth_gb_s: float
    most_tflops: float
    cache_mib: float
    power_w: float
    vendor: str = "nvidia"


@cache
def catalogue() -> tuple[Card, ...]:
    """Return the GPUs that come with this package, in the order in which words are looked up."""
    data = tomllib.loads((resources.files("fleetbench") / "data" / "gpus.toml").read_text("utf-8"))
    return tuple(Card(**{**row, "words": tuple(row["words"])}) for row in data["gpu"])


def facts_from_words(text: str) -> HostFacts:
    """Given `8x H100 80GB`, return facts of a host that has nothing but these GPUs. UsageError otherwise."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*[x×*]?\s*([A-Za-z].{0,80})", text)
    count = int(match[1]) if match is not None else 0
    card = card_named(match[2]) if match is not None else None
    if match is None and card_named(text) is not None:
        raise UsageError(
            f"{one_line(text, 60)!r} does not say how many GPUs",
            next_step=f'--gpus "1x {one_line(text, 60)}"',
        )
    if card is None or not 1 <= count <= _MOST_GPUS:
        known = ", ".join(dict.fromkeys(one.words[0] + " " + one.words[1] for one in catalogue()))
        raise UsageError(
            f"{one_line(text, 60)!r} names no GPUs that the catalogue has",
            cause=f"it has {known}",
            next_step='write a number and a name: --gpus "8x H100 80GB"; or give --facts of a host',
        )
    gpus = tuple(
        Gpu(
            index=index,
            name=card.name,
            vendor=card.vendor,
            memory_mib=card.memory_mib,
            compute_capability=card.capability,
        )
        for index in range(count)
    )
    return HostFacts(host=f"{count}× {card.name}", gpus=gpus, topology=Missing("not a real host"))


def devices(facts: HostFacts) -> tuple[tuple[Gpu, memory.Device], ...]:
    """Return each GPU with the memory that torch will see; those whose memory is not known are left out."""
    gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
    return tuple(
        (gpu, memory.Device(name=gpu.name, visible_gib=_visible(gpu))) for gpu in gpus if gpu.memory_mib
    )


def hardware_reasons(
    architecture: Architecture, arguments: ServeArguments, gpu: Gpu, build: Build, version: Version
) -> tuple[Reason, ...]:
    """Return what stands against a model on a GPU of this kind, whatever the split."""
    if build.device is not Device.CUDA or not re.fullmatch(r"\d+\.\d+", gpu.compute_capability):
        return ()
    return tuple(_cuda(architecture, arguments, gpu, build, version))


def _cuda(
    architecture: Architecture, arguments: ServeArguments, gpu: Gpu, build: Build, version: Version
) -> Iterator[Reason]:
    capability = number(gpu.compute_capability)
    release = table().release(build)
    if release is not None and capability < number(release.min_capability):
        yield impossible(
            "capability",
            f"vLLM {version} needs compute capability {release.min_capability},"
            f" {gpu.name} has {gpu.compute_capability}",
        )
    dtype = arguments.dtype or architecture.dtype
    if dtype == "bfloat16" and capability < _BFLOAT16_FROM:
        yield impossible(
            "dtype",
            f"{gpu.name} ({gpu.compute_capability}) has no bfloat16: serve_args --dtype half",
        )
    quantisation = architecture.quantisation
    if quantisation is not None and capability < number(quantisation.minimum_capability):
        yield impossible(
            "quantisation",
            f"{quantisation.method} needs compute capability {quantisation.minimum_capability},"
            f" {gpu.name} has {gpu.compute_capability}",
        )
    if quantisation is not None and quantisation.bits >= 16:
        yield remark("quantisation", f"{quantisation.method} is not known here: counted as 16 bit")
    if arguments.quantisation and quantisation is None:
        yield remark("quantisation", f"--quantization {arguments.quantisation} is not counted")


def card_of(gpu: Gpu) -> Card | None:
    """Return the row of the catalogue that a GPU is; None when it is not there."""
    total = gpu.memory_mib or 0
    # The name alone tells cards apart that have as much memory: SXM and PCIe.
    for card in sorted(catalogue(), key=lambda card: card.name != gpu.name):
        # The same card is 16160 or 16384 MiB to different drivers; torch sees the same of it.
        alike = abs(card.memory_mib - total) <= total * 0.015
        if alike and card.vendor == gpu.vendor and set(card.words[:1]) <= set(_words(gpu.name)):
            return card
    return None


def card_named(text: str) -> Card | None:
    """Return the first row of the catalogue that has all words of a name: `H100 80GB`, `NVIDIA H200`; None
    when there is none, and None for a name that says nothing."""
    words = {word for word in _words(text[:200]) if word not in _MAKERS}
    exact = (one for one in catalogue() if one.name.lower() == text.strip().lower())
    return next(exact, None) or next((one for one in catalogue() if words and words <= set(one.words)), None)


def _visible(gpu: Gpu) -> float:
    total = gpu.memory_mib or 0
    card = card_of(gpu)
    return (min(card.visible_mib, total) if card else total * _USUAL_SHARE) / _MIB_PER_GIB


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9.]+", name.lower())
