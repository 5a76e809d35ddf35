"""From a named sweep and the number of GPUs to the configurations that it means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from fleetbench.errors import UsageError
from fleetbench.model import Choice, Config, Model, Sweep

MATRIX, MATRIX_UNITS = "all", "all+units"
MOST_CONFIGS = 2000
_STRATEGIES: dict[str, Callable[[int], Config]] = {
    "tp": lambda gpus: Config(tp=gpus),
    "dp": lambda gpus: Config(dp=gpus),
    "pp": lambda gpus: Config(pp=gpus),
    "units": lambda gpus: Config(units=gpus),
}


def candidates(sweep: Sweep, model: Model, gpus: int) -> tuple[Config, ...]:
    """Given a sweep, a model and a host's number of GPUs, return the configurations in order of size.

    `"all"` is every tp×dp in powers of two that fits on the GPUs, `"all+units"` also every tp×units; a
    strategy's name stands for all GPUs used that one way. Each is taken at each length, with each build and
    each combination of serve arguments. UsageError when nothing is left, or too much.
    """
    found = with_axes(_splits(sweep, gpus), sweep, model)
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


def with_axes(splits: tuple[Config, ...], sweep: Sweep, model: Model) -> tuple[Config, ...]:
    """Return each split with each value of the sweep's axes, the builds outermost, the arguments innermost.

    A split that names its own context length keeps it; without any length it is the model's.
    """
    lengths: tuple[int | None, ...] = sweep.max_model_len or (model.max_model_len,)
    axes = [*sweep.serve_args, *([sweep.variants] if sweep.variants else [])]
    count = math.prod([len(splits), len(lengths), max(1, len(sweep.builds)), *map(len, axes)])
    if count > MOST_CONFIGS:
        raise UsageError(
            f"sweep {sweep.name} has {count} configurations, at most {MOST_CONFIGS} are planned",
            next_step="leave out values of its axes in sweeps.toml",
        )
    found: dict[Config, None] = {}
    for build, length, split in product(sweep.builds or ("",), lengths, splits):
        sized = replace(split, build=build, max_model_len=split.max_model_len or length)
        for choices in product(*axes):
            found[_with_arguments(sized, choices)] = None
    return tuple(found)


def _with_arguments(split: Config, choices: tuple[Choice, ...]) -> Config:
    """The split's own arguments first: of equal flags vLLM takes the last."""
    own = " ".join(split.serve_args)
    labels = [choice.label for choice in choices if choice.label]
    added = [word for choice in choices for word in choice.serve_args]
    return replace(
        split,
        serve_args=(*split.serve_args, *added),
        variant=" ".join(filter(None, [own, *labels])) if labels else "",
    )


def _splits(sweep: Sweep, gpus: int) -> tuple[Config, ...]:
    if sweep.parallel in (MATRIX, MATRIX_UNITS):
        sizes = _powers(gpus)
        pairs = [Config(tp=tp, dp=dp) for tp in sizes for dp in sizes if tp * dp <= max(gpus, 1)]
        pairs.sort(key=_order)
        units = sweep.parallel == MATRIX_UNITS
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
            known = f"{', '.join(_STRATEGIES)}, {MATRIX} or {MATRIX_UNITS}"
            raise UsageError(f"sweep {sweep.name}: unknown strategy {name!r}", next_step=known)
    return tuple(splits)


def _powers(gpus: int) -> list[int]:
    return [2**power for power in range(max(gpus, 1).bit_length()) if 2**power <= max(gpus, 1)]


def _order(config: Config) -> tuple[int, ...]:
    return (config.gpus, config.units, config.pp, config.dp, config.ep)
