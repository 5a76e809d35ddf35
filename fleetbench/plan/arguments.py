"""Arguments of `vllm serve` that change what fits, read from serve_args of models and configurations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetbench.errors import UsageError, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What was given; None and empty mean vLLM's own default.

    `dtype` and `kv_cache_dtype` as written, `auto` counting as not given; `kv_cache_bytes` is
    `--kv-cache-memory-bytes`, which replaces the share of the GPU.
    """

    utilisation: float | None = None
    batched_tokens: int | None = None
    sequences: int | None = None
    kv_cache_bytes: int | None = None
    dtype: str = ""
    kv_cache_dtype: str = ""
    quantisation: str = ""
    eager: bool = False
    expert_parallel: bool = False


_NAMES = {
    "--gpu-memory-utilization": "utilisation",
    "--max-num-batched-tokens": "batched_tokens",
    "--max-num-seqs": "sequences",
    "--kv-cache-memory-bytes": "kv_cache_bytes",
    "--kv-cache-memory": "kv_cache_bytes",
    "--dtype": "dtype",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--quantization": "quantisation",
    "-q": "quantisation",
}
_FLAGS = {"--enforce-eager": "eager", "--enable-expert-parallel": "expert_parallel"}
_WHOLE = frozenset({"batched_tokens", "sequences", "kv_cache_bytes"})
# vLLM takes 8k and 8K for numbers: small letters count in thousands, capital ones in 1024s.
_LARGEST = 10**15
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def read_arguments(words: Sequence[str]) -> ServeArguments:
    """Given an argument list, return those that matter here; the last of equal ones counts, as in vLLM.

    UsageError for a number that is none.
    """
    found: dict[str, Any] = {}
    for position, word in enumerate(words):
        option, equals, inline = word.partition("=")
        option = option.replace("_", "-") if option.startswith("--") else option
        if option in _FLAGS:
            found[_FLAGS[option]] = True
        elif option.startswith("--no-") and f"--{option[5:]}" in _FLAGS:
            found[_FLAGS[f"--{option[5:]}"]] = False
        elif option in _NAMES:
            following = words[position + 1] if position + 1 < len(words) else ""
            found[_NAMES[option]] = _value(option, inline if equals else following)
    return ServeArguments(**found)


def _value(option: str, text: str) -> float | int | str:
    name = _NAMES[option]
    if name != "utilisation" and name not in _WHOLE:
        return "" if text == "auto" else one_line(text, 40)
    factor = _SUFFIXES.get(text[-1:], 1) if name in _WHOLE else 1
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        number = math.nan
    if name == "utilisation" and 0 < number <= 1:
        return number
    if name in _WHOLE and 1 <= number < _LARGEST and number == int(number):
        return int(number)
    raise UsageError(
        f"{option} is given {one_line(text, 40) or 'nothing'!r}, which is no number for it",
        next_step="correct serve_args in models.toml or sweeps.toml",
    )
