"""The ceiling of imported rows: what their sources say is enough for it, or nothing is claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from plan_cases import ROOT

from fleetbench.ceiling.foreign import ceiling_of_foreign
from fleetbench.ceiling.row import STRICT_KEYS
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.values import BenchResult

SAID = Conditions(
    model="Qwen/Qwen3-8B",
    gpu="H100 80GB",
    gpus=1,
    tp=1,
    serve_args="--max-model-len 8192",
    dataset="random",
    input_len=128,
    output_len=128,
)


def foreign(tps: float, *, result: dict[str, Any] | None = None, **changed: Any) -> ForeignRow:
    measured = BenchResult(num_prompts=1000, max_concurrency=100, output_throughput=tps, **(result or {}))
    return ForeignRow(form="figures", conditions=replace(SAID, **changed), result=measured)


def test_a_published_peak_of_thirty_million_tokens_is_above_what_can_be() -> None:
    found = ceiling_of_foreign(foreign(30_810_010.0))
    assert float(str(found["of_strict_percent"])) > 1000
    assert found["gpu"] == "NVIDIA H100 80GB HBM3"


def test_nothing_is_strict_where_it_is_not_said_how_it_was_served() -> None:
    found = ceiling_of_foreign(foreign(30_810_010.0, serve_args=""))
    assert not set(STRICT_KEYS) & set(found)
    assert float(str(found["of_ceiling_percent"])) > 1000
    assert "how it was served is not said" in str(found["basis"])


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "Qwen/Qwen3-8B-FP8"},
        {"gpu": "Voodoo 2"},
        {"gpu": ""},
        {"gpus": None, "tp": None},
        {"gpus": 4, "tp": 2},
        {"tp": 10**9, "gpus": None},
        {"input_len": None},
    ],
)
def test_nothing_is_said_of_what_the_source_or_the_tables_do_not_say(changed: dict[str, Any]) -> None:
    assert ceiling_of_foreign(foreign(1000.0, **changed)) == {}


def test_lengths_that_were_counted_stand_for_those_that_are_not_said() -> None:
    totals = {"completed": 1000, "total_input_tokens": 128_000, "total_output_tokens": 128_000}
    counted = foreign(1000.0, input_len=None, output_len=None, result=totals)
    assert ceiling_of_foreign(counted)["of_ceiling_percent"] == pytest.approx(
        ceiling_of_foreign(foreign(1000.0))["of_ceiling_percent"]
    )


@pytest.mark.parametrize("name", ["multi-gpu-report.toml", "tensor-vs-data-parallel.toml"])
def test_published_figures_have_shares_and_none_is_called_impossible_by_physics(name: str) -> None:
    text = (ROOT / "inventory" / "published" / name).read_text("utf-8")
    rows = judged(read_source(name, [(name, text)], None, {}), ceiling_of_foreign)
    shares = [row.ceiling["of_ceiling_percent"] for row in rows if "of_ceiling_percent" in row.ceiling]
    assert shares
    assert all(0 < float(str(share)) < 100 for share in shares)
    assert not [row for row in rows if any(finding.rule == "above-ceiling" for finding in row.findings)]


@pytest.mark.parametrize(("label", "decode_percent"), [("H100X1", 18), ("gpu-small", 41), ("mi210x1", 23)])
def test_eager_mode_makes_cards_alike_that_could_be_far_apart(label: str, decode_percent: float) -> None:
    # A 3B model, ten requests at a time: an old card is at two fifths of its best, a new one at a fifth.
    text = (ROOT / "inventory" / "published" / "multi-gpu-report.toml").read_text("utf-8")
    source = read_source("multi-gpu-report.toml", [("multi-gpu-report.toml", text)])
    shares = [
        float(str(ceiling_of_foreign(row)["decode_percent"]))
        for row in source.rows
        if "Llama-3B, 8192" in row.table and row.label == label
    ]
    assert shares == pytest.approx([decode_percent], abs=2.5)
