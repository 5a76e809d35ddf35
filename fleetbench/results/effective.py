"""What a trial's server settled on, as the store keeps it, in words and cells for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fleetbench.errors import one_line
from fleetbench.results.rows import Json

# Column of a table, key in the store.
COLUMNS: tuple[tuple[str, str], ...] = (
    ("tp", "tp"),
    ("dp", "dp"),
    ("pp", "pp"),
    ("max-model-len", "max_model_len"),
    ("KV tokens", "kv_cache_tokens"),
    ("full-length requests", "concurrent_sequences"),
    ("weights GiB", "weights_gib"),
    ("attention", "attention_backend"),
    ("dtype", "dtype"),
    ("quantisation", "quantization"),
    ("KV dtype", "kv_cache_dtype"),
    ("prefix cache", "prefix_caching"),
    ("eager", "enforce_eager"),
)


def cells(effective: Mapping[str, Json]) -> tuple[int | float | str | None, ...]:
    """Return one cell for each of `COLUMNS`; None where nothing is known."""
    return tuple(_cell(effective.get(key)) for _, key in COLUMNS)


def known(effective: Mapping[str, Json]) -> bool:
    """Whether anything is known at all: a trial that never was ready has nothing to show."""
    return any(cell is not None for cell in cells(effective))


def sentence(effective: Mapping[str, Json]) -> str:
    """Return all that is known on one line: `tp 2, dp 1, KV tokens 2,104,512, attention FLASH_ATTN …`."""
    found = zip((name for name, _ in COLUMNS), cells(effective), strict=True)
    return ", ".join(
        f"{name} {cell:,}" if isinstance(cell, int | float) else f"{name} {cell}"
        for name, cell in found
        if cell is not None
    )


def _cell(value: Json) -> int | float | str | None:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return value
    return (one_line(value, 60) or None) if isinstance(value, str) else None
