"""What a server says about itself while it starts: how far it is, and which figures it arrived at.

Journal text in, `ServiceLog` out; `follow` continues with the next piece, so that a live display reads each
line once. Texts are those of vLLM 0.8 to 0.33; where a version changed the wording both forms are known:
"Model loading took 14.9 GiB and" (0.11.0 and older) and "14.9 GiB memory and"; KV-cache size and maximum
concurrency on two lines (0.29 and older) or on one; "Starting vLLM API server N on" (0.17 and older) and
"Starting vLLM server on". Several ranks repeat a line, newer versions print some only once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fleetbench.log_lines import LogLine, read_lines, without_ansi


class Phase(StrEnum):
    """How far a start is; each ends where the next begins. `COMPILING` includes measuring the memory."""

    IMPORTING = "importing"
    LOADING = "loading"
    COMPILING = "compiling"
    CAPTURING = "capturing"
    READY = "ready"


_ORDER = tuple(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLog:
    """Facts read from the log of one start; None and empty mean that the log does not say.

    Attributes:
        phase: the furthest phase that any process reached.
        percent: progress within loading or capturing.
        tp, pp, dp, max_model_len: what the engine really runs with.
        model: name or path that the engine loads; of a model that is offline the snapshot's path.
        dtype: of the computation, `bfloat16`; quantization: empty also when there is none.
        kv_cache_dtype: `auto` means the model's own.
        max_num_seqs: how many requests run at a time at most, where the command line says so.
        model_load_gib: GPU memory of the weights, the largest of the ranks.
        weights_load_s, model_load_s: time for the weight files, and for the whole model; the slowest rank's.
        kv_cache_gib: memory for the KV cache, the smallest of the ranks.
        kv_cache_tokens: room of one engine (the smallest); a data-parallel server has one per engine.
        max_concurrency: how many requests of `concurrency_tokens` tokens one engine holds at a time.
        graph_capture_s, graph_gib, compile_s, engine_init_s: CUDA graphs, torch.compile, the engine in all.
    """

    phase: Phase | None = None
    percent: int | None = None
    vllm_version: str = ""
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    max_model_len: int | None = None
    model: str = ""
    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    enforce_eager: bool | None = None
    prefix_caching: bool | None = None
    max_num_seqs: int | None = None
    attention_backend: str = ""
    model_load_gib: float | None = None
    weights_load_s: float | None = None
    model_load_s: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    concurrency_tokens: int | None = None
    max_concurrency: float | None = None
    graph_capture_s: float | None = None
    graph_gib: float | None = None
    compile_s: float | None = None
    engine_init_s: float | None = None
    url: str = ""


_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
# (expression at the start of a message, phase that it shows); group names are fields of ServiceLog.
_MARKERS: tuple[tuple[re.Pattern[str], Phase | None], ...] = tuple(
    (re.compile(expression), phase)
    for expression, phase in (
        (r"Automatically detected platform ", Phase.IMPORTING),
        (r"vLLM API server version (?P<vllm_version>[\w.+-]{1,40})", Phase.IMPORTING),
        (r"[\s▄▀█]{8,60}version (?P<vllm_version>\d[\w.+-]{1,40})", Phase.IMPORTING),
        (r"non-default args: |args: Namespace\(", Phase.IMPORTING),
        (r"Resolved architecture: ", Phase.IMPORTING),
        (r"Using max model len (?P<max_model_len>\d{1,9})", Phase.IMPORTING),
        (r"Initializing a V\d LLM engine \(v(?P<vllm_version>[\w.+-]{1,40})\) with config", Phase.IMPORTING),
        (r"Starting to load model ", Phase.LOADING),
        (r"Using (?P<attention_backend>[A-Z][A-Z0-9_]{1,40}) (?:attention )?backend\b", Phase.LOADING),
        (r"Loading [A-Za-z ]{2,60}: {1,4}\d{1,3}%", Phase.LOADING),
        (rf"Loading weights took (?P<weights_load_s>{_NUMBER}) s", Phase.LOADING),
        (
            rf"Model loading took (?P<model_load_gib>{_NUMBER}) Gi?B(?: memory)? and"
            rf" (?P<model_load_s>{_NUMBER}) s",
            Phase.LOADING,
        ),
        (r"Dynamo bytecode transform time|Compiling a graph for |Using cache directory", Phase.COMPILING),
        (rf"torch\.compile took (?P<compile_s>{_NUMBER}) s", Phase.COMPILING),
        (r"Initial profiling/warmup run took|Memory profiling takes", Phase.COMPILING),
        (rf"Available KV cache memory: (?P<kv_cache_gib>{_NUMBER}) GiB", Phase.COMPILING),
        (rf"Explicitly set \((?P<kv_cache_gib>{_NUMBER})/{_NUMBER}\) GiB for KV cache", Phase.COMPILING),
        (
            r"[A-Z]{3,4} KV cache size: (?P<kv_cache_tokens>[\d,]{1,20}) tokens(?:, Maximum concurrency for"
            rf" (?P<concurrency_tokens>[\d,]{{1,20}}) tokens per request: (?P<max_concurrency>{_NUMBER})x)?",
            Phase.COMPILING,
        ),
        (
            r"Maximum concurrency for (?P<concurrency_tokens>[\d,]{1,20}) tokens per request:"
            rf" (?P<max_concurrency>{_NUMBER})x",
            Phase.COMPILING,
        ),
        (r"Profiling CUDA graph memory|Capturing (?:CUDA|HIP) ?graph|Capturing the model", Phase.CAPTURING),
        (
            rf"Graph capturing finished in (?P<graph_capture_s>{_NUMBER}) secs?"
            rf"(?:, took (?P<graph_gib>{_NUMBER}) GiB)?",
            Phase.CAPTURING,
        ),
        (rf"init engine \([^)]{{1,80}}\) took (?P<engine_init_s>{_NUMBER}) s", None),
        (r"Starting vLLM (?:API )?server (?:\d{1,4} )?on (?P<url>https?://\S{1,120})", None),
        (r"Application startup complete", Phase.READY),
    )
)
_PARALLEL = re.compile(
    r", max_seq_len=(?P<max_model_len>\d{1,9}), .{0,200}\btensor_parallel_size=(?P<tp>\d{1,4}),"
    r" pipeline_parallel_size=(?P<pp>\d{1,4}), (?:data_parallel_size=(?P<dp>\d{1,4}), )?"
)
# Words of the same line, each by itself: their order and neighbours differ between versions.
_ENGINE = tuple(
    re.compile(expression)
    for expression in (
        r"config: model=\'(?P<model>[^\']{1,300})\'",
        r"\bdtype=torch\.(?P<dtype>\w{1,30})",
        r"\bquantization=(?P<quantization>(?!None\b)[\w.-]{1,60})",
        r"\bkv_cache_dtype=(?P<kv_cache_dtype>[\w.]{1,30})",
        r"\benforce_eager=(?P<enforce_eager>True|False)",
        r"\benable_prefix_caching=(?P<prefix_caching>True|False)",
    )
)
# Each engine of a dense model believes that it is alone (dp=1); the arguments know how many there are.
_ARGUED = tuple(
    re.compile(expression)
    for expression in (
        r"\bdata_parallel_size(?:\': |=)(?P<dp>\d{1,4})\b",
        r"\bmax_num_seqs(?:\': |=)(?P<max_num_seqs>\d{1,7})\b",
    )
)
# Lines that hold several facts: how they begin, and what is looked for in them.
_INSIDE = (
    ("Initializing a V", (_PARALLEL, *_ENGINE)),
    ("non-default args: ", _ARGUED),
    ("args: Namespace(", _ARGUED),  # 0.8
)
_COMPILATION = re.compile(rf"\(compilation: (?P<compile_s>{_NUMBER}) s\)")
_PERCENT = re.compile(r": {1,4}(?P<percent>\d{1,3})%")
_WHOLE = (
    *("tp", "pp", "dp", "max_model_len", "max_num_seqs"),
    *("kv_cache_tokens", "concurrency_tokens", "percent"),
)
_SMALLEST = ("kv_cache_gib", "kv_cache_tokens", "max_concurrency")
_WORDS = ("vllm_version", "model", "dtype", "quantization", "kv_cache_dtype", "attention_backend", "url")
_SWITCHES = ("enforce_eager", "prefix_caching")


def read_service_log(text: str) -> ServiceLog:
    """Given the log of one start (a journal in any form), return what it says."""
    return follow(ServiceLog(), text)


def follow(before: ServiceLog, text: str) -> ServiceLog:
    """Given what is known and the next whole lines of the same log, return what is known now."""
    for line in read_lines(without_ansi(text)):
        # Warnings, errors and what clients send are no facts about the start.
        if line.level in ("INFO", "") and not line.code:
            before = _learn(before, line)
    return before


def phase(line: str) -> str:
    """Given one line of a server's log, return the phase that it shows for a display, else an empty text.

    `loading 27%`, `compiling`, `ready`.
    """
    shown = follow(ServiceLog(), line)
    if shown.phase is None:
        return ""
    return f"{shown.phase} {shown.percent}%" if shown.percent is not None else str(shown.phase)


def _learn(log: ServiceLog, line: LogLine) -> ServiceLog:
    for expression, shown in _MARKERS:
        match = expression.match(line.text)
        if match is None:
            continue
        found: dict[str, str | None] = dict(match.groupdict())
        if "engine_init_s" in found and (compilation := _COMPILATION.search(line.text)):
            found |= compilation.groupdict()
        for start, expressions in _INSIDE:
            if line.text.startswith(start):
                for match_inside in filter(None, (inside.search(line.text) for inside in expressions)):
                    found |= match_inside.groupdict()
        return replace(_moved(log, shown, line.text), **_values(log, found))
    return log


def _moved(log: ServiceLog, shown: Phase | None, message: str) -> ServiceLog:
    """Return the log with its phase moved forward, never back: ranks are at different points."""
    if shown is None or (log.phase is not None and _ORDER.index(shown) < _ORDER.index(log.phase)):
        return log
    percents = [int(match["percent"]) for match in _PERCENT.finditer(message)]
    known = log.percent if shown is log.phase else None
    return replace(log, phase=shown, percent=min(percents[-1], 100) if percents else known)


def _values(log: ServiceLog, found: dict[str, str | None]) -> dict[str, Any]:
    """Return the fields that a line gives; of several ranks the one that limits (see `ServiceLog`)."""
    values: dict[str, Any] = {}
    for name, text in found.items():
        if text is None:
            continue
        if name in _WORDS:
            values[name] = text
            continue
        if name in _SWITCHES:
            values[name] = text == "True"
            continue
        value: float = int(text.replace(",", "")) if name in _WHOLE else float(text)
        known = getattr(log, name)
        if known is not None and name != "max_model_len":
            value = min(known, value) if name in _SMALLEST else max(known, value)
        values[name] = value
    return values
