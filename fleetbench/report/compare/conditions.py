"""What an entry was measured with: weights, load, hardware, versions, settings, to be compared. Pure.

All of it was written by a host or by another author: it is shown as text and never believed to be whole.
An aspect without a value is not known, which is said and is no difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleetbench.errors import one_line, without_secrets
from fleetbench.report.compare.measured_with import (
    NO_DOCUMENT,
    number_at,
    text_at,
    variables,
    words_of_server,
)
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT
from fleetbench.results.imports.values import ForeignRow
from fleetbench.results.rows import Json, RunRow, TrialRow

# Words as they are, numbers with a tolerance, arguments each for itself. Empty text: not known.
Value = str | float | tuple[str, ...]
Values = Mapping[str, Value]

_SERVER = ("trial", "args", "variant", "name", "configuration")
_SPLIT = ("trial", "tp", "dp", "pp", "units", "gpus", "name", "configuration")
PACKAGE = "package "
PROMPTS_CONTENT = "prompts_content"
MOST_PACKAGES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """One thing that two entries may differ in.

    Attributes:
        matters: entries that differ in it are other populations, and not compared unless that is asked for.
        told: fields of a selector that ask for it.
        percent: numbers that are no farther apart are alike.
        instead_of: key of the aspect that says nothing more where both sides know this one.
    """

    title: str
    matters: bool = False
    told: tuple[str, ...] = ()
    percent: float = 0.0
    unit: str = ""
    instead_of: str = ""


ASPECTS: Mapping[str, Aspect] = {
    "origin": Aspect(title="origin", matters=True),
    "model": Aspect(title="model", matters=True, told=("model",)),
    "gpu": Aspect(title="GPU", matters=True, told=("gpu",)),
    "gpus": Aspect(title="GPUs", matters=True, told=_SPLIT),
    "dtype": Aspect(title="dtype", matters=True, told=_SERVER),
    "quantisation": Aspect(title="quantisation", matters=True, told=_SERVER),
    "kv_dtype": Aspect(title="KV dtype", matters=True, told=_SERVER),
    "dataset": Aspect(title="dataset", matters=True, told=("dataset",)),
    "prompts": Aspect(title="prompts", matters=True),
    PROMPTS_CONTENT: Aspect(title="prompts", matters=True, instead_of="prompts"),
    "input_len": Aspect(title="tokens sent", matters=True, told=("input",)),
    "output_len": Aspect(title="tokens back", matters=True, told=("output",)),
    "output_control": Aspect(title="answers run", matters=True),
    "requests": Aspect(title="requests", matters=True, told=("n",)),
    "concurrency": Aspect(title="concurrency", matters=True, told=("c",)),
    "rate": Aspect(title="requests/s sent", matters=True, told=("rate",)),
    "temperature": Aspect(title="temperature", matters=True),
    "client_args": Aspect(title="client's arguments", matters=True),
    "client": Aspect(title="client", matters=True),
    "configuration": Aspect(title="configuration"),
    "arguments": Aspect(title="server's arguments"),
    "variables": Aspect(title="server's variables"),
    "build": Aspect(title="build"),
    "length": Aspect(title="max-model-len in effect"),
    "kv_tokens": Aspect(title="KV tokens", percent=2.0, unit="tokens"),
    "attention": Aspect(title="attention"),
    "prefix_cache": Aspect(title="prefix cache"),
    "eager": Aspect(title="eager mode"),
    "engine": Aspect(title="engine"),
    "vllm": Aspect(title="vLLM"),
    "client_version": Aspect(title="client's version"),
    "host": Aspect(title="host"),
    "driver": Aspect(title="driver"),
    "cuda": Aspect(title="CUDA of the driver"),
    "power_limit": Aspect(title="power limit", unit="W"),
    "highest_clock": Aspect(title="highest GPU clock", unit="MHz"),
    "clock": Aspect(title="mean GPU clock", percent=2.0, unit="MHz"),
    "kernel": Aspect(title="kernel"),
    "os": Aspect(title="system"),
    "python": Aspect(title="Python"),
    "cpus": Aspect(title="processors"),
    "seeds": Aspect(title="seeds"),
    "fleetbench": Aspect(title="fleetbench"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A trial with what it left: versions.json and facts-before.json; empty: not to be had.

    `prompts` are SHA-256 sums of the file that prompts were taken from, as each repeat found it.
    """

    trial: TrialRow
    versions: Mapping[str, Json] = field(default_factory=lambda: NO_DOCUMENT)
    facts: Mapping[str, Json] = field(default_factory=lambda: NO_DOCUMENT)
    prompts: tuple[str, ...] = ()


def of_own(entry: Entry, run: RunRow, evidence: Sequence[Evidence]) -> dict[str, Value]:
    """Return the conditions of an own entry, from its trials' rows and documents."""
    found = _of_any(entry) | {
        "origin": "own",
        "prompts": entry.workload.prompts or "each its own",
        PROMPTS_CONTENT: _each(f"sha256 {found[:16]}" for each in evidence for found in each.prompts),
        "output_control": "to the length asked for",
        "temperature": f"{entry.workload.temperature:g}",
        "requests": str(entry.workload.num_prompts),
        "client_args": grouped_words(entry.workload.extra_args),
        "seeds": _seeds(entry),
        "fleetbench": run.fleetbench_version,
        "build": entry.config.build,
    }
    effective = [each.trial.effective for each in evidence]
    dtype = _each(_word(values.get("dtype")) for values in effective)
    found |= {
        "dtype": dtype or _dtype(entry.config.serve_args),
        # A server that says its dtype names a quantisation where it has one.
        "quantisation": _each(_word(values.get("quantization")) for values in effective)
        or ("none" if dtype else ""),
        "kv_dtype": _each(_word(values.get("kv_cache_dtype")) for values in effective),
        "length": _each(_word(values.get("max_model_len")) for values in effective),
        "kv_tokens": _number(values.get("kv_cache_tokens") for values in effective),
        "attention": _each(_word(values.get("attention_backend")) for values in effective),
        "prefix_cache": _each(_word(values.get("prefix_caching")) for values in effective),
        "eager": _each(_word(values.get("enforce_eager")) for values in effective),
        "clock": _number([entry.telemetry.get("gpu_sm_mhz_mean")]),
        "highest_clock": _number([entry.telemetry.get("gpu_sm_mhz_max_possible")]),
    }
    units = [each.trial.unit_text for each in evidence if each.trial.unit_text]
    if units:
        found["arguments"] = grouped_words(words_of_server(units[0]))
        found["variables"] = tuple(variables(units[0]))
    found |= dict(_of_hosts(evidence))
    return {name: value for name, value in found.items() if value != ""}


def of_imported(entry: Entry, row: ForeignRow) -> dict[str, Value]:
    """Return the conditions of an imported entry, as far as its source says."""
    about = row.conditions
    words = _split_words(about.serve_args)
    found = _of_any(entry) | {
        "origin": f"imported {entry.source}",
        "prompts": _said(about.same_prompt, "one for all", "each its own"),
        "output_control": _said(about.ignore_eos, "to the length asked for", "may end early"),
        "requests": str(entry.workload.num_prompts or ""),
        "client_args": grouped_words(_split_words(about.client_args)) if about.client_args else "",
        "engine": about.engine,
        "dtype": _dtype(words),
        "quantisation": _after(words, "--quantization"),
        "kv_dtype": _after(words, "--kv-cache-dtype"),
        "arguments": grouped_words(words) if about.serve_args else "",
        "eager": ("on" if "--enforce-eager" in words else "off") if about.serve_args else "",
    }
    if not entry.split_known:
        found["configuration"] = ""
    if entry.workload.max_concurrency is None:
        found["concurrency"] = ""
    if row.result.request_rate is None:
        found["rate"] = ""
    return {name: value for name, value in found.items() if value != ""}


def grouped_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return arguments with their values, to be shown: sorted, short, without secrets."""
    return tuple(sorted(one_line(without_secrets(text), 200) for text in with_values(words)))


def with_values(words: Iterable[str]) -> tuple[str, ...]:
    """Return arguments with their values: `--dtype half`, whether it was written with `=` or a space.

    In the order of the flags; the values of one that is there twice stay in theirs.
    """
    found: list[str] = []
    for word in words:
        flag, equals, value = word.partition("=")
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            found.append(f"{flag} {value}" if equals and word.startswith("--") else word)
        elif found and found[-1].startswith("-"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return tuple(sorted(found, key=lambda text: text.partition(" ")[0]))


def _of_any(entry: Entry) -> dict[str, Value]:
    load, config = entry.workload, entry.config
    client, _, version = entry.client.partition(" ")
    parts = [f"tp={config.tp} dp={config.dp} pp={config.pp}", "ep" if config.ep else ""]
    parts += [f"units={config.units}" if config.units != 1 else ""]
    parts += [f"len={config.max_model_len}" if config.max_model_len is not None else ""]
    found: dict[str, Value] = {
        "model": entry.model,
        "gpu": entry.gpu or ("" if entry.imported else "none named"),
        "gpus": "" if entry.gpus is None else str(entry.gpus),
        "host": entry.host,
        "vllm": entry.vllm_version,
        "configuration": " ".join(filter(None, parts)),
        "dataset": "" if load.dataset == "unknown" else load.dataset,
        "input_len": str(load.input_len or ""),
        "output_len": str(load.output_len or ""),
        "concurrency": "no limit" if load.max_concurrency is None else str(load.max_concurrency),
        "rate": "all at once" if load.request_rate is None else f"{load.request_rate:g}",
        "client": client.rstrip(","),
        "client_version": version,
    }
    if entry.imported:
        found["client"], found["client_version"] = entry.client, ""
    return {name: one_line(value, 200) if isinstance(value, str) else value for name, value in found.items()}


def _of_hosts(evidence: Sequence[Evidence]) -> Iterator[tuple[str, Value]]:
    """Yield what the hosts' documents say."""
    for key in ("kernel", "os", "python", "driver", "cuda"):
        yield key, _each(text_at(each.versions, "server", key) for each in evidence)
    yield "cpus", _each(text_at(each.facts, "facts", "cpus") for each in evidence)
    limits = {
        limit
        for each in evidence
        for index in (each.trial.gpus.indices if each.trial.gpu_name else ())
        if (limit := number_at(each.facts, "facts", "gpus", index, "power_limit_w")) is not None
    }
    yield (
        "power_limit",
        "–".join(f"{limit:g}" for limit in sorted({min(limits), max(limits)})) if limits else "",
    )
    packages: dict[str, list[str]] = {}
    for each in evidence:
        server = each.versions.get("server")
        listed = server.get("packages") if isinstance(server, dict) else None
        for name in list(listed if isinstance(listed, dict) else ())[:MOST_PACKAGES]:
            packages.setdefault(one_line(name, 60), []).append(
                text_at(each.versions, "server", "packages", name)
            )
    for name, versions in packages.items():
        if not name.startswith("vllm"):  # the server says itself which vLLM it is
            yield f"{PACKAGE}{name}", _each(versions)


def _seeds(entry: Entry) -> str:
    seeds = sorted({each.seed for each in entry.observations.get(OUTPUT.key, ()) if each.seed is not None})
    return ", ".join(map(str, seeds[:6])) + (", …" if len(seeds) > 6 else "")


def _each(words: Iterable[str]) -> str:
    """Return each different word once."""
    return ", ".join(sorted({one_line(word, 120) for word in words if word})[:4])


def _word(value: Json) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return one_line(str(value), 120) if isinstance(value, int | float | str) else ""


def _number(values: Iterable[Json]) -> Value:
    """Return the middle of the numbers; empty text where there is none."""
    known = sorted(float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    return known[len(known) // 2] if known else ""


def _said(state: bool | None, yes: str, no: str) -> str:
    return "" if state is None else yes if state else no


def _dtype(words: Sequence[str]) -> str:
    named = _after(words, "--dtype")
    return "" if named == "auto" else {"half": "float16", "float": "float32"}.get(named, named)


def _after(words: Sequence[str], flag: str) -> str:
    """Return the value of a flag; empty where it is not there."""
    for text in grouped_words(words):
        name, _, value = text.partition(" ")
        if name == flag:
            return value
    return ""


def _split_words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())
