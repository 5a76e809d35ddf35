"""The argument list of one `vllm bench serve`: pure, for any vLLM version from 0.8.5 on.

Everything that decides what is measured stands in the list, whatever the version's defaults are: seed,
temperature, ignored end-of-sequence, exact lengths, percentiles. Two versions then measure the same thing,
or the difference is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from fleetbench.errors import NotPossible, UsageError, one_line
from fleetbench.model import Workload
from fleetbench.vllm_features import Dataset, FeatureTable, Version, feature_table, parse_version

METRICS = "ttft,tpot,itl,e2el"
# Before 0.14 the client waits ten minutes for a dead server; we have proved readiness already.
_READY_CHECK_S = 60


def bench_command(
    *,
    version: str,
    executable: Sequence[str],
    model: str,
    served_name: str,
    tokenizer: str,
    host: str,
    port: int,
    workload: Workload,
    seed: int,
    result_dir: str,
    result_filename: str,
    percentiles: Sequence[float] = (50, 90, 95, 99),
    save_detailed: bool = True,
    ready_check_s: int | None = None,
) -> tuple[str, ...]:
    """Return the argv that measures `workload` once and saves the result JSON.

    `version` is the client's vLLM version; `executable` how its `vllm` is started; `model` the name or path
    that the server was started with, `served_name` its name in the API (empty: the same), `tokenizer` empty
    for the model's own; `workload.prompts` the path of the prompt file on the client's host. `ready_check_s`
    seconds the client waits for the server; None: not at all where the version can, else a minute.

    Raises `NotPossible` when this version cannot do what the workload asks, `UsageError` when the workload
    contradicts itself.
    """
    table, client = feature_table(), parse_version(version)
    _require_client(table, client)
    routing, _, api = table.behaviour("bench_routing", client).partition(" ")
    argv = [*executable, "bench", "serve", routing, api]
    argv += _address(host, port)
    argv += _option("--model", model)
    argv += _option("--served-model-name", served_name) if served_name and served_name != model else ()
    argv += _option("--tokenizer", tokenizer) if tokenizer else ()
    argv += _dataset(table, client, workload)
    argv += ["--num-prompts", str(workload.num_prompts), "--seed", str(seed), "--ignore-eos"]
    argv += _temperature(table, client, workload)
    argv += _load(workload)
    argv += _ready_check(table, client, ready_check_s)
    shown = ",".join(f"{p:g}" for p in percentiles)
    argv += ["--percentile-metrics", METRICS, "--metric-percentiles", shown]
    argv += ["--save-result", *(["--save-detailed"] if save_detailed else [])]
    argv += [*_option("--result-dir", result_dir), *_option("--result-filename", result_filename)]
    argv += _extra(table, client, workload)
    return tuple(argv)


def _option(flag: str, value: str) -> tuple[str, ...]:
    """A value that begins with a dash would be taken for a flag."""
    return (f"{flag}={value}",) if value.startswith("-") else (flag, value)


def _require_client(table: FeatureTable, client: Version) -> None:
    if not table.commands["bench_serve"].in_version(client):
        raise NotPossible(
            f"vLLM {client} has no `vllm bench serve`",
            next_step="measure with a client of 0.8.5 or newer; the server may stay older",
        )


def _address(host: str, port: int) -> tuple[str, ...]:
    """The client pastes host and port into a URL: an IPv6 address needs brackets, which --base-url keeps."""
    if ":" in host:
        return ("--base-url", f"http://[{host.strip('[]')}]:{port}")
    return ("--host", host, "--port", str(port))


def _dataset(table: FeatureTable, client: Version, workload: Workload) -> Iterator[str]:
    dataset = table.datasets.get(workload.dataset)
    if dataset is None:
        yield from ("--dataset-name", workload.dataset)  # lengths and files then come from extra_args
        if workload.prompts:
            yield from _option("--dataset-path", workload.prompts)
        return
    if not dataset.in_version(client):
        raise NotPossible(
            f"vLLM {client} has no dataset '{dataset.name}' ({dataset.span})",
            next_step="use dataset = 'random' or 'custom' in the workload",
        )
    yield from ("--dataset-name", dataset.name)
    yield from _file(dataset, workload)
    if dataset.input_flag:
        yield from (dataset.input_flag, str(workload.input_len))
    yield from (dataset.output_flag, str(workload.output_len))
    if dataset.name == "random" and not _names(workload.extra_args, "--random-range-ratio"):
        yield from ("--random-range-ratio", table.behaviour("bench_exact_length_ratio", client))


def _file(dataset: Dataset, workload: Workload) -> tuple[str, ...]:
    if dataset.needs_file != bool(workload.prompts):
        raise UsageError(
            f"dataset '{dataset.name}' {'needs a' if dataset.needs_file else 'takes no'} prompt file",
            next_step="set or remove `prompts` in the workload",
        )
    return _option("--dataset-path", workload.prompts) if workload.prompts else ()


def _temperature(table: FeatureTable, client: Version, workload: Workload) -> tuple[str, ...]:
    flag = table.flags["bench_serve"]["--temperature"]
    if flag.in_version(client):
        return ("--temperature", f"{workload.temperature:g}")
    if workload.temperature == 0:
        return ()  # those versions send 0 in every request
    raise NotPossible(
        f"the bench client of vLLM {client} always measures with temperature 0",
        next_step=f"set temperature = 0, or use a client of {flag.span}",
    )


def _load(workload: Workload) -> Iterator[str]:
    if workload.max_concurrency is not None:
        yield from ("--max-concurrency", str(workload.max_concurrency))
    rate = workload.request_rate
    yield from ("--request-rate", "inf" if rate is None else _decimal(rate))


def _decimal(value: float) -> str:
    """As short as exact, never with an exponent."""
    return str(int(value)) if float(value).is_integer() else json.dumps(value)


def _ready_check(table: FeatureTable, client: Version, wanted_s: int | None) -> tuple[str, ...]:
    flag = table.flags["bench_serve"]["--ready-check-timeout-sec"]
    if not flag.in_version(client):
        return ()
    waits = table.behaviour("bench_ready_check_default_s", client) != "0"
    seconds = wanted_s if wanted_s is not None else (_READY_CHECK_S if waits else 0)
    return (flag.name, str(seconds))


def _extra(table: FeatureTable, client: Version, workload: Workload) -> tuple[str, ...]:
    # argparse takes abbreviations (--temp), vLLM's parser underscores too (--max_concurrency).
    flags = [
        argument.partition("=")[0].replace("_", "-")
        for argument in workload.extra_args
        if argument.startswith("--")
    ]
    if taken := [flag for flag in flags if any(ours.startswith(flag) for ours in table.reserved)]:
        raise UsageError(
            f"extra_args of the workload repeat {', '.join(taken)}",
            cause="the last one wins, and the record of the run would not say what was measured",
            next_step="use the workload's own keys instead",
        )
    if refused := table.refused("bench_serve", flags, client):
        raise NotPossible(
            f"vLLM {client} does not know {', '.join(flag.name for flag in refused)}",
            cause=one_line("; ".join(f"{flag.name}: {flag.span}" for flag in refused)),
            next_step="take it out of the workload's extra_args, or use another client version",
        )
    return workload.extra_args


def _names(arguments: Sequence[str], flag: str) -> bool:
    return any(argument.partition("=")[0] == flag for argument in arguments)
