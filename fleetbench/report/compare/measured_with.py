"""Documents and units that a trial left, read with caution: they may be missing, broken or forged. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from fleetbench.errors import one_line, without_secrets
from fleetbench.results.rows import Json
from fleetbench.units import exec_arguments

NO_DOCUMENT: Mapping[str, Json] = MappingProxyType({})
# What the configuration says already, or says nothing: where it listens, which GPUs, where its files are.
_SAID = ("--host", "--port", "--tensor-parallel-size", "--data-parallel-size", "--pipeline-parallel-size")
_SAID_BEFORE = frozenset((*_SAID, "--max-model-len", "--uds"))
_OF_A_PLACE = ("FLEETBENCH_", "PATH=", "HOME=", "HF_HOME=", "XDG_", "CUDA_VISIBLE", "HIP_VISIBLE")
_OF_FILES = ("_CACHE_DIR", "_CACHE_ROOT", "_CACHE_PATH", "_WORKSPACE_BASE", "_DEVICE_ORDER")
MOST_VARIABLES = 60


def document(content: bytes | None) -> Mapping[str, Json]:
    """Given the content of a JSON file, return its object; an empty one when it is none."""
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return NO_DOCUMENT
    return found if isinstance(found, dict) else NO_DOCUMENT


def text_at(document: Mapping[str, Json], *path: str | int) -> str:
    """Return the text or number at a place of a document, on one line; empty when there is none."""
    found = _at(document, path)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return ""
    return one_line(str(found), 120)


def number_at(document: Mapping[str, Json], *path: str | int) -> float | None:
    """Return the number at a place of a document; None when there is none."""
    found = _at(document, path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:
        return None


def words_of_server(unit: str) -> tuple[str, ...]:
    """Given the text of a unit, return the server's arguments that its configuration does not say."""
    words = exec_arguments(unit)[3:]
    left: list[str] = []
    skip = False
    for word in words:
        flag = word.partition("=")[0]
        if skip and not word.startswith("-"):
            skip = False
            continue
        skip = word in _SAID_BEFORE
        if flag not in _SAID_BEFORE:
            left.append(word)
    return tuple(left)


def variables(unit: str) -> Iterator[str]:
    """Given the text of a unit, yield what its environment says of the server: `NAME=value`."""
    lines = [
        line.removeprefix("Environment=") for line in unit.splitlines() if line.startswith("Environment=")
    ]
    for line in sorted(set(lines))[:MOST_VARIABLES]:
        text = line.strip('"')
        name = text.partition("=")[0]
        if not text.startswith(_OF_A_PLACE) and not name.endswith(_OF_FILES):
            yield one_line(without_secrets(text), 200)


def _at(document: Mapping[str, Json], path: tuple[str | int, ...]) -> Json:
    found: Json = dict(document)
    for step in path:
        if isinstance(step, str) and isinstance(found, dict):
            found = found.get(step)
        elif isinstance(step, int) and isinstance(found, list) and 0 <= step < len(found):
            found = found[step]
        else:
            return None
    return found
