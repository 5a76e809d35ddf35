"""What follows from the GPUs found: architecture lists for compilers, and the PyTorch index."""

from __future__ import annotations

import re

from fleetbench.facts.values import Gpu, HostFacts, Missing
from fleetbench.model import Build, Device
from fleetbench.releases import Release, number, table

PYTORCH_INDEX = "https://download.pytorch.org/whl/{name}"
# First CUDA whose libraries know a GPU of this capability; every build in the table knows older ones.
_FIRST_CUDA = (((10, 0), (12, 8)),)
# flashinfer >= 0.3.1 reads FLASHINFER_CUDA_ARCH_LIST; before, it compiled by torch's list like torch does.
_FLASHINFER_OWN_LIST = (0, 3, 1)


def nvidia_gpus(facts: HostFacts) -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs of a host, empty when there are none or they cannot be seen."""
    gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
    return tuple(gpu for gpu in gpus if gpu.vendor == "nvidia")


def capabilities(facts: HostFacts) -> tuple[str, ...]:
    """Return the distinct CUDA compute capabilities, lowest first: `("8.9", "9.0")`."""
    found = {gpu.compute_capability for gpu in nvidia_gpus(facts)}
    return tuple(sorted((text for text in found if re.fullmatch(r"\d+\.\d+", text)), key=number))


def arch_list(facts: HostFacts) -> str:
    """Return `TORCH_CUDA_ARCH_LIST` for the GPUs found (`9.0`, `8.9;9.0`); empty when unknown.

    vLLM itself does not read it at run time; torch's extension builds and flashinfer 0.2 do.
    """
    return ";".join(capabilities(facts))


def flashinfer_arch_list(torch_list: str) -> str:
    """Given a `TORCH_CUDA_ARCH_LIST`, return `FLASHINFER_CUDA_ARCH_LIST`: separated by one blank each.

    flashinfer splits at blanks and takes `9.0` without a suffix literally in its older versions, where its
    Hopper and Blackwell kernels need the `a` variant; newer ones leave a suffix that is there alone. On 12.x
    the right suffix depends on the compiler, so it is left to flashinfer.
    """
    found = []
    for word in re.split(r"[;\s]+", torch_list.replace("+PTX", "")):
        match = re.fullmatch(r"(\d+)\.(\d+)([a-z]?)", word)
        if match is not None:
            plain = not match[3] and 9 <= int(match[1]) <= 11
            found.append(f"{word}a" if plain else word)
    return " ".join(found)


def arch_env(build: Build, facts: HostFacts, override: str = "") -> tuple[tuple[str, str], ...]:
    """Return the environment that tells compilers the architecture, empty without NVIDIA GPUs.

    Both names where flashinfer reads its own; an `override` of the inventory wins over the GPUs found.
    """
    torch_list = override or arch_list(facts)
    if build.device is not Device.CUDA or not torch_list:
        return ()
    release = table().release(build)
    pinned = build.flashinfer if build.flashinfer != "auto" else (release.flashinfer if release else "")
    own = not pinned or number(pinned) >= _FLASHINFER_OWN_LIST
    flashinfer = flashinfer_arch_list(torch_list)
    both = (("FLASHINFER_CUDA_ARCH_LIST", flashinfer),) if own and flashinfer else ()
    return (("TORCH_CUDA_ARCH_LIST", torch_list), *both)


def torch_index(build: Build, facts: HostFacts) -> str:
    """Return the PyTorch index that stands for `"auto"`, empty when PyPI's own torch is the right one.

    For a release that is not in the table PyPI's torch is taken: it is what `pip install vllm` gives.
    """
    release = table().release(build)
    if build.device is not Device.CUDA or release is None:
        return ""
    cuda = torch_cuda(release, facts)
    return "" if cuda == release.cuda else PYTORCH_INDEX.format(name="cu" + cuda.replace(".", ""))


def torch_cuda(release: Release, facts: HostFacts) -> str:
    """Return the CUDA version of the torch build that fits this host's driver and GPUs.

    PyPI's where the driver runs it and it knows the GPUs; else the newest other build that the driver runs
    natively; else the oldest, which runs by minor-version compatibility (or is refused by `compatibility`).
    """
    driver_cuda = min((number(gpu.cuda) for gpu in nvidia_gpus(facts) if number(gpu.cuda)), default=())
    newest = max(map(number, capabilities(facts)), default=())
    least = max((cuda for capability, cuda in _FIRST_CUDA if newest >= capability), default=())
    known = [cuda for cuda in release.cudas if number(cuda) >= least] or list(release.cudas)
    native = [cuda for cuda in known if number(cuda) <= driver_cuda]
    if release.cuda in native:
        return release.cuda
    return native[-1] if native else known[0]
