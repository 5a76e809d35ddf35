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


def candidates(sweep: Sweep, model: Model, gpus: int, *, units: bool = False) -> tuple[Config, ...]:
    """Given a sweep, a model and a host's number of GPUs, return the configurations in order of size.

    `"all"` is every tp×dp in powers of two that fits on the GPUs, and with `units` also every tp×units; a
    strategy's name stands for all GPUs used that one way. UsageError when nothing is left.
    """
    splits = _splits(sweep, gpus, units=units)
    found = at_lengths(splits, sweep, model)
    if not found:
        raise UsageError(
            f"sweep {sweep.name} has no configuration for {gpus} GPUs",
            next_step="name smaller splits in sweeps.toml, or another host",
        )
    return found


def every_split(gpus: int, *, moe: bool) -> tuple[Config, ...]:
    """Return all splits in powers of two on at most `gpus` GPUs, in order of size.

    tp×dp×pp, the same with expert parallelism where the model has experts and tp×dp is more than one, and
    independent units of tp×pp each.
    """
    sizes = _powers(gpus)
    found: list[Config] = []
    for tp in sizes:
        for dp in sizes:
            for pp in sizes:
                split = Config(tp=tp, dp=dp, pp=pp)
                found.append(split)
                if moe and tp * dp > 1:
                    found.append(replace(split, ep=True))
                if dp > 1:
                    found.append(Config(tp=tp, pp=pp, units=dp))
    fitting = [split for split in found if split.gpus <= max(gpus, 1)]
    return tuple(sorted(fitting, key=_order))


def at_lengths(splits: tuple[Config, ...], sweep: Sweep, model: Model) -> tuple[Config, ...]:
    """Return each split at each context length of the sweep; the model's where the sweep has none."""
    lengths: tuple[int | None, ...] = sweep.max_model_len or (None,)
    found: dict[Config, None] = {}
    for length in lengths:
        for split in splits:
            config = split
            if split.max_model_len is None:
                config = replace(split, max_model_len=length if length is not None else model.max_model_len)
            found[config] = None
    return tuple(found)


def _splits(sweep: Sweep, gpus: int, *, units: bool) -> tuple[Config, ...]:
    if sweep.parallel == "all":
        sizes = _powers(gpus)
        pairs = [Config(tp=tp, dp=dp) for tp in sizes for dp in sizes if tp * dp <= max(gpus, 1)]
        pairs.sort(key=_order)
        apart = [Config(tp=pair.tp, units=pair.dp) for pair in pairs if pair.dp > 1] if units else []
        return tuple(pairs + apart)
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


def _powers(gpus: int) -> list[int]:
    return [2**power for power in range(max(gpus, 1).bit_length()) if 2**power <= max(gpus, 1)]


def _order(config: Config) -> tuple[int, ...]:
    return (config.gpus, config.units, config.pp, config.dp, config.ep)
