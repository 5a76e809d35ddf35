"""Reports and result files of `vllm bench serve` and SGLang's client; directories of `vllm bench sweep`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleetbench.errors import one_line
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.parse import parse
from fleetbench.results.samples import Samples, read_samples
from fleetbench.results.values import Block

# `vllm bench sweep` names a directory after what it varied: SERVE--max_num_seqs=4-BENCH--max_concurrency=16.
SWEPT = re.compile(r"(?:SERVE|BENCH|WL)--\S{1,400}")
_PART = re.compile(r"(?:^|-)(SERVE|BENCH|WL)--")
_PARAMETER = re.compile(r"([a-z][a-z0-9_]{0,60})=([^=]{1,200}?)(?=-[a-z][a-z0-9_]{0,60}=|$)")
_CONDITION = {
    "tensor_parallel_size": "tp",
    "data_parallel_size": "dp",
    "pipeline_parallel_size": "pp",
    "max_model_len": "max_model_len",
    "random_input_len": "input_len",
    "random_output_len": "output_len",
}
_METADATA = re.compile(rf'"({"|".join(_CONDITION)})": ?"?(\d{{1,9}})"?[,\s}}]')
_CLIENTS = {"vllm": "vllm bench serve", "sglang": "sglang.bench_serving", "gpustack": "gpustack"}


def report_rows(text: str, source: str, swept: str = "") -> tuple[ForeignRow, ...]:
    """Given the text of a report or result file, return a row for each result in it.

    `swept` is the name of the directory of `vllm bench sweep` that the file lies in. Raises `Unreadable`
    when there is no result.
    """
    blocks = parse(text, source)
    # Of several results in one file it is not known here which requests, and which metadata, are whose.
    alone = len(blocks) == 1
    samples = read_samples(text) if alone and '"ttfts"' in text else None
    conditions = _stated(text, swept_conditions(swept)) if alone else swept_conditions(swept)
    return tuple(_row(block, conditions, swept, samples) for block in blocks)


def _stated(text: str, conditions: Conditions) -> Conditions:
    """Add what `--metadata tensor_parallel_size=2` wrote into a result: vLLM keeps its values as text."""
    for key, value in _METADATA.findall(text):
        name = _CONDITION[key]
        if getattr(conditions, name) is None and int(value) > 0:
            stated: dict[str, Any] = {name: int(value)}
            conditions = replace(conditions, **stated)
    return conditions


def _row(block: Block, conditions: Conditions, swept: str, samples: Samples | None) -> ForeignRow:
    engine = next((name for name in _CLIENTS if block.dialect.startswith(name)), "")
    model = block.result.model_id or ""
    return ForeignRow(
        table=swept,
        label=one_line(model, 80),
        place=f"{block.source} line {block.first_line}",
        form=block.dialect if block.dialect.endswith("json") else f"{block.dialect}-text",
        conditions=replace(conditions, model=model, client=_CLIENTS.get(engine, ""), engine=engine),
        result=block.result,
        complete=block.complete,
        problems=block.problems,
        samples=samples,
    )


def swept_parameters(name: str) -> Mapping[str, str]:
    """Given the name of a directory of a sweep, return what it varied; empty when it is named otherwise."""
    if SWEPT.fullmatch(name) is None:
        return {}
    found: dict[str, str] = {}
    for part in _PART.split(name)[2::2]:
        found |= dict(_PARAMETER.findall(part))
    return found


def swept_conditions(name: str) -> Conditions:
    """Return what the name of a sweep's directory says about the rows in it."""
    parameters = swept_parameters(name)
    numbers: dict[str, Any] = {
        field: int(parameters[key])
        for key, field in _CONDITION.items()
        if re.fullmatch(r"\d{1,12}", parameters.get(key, ""))
    }
    rest = " ".join(f"--{key.replace('_', '-')}={value}" for key, value in parameters.items())
    return Conditions(serve_args=one_line(rest, 400), **numbers)
