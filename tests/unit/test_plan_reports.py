"""Plans for the servers of the two published reports, as golden files: each verdict with its numbers.

After a change that is meant, run this file with FLEETBENCH_WRITE_GOLDEN=1, which writes them again.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from plan_cases import (
    FIRST_MODELS,
    FIRST_REPORT,
    PLANS,
    PRESETS,
    SECOND_MODELS,
    SECOND_REPORT,
    SERVERS,
    report_plan,
)

from fleetbench.plan.document import document
from fleetbench.plan.planner import Candidate, Plan, Verdict


def _json(found: Plan) -> str:
    return json.dumps(document(found), indent=1, ensure_ascii=False) + "\n"


def compare(path: Path, text: str) -> None:
    """Compare a text with a golden file, or write it when the environment says so."""
    if os.environ.get("FLEETBENCH_WRITE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path.name} differs: is the change meant?"


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("model", FIRST_MODELS)
def test_the_plan_for_the_first_reports_servers(server: str, model: str) -> None:
    found = report_plan(model, FIRST_MODELS[model], server, "tp-dp-units", FIRST_REPORT)
    compare(PLANS / f"{server}-{model}.json", _json(found))


@pytest.mark.parametrize("sweep", ["batching", "versions"])
@pytest.mark.parametrize("model", FIRST_MODELS)
def test_the_plan_with_arguments_and_versions_as_axes(model: str, sweep: str) -> None:
    found = report_plan(model, FIRST_MODELS[model], "8xh100", sweep, "0.19.1")
    compare(PLANS / f"8xh100-{model}-{sweep}.json", _json(found))


def test_the_plan_for_the_second_reports_presets() -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ("preset", "model", "split", "verdict", "weights_gib", "kv_tokens", "sequences", "reason")
    )
    for preset in PRESETS:
        for model, config in SECOND_MODELS.items():
            found = report_plan(model, config, preset, "context-length", SECOND_REPORT)
            for one in found.candidates:
                numbers: tuple[object, ...] = ("", "", "")
                if one.estimate is not None:
                    weights = round(one.estimate.weights_gib, 2)
                    numbers = (weights, one.estimate.kv_tokens, one.estimate.sequences)
                writer.writerow(
                    (preset, model, one.config.label, one.verdict.value, *numbers, one.reasons[0])
                )
    compare(PLANS / "second-report.csv", stream.getvalue())


def test_the_first_reports_tp_and_dp_are_all_in_the_plan_and_tried() -> None:
    found = report_plan("qwen3-coder", "qwen3-coder-30b-a3b", "8xh100", "tp-dp", FIRST_REPORT)
    tried = {(c.config.tp, c.config.dp) for c in found.to_run if c.config.units == 1}
    sizes = (1, 2, 4, 8)
    assert tried == {(tp, dp) for tp in sizes for dp in sizes if tp * dp <= 8}


def test_what_the_first_report_found_by_crashing_is_said_and_tried() -> None:
    found = report_plan("qwen3-coder", "qwen3-coder-30b-a3b", "8xh100", "tp-dp", FIRST_REPORT)
    (crashed,) = (c for c in found.candidates if c.config.dp == 8)
    assert (crashed.verdict, crashed.run) == (Verdict.TIGHT, True)
    text = "\n".join(map(str, crashed.reasons))
    assert "CUDA out of memory occurred" in text
    assert "the 7.9 GiB that the budget leaves" in text
    # Experts are divided among the ranks, so that the weights alone do not explain it.
    assert "weights on each gpu: 2.9 GiB that each data parallel rank holds in full + 6.8 of experts" in text


def test_with_141_gb_that_split_fits() -> None:
    found = report_plan("qwen3-coder", "qwen3-coder-30b-a3b", "8xh200", "tp-dp", FIRST_REPORT)
    (candidate,) = (c for c in found.candidates if c.config.dp == 8)
    assert candidate.verdict is Verdict.FITS


# Rows of the second report: model, context length, and the presets that it has figures for.
MEASURED = {
    ("r1-qwen-1.5b", 2048): "h100x1 h100x2 gpu-large gpu-medium gpu-small mi210x1 mi210x2",
    ("r1-qwen-1.5b", 8192): "h100x1 h100x2 gpu-large gpu-medium gpu-small mi210x1 mi210x2",
    ("r1-qwen-1.5b", 65536): "h100x1 h100x2 mi210x1 mi210x2",
    ("r1-qwen-1.5b", 131072): "h100x1 h100x2 mi210x1 mi210x2",
    ("llama-3.2-3b", 2048): "h100x1 h100x2 gpu-large gpu-medium gpu-small gpu-xlarge mi210x1 mi210x2",
    ("llama-3.2-3b", 8192): "h100x1 h100x2 gpu-large gpu-medium gpu-small gpu-xlarge mi210x1 mi210x2",
    ("llama-3.2-3b", 65536): "h100x1 h100x2 mi210x1 mi210x2",
    ("llama-3.2-3b", 131072): "h100x1 h100x2 mi210x1 mi210x2",
    ("llama-3.1-8b-eager", 2048): "h100x1 h100x2 gpu-large gpu-medium gpu-xlarge mi210x1 mi210x2",
    ("llama-3.1-8b-eager", 8192): "h100x1 h100x2 gpu-large gpu-medium gpu-xlarge mi210x1 mi210x2",
    ("llama-3.1-8b-eager", 65536): "h100x1 h100x2 mi210x2",
    ("llama-3.1-8b-eager", 131072): "h100x1 h100x2 mi210x2",
    ("r1-qwen-32b", 2048): "h100x1 h100x2 gpu-xlarge",
    ("r1-qwen-32b", 8192): "h100x1 h100x2 gpu-xlarge",
    ("r1-qwen-32b", 65536): "h100x2",
    ("r1-qwen-32b", 131072): "h100x2",
}


def _of_the_second(model: str, preset: str, length: int) -> Candidate:
    found = report_plan(model, SECOND_MODELS[model], preset, "context-length", SECOND_REPORT)
    return next(c for c in found.candidates if c.config.max_model_len == length and c.config.pp == 1)


@pytest.mark.parametrize(
    ("model", "length", "preset"),
    [(model, length, preset) for (model, length), presets in MEASURED.items() for preset in presets.split()],
)
def test_what_the_second_report_measured_is_never_ruled_out(model: str, length: int, preset: str) -> None:
    candidate = _of_the_second(model, preset, length)
    assert candidate.run, candidate.reasons


@pytest.mark.parametrize(
    ("model", "length", "preset", "verdict", "rule"),
    [
        ("r1-qwen-1.5b", 2048, "gpu-xlarge", Verdict.IMPOSSIBLE, "heads"),
        ("llama-3.1-8b-eager", 8192, "gpu-small", Verdict.CANNOT, "memory"),
        ("llama-3.1-8b-eager", 131072, "gpu-medium", Verdict.CANNOT, "memory"),
        ("r1-qwen-32b", 2048, "gpu-large", Verdict.CANNOT, "memory"),
        ("r1-qwen-32b", 65536, "mi210x1", Verdict.CANNOT, "memory"),
        ("r1-qwen-32b", 65536, "h100x1", Verdict.CANNOT, "memory"),
        ("r1-qwen-32b", 2048, "gpu-small", Verdict.CANNOT, "weights"),
    ],
)
def test_rows_that_the_second_report_does_not_have_are_explained(
    model: str, length: int, preset: str, verdict: Verdict, rule: str
) -> None:
    candidate = _of_the_second(model, preset, length)
    assert (candidate.verdict, candidate.run, candidate.reasons[0].rule) == (verdict, False, rule)
