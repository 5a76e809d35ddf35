"""What a running server really is, read back from itself, and where that is not what was asked for.

vLLM settles many things by itself: it lowers a context length, changes a back end, and a stale server of
another version answers on the port just as well. A number is worth nothing under the name of a configuration
that was not the one measured. What no source says is unknown and never a mismatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.model import Config, Failure
from fleetbench.service.http import Served
from fleetbench.service.metrics import Reading
from fleetbench.service_log import ServiceLog

KIND = "effective-configuration-differs"
# `--dtype` knows several names for one type.
_DTYPES = {"half": "float16", "float": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a trial asked for.

    Attributes:
        model: as on the command line, a Hugging Face name or a path; served_name: its name in the API.
        version: that vLLM has to report; empty: not known (a build with a numbering of its own).
        arguments: all further arguments of `vllm serve`.
    """

    config: Config
    model: str
    served_name: str = ""
    version: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """What runs; None and empty: no source says.

    Attributes:
        model: what the engine loaded. models: names that the server answers to.
        engines: data-parallel engines that keep counters of their own, each with its own KV cache.
        kv_cache_tokens: room of all engines together, counted with the smallest.
        concurrent_sequences: requests of full length that fit into that room at a time.
        max_num_seqs: limit of one engine, where it was given.
        weights_gib: GPU memory of the weights on the rank with most of them.
    """

    vllm_version: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    engines: int | None = None
    max_model_len: int | None = None
    kv_cache_tokens: int | None = None
    concurrent_sequences: float | None = None
    max_num_seqs: int | None = None
    weights_gib: float | None = None
    attention_backend: str = ""
    enforce_eager: bool | None = None
    prefix_caching: bool | None = None
    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""


def read_back(log: ServiceLog, served: Served, reading: Reading | None = None) -> Effective:
    """Given the log of one start, what the server answered and its metrics, return what runs.

    The live answers count more than the log. Each engine of a dense model believes that it is alone, so the
    larger of what the arguments, the engines and the metrics say is the data-parallel size.
    """
    seen = reading or Reading()
    dp = max((size for size in (log.dp, seen.engines) if size is not None), default=None)
    engines = seen.engines or dp
    one_cache = _whole(seen.cache.get("kv_cache_size_tokens")) or log.kv_cache_tokens or _blocks(seen)
    length = served.max_model_len or log.max_model_len
    fit = log.max_concurrency or _real(seen.cache.get("kv_cache_max_concurrency"))
    return Effective(
        vllm_version=served.version or log.vllm_version,
        model=log.model or served.root,
        models=served.models,
        tp=log.tp,
        dp=dp,
        pp=log.pp,
        engines=engines,
        max_model_len=length,
        kv_cache_tokens=one_cache * (engines or 1) if one_cache else None,
        concurrent_sequences=round(fit * (engines or 1), 2) if fit else None,
        max_num_seqs=log.max_num_seqs,
        weights_gib=log.model_load_gib,
        attention_backend=log.attention_backend,
        enforce_eager=log.enforce_eager,
        prefix_caching=_switch(seen.cache.get("enable_prefix_caching"), log.prefix_caching),
        dtype=log.dtype,
        quantization=log.quantization,
        kv_cache_dtype=_cache_dtype(seen.cache.get("cache_dtype"), log.kv_cache_dtype),
    )


def mismatches(asked: Asked, effective: Effective) -> tuple[str, ...]:
    """Return each difference as one sentence with both values; empty when nothing known differs."""
    return tuple(_differences(asked, effective))


def failure_of(found: tuple[str, ...]) -> Failure:
    """Given at least one mismatch, return the failure of the trial."""
    return Failure(
        kind=KIND,
        cause="the server runs with another configuration than asked for",
        evidence="; ".join(found),
        advice="ask for what it can do (the journal of this start says why it changed), or end what answers"
        " in its place; nothing was measured under the wrong name",
    )


def _differences(asked: Asked, effective: Effective) -> Iterator[str]:
    config = asked.config
    numbers = (
        ("tensor-parallel size", _argued(asked, "--tensor-parallel-size", "-tp", config.tp), effective.tp),
        ("pipeline stages", _argued(asked, "--pipeline-parallel-size", "-pp", config.pp), effective.pp),
        ("data-parallel size", _argued(asked, "--data-parallel-size", "-dp", config.dp), effective.dp),
        (
            "max-model-len",
            _argued(asked, "--max-model-len", "", config.max_model_len),
            effective.max_model_len,
        ),
        ("max-num-seqs", _argued(asked, "--max-num-seqs", "", None), effective.max_num_seqs),
    )
    for what, wanted, found in numbers:
        if wanted is not None and found is not None and wanted != found:
            yield f"asked for {what} {wanted}, it runs with {found}"
    if effective.vllm_version and asked.version and not same_version(asked.version, effective.vllm_version):
        yield f"asked for vLLM {asked.version}, {one_line(effective.vllm_version, 60)} answers"
    if effective.model and not same_model(asked.model, effective.model):
        yield f"asked for model {asked.model}, it loaded {one_line(effective.model, 200)}"
    name = asked.served_name or asked.model
    if effective.models and name not in effective.models:
        yield f"asked for the name {name}, it answers to {one_line(', '.join(effective.models), 200)}"
    for what, switched, state in (
        ("eager mode", _switched(asked, "enforce-eager"), effective.enforce_eager),
        ("prefix caching", _switched(asked, "enable-prefix-caching"), effective.prefix_caching),
    ):
        if switched is not None and state is not None and switched != state:
            yield f"asked for {what} {_on(switched)}, it runs with it {_on(state)}"
    dtype = _word(asked, "--dtype")
    if effective.dtype and dtype not in ("", "auto") and _DTYPES.get(dtype, dtype) != effective.dtype:
        yield f"asked for dtype {dtype}, it computes in {effective.dtype}"
    backend = _word(asked, "--attention-backend")
    if backend and effective.attention_backend and backend.upper() != effective.attention_backend.upper():
        yield f"asked for attention backend {backend}, it chose {effective.attention_backend}"


def same_version(asked: str, found: str) -> bool:
    """True when two texts name the same release; local parts (`+cu129`) and post-releases do not count."""
    return _release(asked) == _release(found)


def same_model(asked: str, loaded: str) -> bool:
    """True when the engine loaded what was asked for: a name, a path, or the cached snapshot of a name."""
    asked, loaded = asked.rstrip("/"), loaded.rstrip("/")
    return asked == loaded or f"models--{asked.replace('/', '--')}/snapshots/" in loaded


def _release(version: str) -> tuple[str, str]:
    match = re.match(r"v?(?P<numbers>[\d.]*\d)(?P<suffix>[^+]*)", version)
    if match is None:
        return version, ""
    suffix = match["suffix"].strip(".")
    return re.sub(r"(?:\.0+)+$", "", match["numbers"]), "" if suffix.startswith("post") else suffix


def _argued(asked: Asked, flag: str, short: str, otherwise: int | None) -> int | None:
    """Return the number that counts: of several the last one on the command line."""
    word = _word(asked, flag) or (_word(asked, short) if short else "")
    return int(word) if re.fullmatch(r"\d{1,9}", word) else None if word else otherwise


def _word(asked: Asked, flag: str) -> str:
    found = ""
    words = (*asked.arguments, "")
    for place, argument in enumerate(words):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals else words[place + 1]
    return found


def _switched(asked: Asked, name: str) -> bool | None:
    state = None
    for argument in asked.arguments:
        if argument.replace("_", "-") in (f"--{name}", f"--no-{name}"):
            state = not argument.startswith("--no-")
    return state


def _on(switched: bool) -> str:
    return "on" if switched else "off"


def _switch(label: str | None, otherwise: bool | None) -> bool | None:
    return {"True": True, "False": False}.get(label or "", otherwise)


def _cache_dtype(label: str | None, otherwise: str) -> str:
    return label if label and re.fullmatch(r"[\w.]{1,30}", label) else otherwise


def _whole(label: str | None) -> int | None:
    return int(label) if label and re.fullmatch(r"[1-9]\d{0,14}", label) else None


def _real(label: str | None) -> float | None:
    return float(label) if label and re.fullmatch(r"\d{1,12}(?:\.\d{1,20})?", label) else None


def _blocks(reading: Reading) -> int | None:
    blocks, size = (_whole(reading.cache.get(name)) for name in ("num_gpu_blocks", "block_size"))
    return blocks * size if blocks and size else None
