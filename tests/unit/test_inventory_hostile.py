"""Whatever stands in the files, `load` gives an inventory or problems with a place, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetbench.inventory import Inventory, InventoryProblems, load
from fleetbench.inventory.keys import (
    build_keys,
    config_keys,
    host_keys,
    model_keys,
    sweep_keys,
    workload_keys,
)
from fleetbench.inventory.kinds import flag

words = [
    "tp",
    "dp",
    "all",
    "auto",
    "cuda",
    "a",
    "h[1-3]",
    "@g",
    "!a",
    "-x",
    "8001-8099",
    "/opt/x",
    "\x1b",
    "",
]
known = sorted(
    {"defaults", "builds", "groups", "hosts", "models", "sweeps", "g", "a", "h[1-2]", "x.y", "\n", ""}
    | set(host_keys(flag))
    | set(build_keys())
    | set(model_keys(flag))
    | set(sweep_keys(flag, flag, flag, flag, flag))
    | set(config_keys())
    | set(workload_keys())
)
leaves = st.one_of(
    st.sampled_from(words), st.integers(-1, 70_000), st.booleans(), st.sampled_from([0.5, "nan", "inf"])
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(known), inner, max_size=4)
    ),
    max_leaves=8,
)
tables = st.dictionaries(st.sampled_from(["a", "b", "g", "h[1-2]", "all"]), values, max_size=3)
files = st.fixed_dictionaries(
    {},
    optional={
        "defaults": values,
        "builds": tables,
        "groups": tables,
        "hosts": tables,
        "models": tables,
        "sweeps": tables,
        "other": values,
    },
)


def toml(value: Any) -> str:
    """Write a value as inline TOML."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return str(value) if value in ("nan", "inf") else json.dumps(value)


def load_or_problems(directory: Path) -> Inventory | InventoryProblems:
    try:
        return load(directory)
    except InventoryProblems as exc:
        return exc


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hosts=files, models=files, sweeps=files)
def test_any_content_loads_or_has_problems_with_a_place(
    tmp_path: Path, hosts: dict[str, Any], models: dict[str, Any], sweeps: dict[str, Any]
) -> None:
    lines = {}
    for name, content in (("hosts", hosts), ("models", models), ("sweeps", sweeps)):
        text = "".join(f"{key} = {toml(value)}\n" for key, value in content.items())
        (tmp_path / f"{name}.toml").write_text(text)
        lines[str(tmp_path / f"{name}.toml")] = max(1, text.count("\n"))
    result = load_or_problems(tmp_path)
    if isinstance(result, InventoryProblems):
        assert result.problems
        assert all(1 <= problem.line <= lines[problem.file] for problem in result.problems)
        assert all(line.isprintable() and len(line) < 800 for line in str(result).splitlines())


@pytest.mark.parametrize("kind", ["directory", "dangling", "fifo"])
def test_a_thing_that_is_no_file_is_a_problem(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "models.toml"
    if kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "gone")
    with pytest.raises(InventoryProblems, match=r"models\.toml:1: expected a file"):
        load(tmp_path)
