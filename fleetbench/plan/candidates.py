"""From a named sweep and the number of GPUs to the configurations that it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fleetbench.errors import UsageError
from fleetbench.model import Config, Model, Sweep

_STRATEGIES: dict[str, Callable[[int], Config]] = {
    "tp": lambda gpus: Config(tp=gpus),
    "dp": lambda gpus: Config(dp=gpus),
    "pp": lambda gpus: Config(pp=gpus),
    "units": lambda gpus: Config(units=gpus),
}


def candidates(sweep: Sweep, model: Model, gpus: int) -> tuple[Config, ...]:
    """Given a sweep, a model and a host's number of GPUs, return the configurations in order of size.

    `"all"` is every tp×dp in powers of two that fits on the GPUs; a strategy's name stands for all GPUs
    used that one way. UsageError when nothing is left.
    """
    splits = _splits(sweep, gpus)
    lengths: tuple[int | None, ...] = sweep.max_model_len or (None,)
    found: list[Config] = []
    for length in lengths:
        for split in splits:
            config = split
            if split.max_model_len is None:
                config = replace(split, max_model_len=length if length is not None else model.max_model_len)
            if config not in found:
                found.append(config)
    if not found:
        raise UsageError(
            f"sweep {sweep.name} has no configuration for {gpus} GPUs",
            next_step="name smaller splits in sweeps.toml, or another host",
        )
    return tuple(found)


def _splits(sweep: Sweep, gpus: int) -> tuple[Config, ...]:
    if sweep.parallel == "all":
        sizes = [2**power for power in range(max(gpus, 1).bit_length()) if 2**power <= max(gpus, 1)]
        pairs = [(tp, dp) for tp in sizes for dp in sizes if tp * dp <= max(gpus, 1)]
        return tuple(Config(tp=tp, dp=dp) for tp, dp in sorted(pairs, key=lambda p: (p[0] * p[1], p[1])))
    names = (sweep.parallel,) if isinstance(sweep.parallel, str) else sweep.parallel
    splits: list[Config] = []
    for name in names:
        if isinstance(name, Config):
            splits.append(name)
        elif name in _STRATEGIES:
            splits.append(_STRATEGIES[name](max(gpus, 1)))
        else:
            known = ", ".join(_STRATEGIES)
            raise UsageError(f"sweep {sweep.name}: unknown strategy {name!r}", next_step=f"{known} or all")
    return tuple(splits)
