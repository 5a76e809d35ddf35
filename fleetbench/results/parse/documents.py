"""Result files: one JSON object, a list, JSON Lines, or objects one after the other (`--append-result`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetbench.errors import one_line
from fleetbench.results.parse.draft import Draft, is_latency
from fleetbench.results.parse.labels import label_table
from fleetbench.results.parse.lines import Line
from fleetbench.results.parse.numbers import Reading
from fleetbench.results.values import Block

_COUNTS = (
    "completed",
    "failed",
    "num_prompts",
    "max_concurrency",
    "total_input_tokens",
    "total_output_tokens",
)
_NUMBERS = (
    "duration",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
)
_WORDS = ("model_id", "backend", "date")
_SGLANG_KEYS = ("total_output_tokens_retokenized", "mean_e2e_latency_ms")
# Where log shippers put the text of a line, and what tells one process from another.
_LOG_TEXT = ("MESSAGE", "log")
_LOG_STREAM = ("_HOSTNAME", "_SYSTEMD_UNIT", "_PID", "stream")
_DEEPEST = 4
_LARGEST = 10**18
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One JSON value in a text, with the lines it stands on; `error` when it is cut or wrong.

    `end` is the offset behind it.
    """

    value: Any
    first_line: int
    last_line: int
    end: int = 0
    error: str = ""


def read_documents(text: str, position: int = 0, line: int = 1) -> Iterator[Document]:
    """Yield the JSON values of `text` one after the other, the last one maybe broken.

    `position` and `line` say where to begin.
    """
    while True:
        start = position
        while position < len(text) and text[position] in " \t\r\n,\ufeff\x1e":
            position += 1
        line += text.count("\n", start, position)
        if position >= len(text):
            return
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as exc:
            yield Document(value=None, first_line=line, last_line=line, error=_complaint(exc, text))
            return
        last = line + text.count("\n", position, end)
        yield Document(value=value, first_line=line, last_line=last, end=end)
        position, line = end, last


def _complaint(exc: Exception, text: str) -> str:
    if isinstance(exc, json.JSONDecodeError):
        cut = exc.pos >= len(text.rstrip()) - 1 or exc.msg.startswith("Unterminated")
        what = "the JSON is cut off" if cut else f"no JSON: {exc.msg.lower()}"
        return f"line {exc.lineno}: {what} (column {exc.colno})"
    return "the JSON is nested too deeply, or holds a number that is too long"


def log_line(document: Document) -> Line | None:
    """Given a record of a JSON log (journalctl -o json, docker json-file), return the line it carries."""
    record = document.value
    if not isinstance(record, dict):
        return None
    for key in _LOG_TEXT:
        text = record.get(key)
        if isinstance(text, list) and all(isinstance(b, int) and 0 <= b < 256 for b in text):
            text = bytes(text).decode("utf-8", "replace")  # journald's form of unprintable messages
        if isinstance(text, str):
            stream = " ".join(str(record[name]) for name in _LOG_STREAM if name in record)
            return Line(number=document.first_line, text=text.removesuffix("\n"), stream=stream)
    return None


def results_in(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Given any JSON value, yield the result objects in it, outermost first."""
    if isinstance(value, dict) and looks_like_result(value):
        yield value
    elif depth < _DEEPEST and isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, list | dict):
                yield from results_in(item, depth + 1)


def looks_like_result(value: Mapping[str, Any]) -> bool:
    """True when the count of requests and two more of the keys that every result carries are there."""
    return "completed" in value and sum(key in value for key in label_table().needed) >= 3


def block_of(value: Mapping[str, Any], document: Document, source: str) -> Block:
    """Given one result object, return its block."""
    draft = Draft(first_line=document.first_line, last_line=document.last_line, dialect=_dialect(value))
    draft.ended = True
    draft.pooling = "total_output_tokens" not in value
    line = document.first_line
    fields = {label_table().json_alias.get(key, key): item for key, item in value.items()}
    for key, item in fields.items():
        if item is None or isinstance(item, list):
            continue
        if key in _COUNTS:
            draft.keep_reading(key, _number(item, whole=True), line, key)
        elif key in _NUMBERS or is_latency(key):
            draft.keep_reading(key, _number(item), line, key)
        elif key == "request_rate":
            _take_rate(draft, item, line)
        elif key in _WORDS and isinstance(item, str):
            draft.keep(key, one_line(item, 200), line, key)
        else:
            _take_extra(draft, key, item, line)
    if isinstance(name := value.get("endpoint_type"), str) and "backend" not in draft.values:
        draft.keep("backend", one_line(name, 60), line, "endpoint_type")
    return draft.block(source)


def _dialect(value: Mapping[str, Any]) -> str:
    if any(key in value for key in _SGLANG_KEYS):
        return "sglang-json"
    return "vllm-rust-json" if "steady_state" in value else "vllm-json"


def _take_rate(draft: Draft, item: object, line: int) -> None:
    if item == "inf" or item == float("inf"):
        draft.keep("request_rate", "inf", line, "request_rate")
    else:
        draft.keep_reading("request_rate", _number(item), line, "request_rate")


def _take_extra(draft: Draft, key: str, item: object, line: int, depth: int = 0) -> None:
    """Keep every other number under its key; the Rust client's steady state is an object of its own."""
    if isinstance(item, dict) and depth < 2 and (depth or key == "steady_state"):
        for name, inner in item.items():
            _take_extra(draft, f"{key}_{name}", inner, line, depth + 1)
    elif isinstance(item, int | float) and not isinstance(item, bool) and len(key) <= 120:
        reading = _number(item)
        if reading.value is not None:
            draft.keep(key, reading.value, line, key)


def _number(item: object, *, whole: bool = False) -> Reading:
    shown = one_line(repr(item), 60)
    if isinstance(item, bool) or not isinstance(item, int | float):
        return Reading(None, f"{shown} is not a number")
    if isinstance(item, float) and not math.isfinite(item):
        return Reading(None, f"{shown} is not a finite number")
    if item < 0:
        return Reading(None, f"{shown} is negative: a marker, not a measurement")
    if item > _LARGEST:  # and more than a float holds, perhaps
        return Reading(None, f"{shown} is larger than any measurement")
    if whole and not float(item).is_integer():
        return Reading(None, f"{shown} is not a whole number")
    return Reading(int(item) if whole else item)
