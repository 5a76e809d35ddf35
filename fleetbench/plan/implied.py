"""What the failure of one configuration says of others, so that hours are not spent on what is known.

Only what follows from the cause itself is implied. A cause that may go away (a port, a busy GPU) implies
nothing, and neither does one that is not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fleetbench.model import Config, Failure

Rule = Callable[[Config, Config], bool]


def _at_least_as_hungry(failed: Config, other: Config) -> bool:
    """Not more tensor parallelism, not a shorter context, all else alike: it needs no less memory."""
    alike = replace(failed, tp=1, max_model_len=None) == replace(other, tp=1, max_model_len=None)
    if failed.max_model_len is None or other.max_model_len is None:
        longer = failed.max_model_len is None and other.max_model_len is None
    else:
        longer = other.max_model_len >= failed.max_model_len
    return alike and longer and other.tp <= failed.tp


_RULES: Mapping[str, Rule] = {
    "gpu-out-of-memory": _at_least_as_hungry,
    "no-memory-for-kv-cache": _at_least_as_hungry,
    "kv-cache-too-small": _at_least_as_hungry,
    "oom-sampler-warmup": _at_least_as_hungry,
    "heads-not-divisible": lambda failed, other: other.tp == failed.tp,
    "expert-parallel-on-dense-model": lambda failed, other: other.ep,
    # Another version of vLLM may well be able to.
    "pipeline-parallel-unsupported": lambda failed, other: other.pp > 1 and other.build == failed.build,
    "gpt-oss-dp-broken": lambda failed, other: (
        other.dp > 1 and (other.ep, other.build) == (failed.ep, failed.build)
    ),
    "more-gpus-than-there-are": lambda failed, other: other.gpus >= failed.gpus,
}


def implied(failed: Config, failure: Failure, other: Config) -> bool:
    """Given a configuration that failed and why, say whether `other` must fail on the same host too.

    Another start of the same configuration must, where the cause implies anything.
    Source of the memory rule: weights and KV cache of a GPU shrink with tp and grow with the context length.
    """
    rule = _RULES.get(failure.kind)
    return rule is not None and rule(failed, other)
