"""The ceiling of an imported row, from what its source says of model, GPUs and lengths."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping

from fleetbench.ceiling.models import architecture_named
from fleetbench.ceiling.row import STRICT_KEYS, Served, ceiling_of
from fleetbench.model import Config, Workload
from fleetbench.plan.hardware import card_named
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.rows import NOTHING, Json


def ceiling_of_foreign(row: ForeignRow) -> Mapping[str, Json]:
    """Return what `MeasurementRow.ceiling` keeps; empty where the source, or our tables, do not say enough.

    Nothing is strict where the source does not say how the server was started: it may have guessed tokens
    ahead.
    """
    conditions, result = row.conditions, row.result
    shape, card = architecture_named(conditions.model), card_named(conditions.gpu)
    config = _config(conditions)
    inputs = conditions.input_len or _length(result.extra.get("mean_input_tokens"))
    outputs = conditions.output_len or _length(result.extra.get("mean_output_tokens"))
    counted = result.completed and result.total_input_tokens and result.total_output_tokens
    if shape is None or card is None or config is None or not ((inputs and outputs) or counted):
        return NOTHING
    workload = Workload(
        dataset=conditions.dataset,
        input_len=inputs or 1,
        output_len=outputs or 1,
        num_prompts=result.num_prompts or result.completed or 1,
        max_concurrency=result.max_concurrency,
        request_rate=None if isinstance(result.request_rate, str) else result.request_rate,
    )
    served = Served(words=_words(conditions.serve_args), version=conditions.engine_version)
    found = dict(ceiling_of(shape, card, config, workload, result, served=served))
    if not conditions.serve_args:
        found = {key: value for key, value in found.items() if key not in STRICT_KEYS}
        if "basis" in found:
            found["basis"] = f"{found['basis']}; nothing is strict: how it was served is not said"
    return found


def _config(conditions: Conditions) -> Config | None:
    """The split; None where it is not said, or is not one of all the GPUs."""
    sizes = (conditions.tp, conditions.dp, conditions.pp, conditions.units)
    if not any(sizes) and conditions.gpus != 1:
        return None
    tp, dp, pp, units = (size or 1 for size in sizes)
    config = Config(tp=tp, dp=dp, pp=pp, units=units, max_model_len=conditions.max_model_len)
    if not all(0 < size <= 1024 for size in (tp, dp, pp, units)):
        return None
    return config if conditions.gpus in (None, config.gpus) else None


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _length(value: float | None) -> int | None:
    return max(1, round(value)) if value is not None and math.isfinite(value) and 0 < value < 1e9 else None
