"""sweeps.toml: `parallel` and `workload` in the forms that people write, into `Config`s and `Workload`s."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from fleetbench.inventory.axes import read_serve_args, read_variants
from fleetbench.inventory.documents import Place
from fleetbench.inventory.keys import LISTED, config_keys, sweep_keys, workload_keys
from fleetbench.inventory.kinds import INVALID, Reader, choice, many, read_table
from fleetbench.model import Config, Workload

STRATEGIES = ("tp", "dp", "pp", "units")
MATRICES = ("all", "all+units")
MOST_WORKLOADS = 1000
PARALLEL = (
    'expected "all" or "all+units", "tp", "dp", "pp" or "units", a list of these four,'
    " or a list of tables such as {tp = 2}"
)


def keys(build: Reader) -> Mapping[str, Reader]:
    """Readers of a sweep's keys; `build` reads the name of a build."""
    return sweep_keys(read_parallel, build, read_serve_args, read_variants, read_workloads)


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Given the values of a sweep's table, return the fields of `Sweep`."""
    return {"workloads" if key == "workload" else key: value for key, value in values.items()}


def read_parallel(value: Any, place: Place) -> Any:
    """Read a matrix, strategies or explicit configurations."""
    if isinstance(value, str):
        word = choice(*MATRICES, *STRATEGIES)(value, place)
        return word if word is INVALID or word in MATRICES else (word,)
    if not isinstance(value, list) or not value:
        place.report(PARALLEL)
        return INVALID
    if all(isinstance(item, str) for item in value):
        return _without_twins(many(choice(*STRATEGIES))(value, place), place)
    if all(isinstance(item, dict) for item in value):
        readers = config_keys()
        configs = tuple(
            Config(**read_table(item, place.at(index), readers)) for index, item in enumerate(value)
        )
        return _without_twins(configs, place)
    place.report(PARALLEL)
    return INVALID


def read_workloads(value: Any, place: Place) -> Any:
    """Read one table, or several; a key that holds a list multiplies its table."""
    tables = value if isinstance(value, list) else [value]
    if not tables:
        place.expected("a table, or a list of tables", value)
        return INVALID
    readers = workload_keys()
    workloads: list[Workload] = []
    for index, table in enumerate(tables):
        here = place.at(index) if isinstance(value, list) else place
        workloads += _workloads(read_table(table, here, readers), here)
    return _without_twins(tuple(workloads), place)


def _workloads(values: dict[str, Any], place: Place) -> list[Workload]:
    dataset = values.get("dataset", Workload().dataset)
    if dataset != "random" and "prompts" not in values:
        place.report(f'expected the key prompts, the file that dataset = "{dataset}" is read from')
    if dataset == "random" and "prompts" in values:
        place.at("prompts").report('expected no prompts with dataset = "random"; write dataset = "custom"')
    lists = {key: values.pop(key) for key in LISTED if key in values}
    count = 1
    for choices in lists.values():
        count *= len(choices)
    if count > MOST_WORKLOADS:
        place.report(f"expected at most {MOST_WORKLOADS} workloads, found lists that multiply to {count}")
        return []
    return [
        Workload(**values, **dict(zip(lists, chosen, strict=True))) for chosen in product(*lists.values())
    ]


def _without_twins(items: Any, place: Place) -> Any:
    """Refuse a list that names the same thing twice: it would be measured twice and counted as two."""
    if items is not INVALID and len(set(items)) < len(items):
        twin = next(item for position, item in enumerate(items) if item in items[:position])
        place.report(f"expected each entry once, found {getattr(twin, 'label', twin)} twice")
        return INVALID
    return items
