"""Imported rows against the ceiling of the hardware that their source names."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbench.ceiling.foreign import ceiling_of_foreign
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import Conditions, ForeignRow, ImportedRow
from fleetbench.results.rows import Verdict
from fleetbench.results.values import BenchResult

PUBLISHED = Path(__file__).parents[2] / "inventory" / "published"


def _rows(name: str) -> tuple[ImportedRow, ...]:
    source = read_source(name, [(name, (PUBLISHED / name).read_text("utf-8"))])
    return judged(source, ceiling_of_foreign)


def test_eager_mode_leaves_most_of_an_h100_unused_and_less_of_a_v100() -> None:
    shares = {
        found.row.label: found.ceiling["of_ceiling_percent"]
        for found in _rows("multi-gpu-report.toml")
        if found.row.table.startswith(("4.1.2", "4.2.2")) and found.row.conditions.gpus == 1
    }
    assert shares["H100X1"] == pytest.approx(18, abs=1)
    assert shares["gpu-small"] == pytest.approx(41, abs=3)
    assert shares["mi210x1"] == pytest.approx(23, abs=1)


def test_no_published_row_is_above_what_its_hardware_can_do() -> None:
    rows = [*_rows("multi-gpu-report.toml"), *_rows("tensor-vs-data-parallel.toml")]
    known = [found for found in rows if found.ceiling]
    assert len(known) == 80
    for found in known:
        assert "above-ceiling" not in [finding.rule for finding in found.findings]


def _row(**conditions: object) -> ForeignRow:
    said = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "NVIDIA H100 80GB HBM3",
        "tp": 1,
        "input_len": 128,
        "output_len": 128,
    }
    return ForeignRow(
        form="csv",
        conditions=Conditions(**(said | conditions)),
        result=BenchResult(num_prompts=1000, completed=1000, max_concurrency=8, output_throughput=90_000.0),
    )


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["tp", "dp", "pp", "units", "input_len", "output_len", "max_model_len"]),
    st.integers(0, 10**18),
    st.text(max_size=30),
    st.floats(0, 1e18),
)
def test_whatever_a_row_says_there_is_a_share_or_nothing(
    name: str, value: int, words: str, rate: float
) -> None:
    row = _row(**{name: value}, serve_args=words)
    result = BenchResult(
        num_prompts=value or None,
        output_throughput=rate,
        extra=MappingProxyType({"mean_input_tokens": rate}),
    )
    found = ceiling_of_foreign(ForeignRow(form="csv", conditions=row.conditions, result=result))
    assert all(isinstance(item, str | int | float) for item in found.values())


def test_a_sheet_with_an_impossible_row_is_judged_by_physics() -> None:
    heads = "model,gpu,tp,serve_args,input_len,output_len,num_prompts,completed,max_concurrency"
    row = "meta-llama/Llama-3.1-8B-Instruct,NVIDIA H100 80GB HBM3,1,--dtype=bfloat16,128,128,1000,1000,8"
    text = f"{heads},output_throughput\n{row},90000\n"
    (found,) = judged(read_source("t.csv", [("t.csv", text)]), ceiling_of_foreign)
    assert found.verdict is Verdict.INVALID
    assert "above-ceiling" in [finding.rule for finding in found.findings]
