"""The figures that both reports published: transcribed to the digit, and judged as they deserve."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from shared_material import shared

from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import ForeignRow, ImportedRow
from fleetbench.results.rows import Finding, Verdict

PUBLISHED = Path(__file__).parents[2] / "inventory" / "published"
REPORT, POST = "multi-gpu-report.toml", "tensor-vs-data-parallel.toml"
STALLED = {
    ("4.1.1 Qwen-1.5B, 2048 tokens of context", "mi210x2"),
    ("4.1.2 Llama-3B, 2048 tokens of context", "H100X1"),
    ("4.1.3 Llama-8B, 2048 tokens of context", "H100X2"),
    ("4.1.4 Qwen-32B, 2048 tokens of context", "gpu-xlarge"),
    ("4.3.1 Qwen-1.5B, 65536 tokens of context", "H100X2"),
}


@cache
def _rows(name: str) -> tuple[ImportedRow, ...]:
    return judged(read_source(name, [(name, (PUBLISHED / name).read_text("utf-8"))]))


def _findings(found: ImportedRow, rule: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.rule == rule]


def _flagged(name: str, rule: str) -> list[ImportedRow]:
    return [
        found
        for found in _rows(name)
        if any(finding.verdict is not Verdict.VALID for finding in _findings(found, rule))
    ]


# ---------------------------------------------------------------- transcription


def _printed(row: ForeignRow) -> str:
    """Write a row back as the report's text has it: without anything between the cells."""
    result = row.result
    seconds = result.latencies["mean_e2el_ms"] / 1000
    cells = [
        row.label,
        f"{result.extra['input_throughput']:.2f}",
        f"{result.output_throughput:.2f}",
        # One latency of the report has four digits after the point.
        f"{seconds:.2f}" if abs(seconds * 100 - round(seconds * 100)) < 1e-6 else f"{seconds:.4f}",
        f"{result.extra['request_output_tps']:.2f}",
        f"{result.extra['request_input_tps']:.2f}",
    ]
    if row.table.startswith("5 "):
        cells.append(str(result.max_concurrency))
    return "".join([*cells, str(result.failed)])


def test_the_report_of_contexts_is_transcribed_to_the_digit_in_its_order() -> None:
    text = shared("sources", "multi-gpu-benchmarks-report.txt").read_text("utf-8")
    lines = text.splitlines()
    presets = r"(?:H100X[12]|gpu-(?:small|medium|large|xlarge)|mi210x[12])"
    there = [line for line in lines if re.fullmatch(rf"{presets}[\d.]+", line)]
    written = [_printed(found.row) for found in _rows(REPORT) if found.row.table[0] in "45"]
    assert written == there
    assert len(there) == 76


def test_pipeline_against_tensor_is_transcribed_and_its_speed_ups_follow() -> None:
    text = shared("sources", "multi-gpu-benchmarks-report.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.endswith("%")]
    rows = [found.row for found in _rows(REPORT) if found.row.table.startswith("3 ")]
    pipeline, tensor = rows[:6], rows[6:]
    assert len(lines) == len(tensor) == 6
    for line, before, after in zip(lines, pipeline, tensor, strict=True):
        prompt = (before.result.extra["input_throughput"], after.result.extra["input_throughput"])
        output = (before.result.output_throughput or 0, after.result.output_throughput or 0)
        cells = "".join(f"{value:.2f}" for value in (*prompt, *output))
        rest = line.removeprefix(f"{before.label}{cells}")
        assert rest != line, line
        quoted = [float(part) for part in rest.rstrip("%").split("%")]
        assert quoted == pytest.approx(
            [100 * (later / earlier - 1) for earlier, later in (prompt, output)], abs=0.06
        )


def test_each_table_of_contexts_has_the_model_and_length_of_its_heading() -> None:
    text = shared("sources", "multi-gpu-benchmarks-report.txt").read_text("utf-8")
    headings = re.findall(r"(4\.[1-4]\.[1-4]) ([\w./-]+?)(?:\W| -)[^@]{0,60}?(2048|8192|64k|128k)", text)
    lengths = {"2048": 2048, "8192": 8192, "64k": 65536, "128k": 131072}
    names = {"Qwen-1.5B": "1.5B", "Llama-3B": "3B", "Llama-8B": "8B", "Qwen-32B": "32B"}
    tables = {found.row.table: found.row.conditions for found in _rows(REPORT) if found.row.table[0] == "4"}
    assert len(headings) == len(tables) == 16
    for (section, name, length), (title, conditions) in zip(headings, tables.items(), strict=True):
        assert title.startswith(f"{section} ")
        assert conditions.max_model_len == lengths[length]
        assert names.get(name, name.rpartition("-")[2]) in conditions.model or name in conditions.model


def test_presets_are_those_of_the_report() -> None:
    text = shared("sources", "multi-gpu-benchmarks-report.txt").read_text("utf-8")
    rows = re.findall(r"\| (\S+) +\| [\d.]+ +\| [\d.]+ GB +\| \d+ GB +\| (\d) +\| (NVIDIA \w+|AMD \w+)", text)
    there = {name: (int(count), gpu) for name, count, gpu in rows}
    assert len(there) == 8
    for found in _rows(REPORT):
        conditions = found.row.conditions
        count, gpu = there[found.row.label]
        assert conditions.gpus == count
        assert conditions.gpu.startswith(gpu)
        assert (conditions.tp or 1) * (conditions.pp or 1) == count


def test_the_post_s_example_is_what_its_text_says() -> None:
    text = shared("sources", "tensor-vs-data-parallel.txt").read_text("utf-8")
    (parsed,) = read_source("post.txt", [("post.txt", text)]).rows
    own = _rows(POST)[0].row
    for name in (
        *("completed", "max_concurrency", "duration", "total_input_tokens", "total_output_tokens"),
        *("request_throughput", "output_throughput", "total_token_throughput"),
    ):
        assert getattr(own.result, name) == getattr(parsed.result, name), name
    assert dict(own.result.latencies) == dict(parsed.result.latencies)
    assert own.conditions.client_args in text


# ---------------------------------------------------------------- verdicts


def test_the_five_stalled_rows_are_flagged_and_no_other() -> None:
    flagged = _flagged(REPORT, "stalled")
    assert {(found.row.table, found.row.label) for found in flagged} == STALLED
    assert len(flagged) == 5


def test_each_row_with_failed_requests_is_invalid_and_says_how_many() -> None:
    failing = [found for found in _rows(REPORT) if found.row.result.failed]
    assert len(failing) == 18
    for found in failing:
        (finding,) = _findings(found, "failed-requests")
        assert found.verdict is Verdict.INVALID
        assert finding.numbers["failed"] == found.row.result.failed
        assert finding.text == f"{found.row.result.failed} of 100 requests failed"
    assert {id(found) for found in _rows(REPORT) if found.verdict is Verdict.INVALID} == set(map(id, failing))


def test_every_row_of_the_longer_contexts_says_that_the_context_was_not_exercised() -> None:
    longer = [
        found
        for found in _rows(REPORT)
        if found.row.table[0] == "4" and (found.row.conditions.max_model_len or 0) > 2048
    ]
    assert len(longer) == 49
    for found in longer:
        (finding,) = _findings(found, "context-unused")
        assert finding.verdict is Verdict.SUSPECT
        assert finding.numbers["request_tokens"] < 2100


def test_every_row_of_the_report_says_eager_mode_and_one_prompt() -> None:
    assert len(_flagged(REPORT, "eager-mode")) == len(_rows(REPORT)) == 88
    assert len(_flagged(REPORT, "same-prompt")) == 88


def test_a_configuration_that_has_two_figures_contradicts_itself() -> None:
    flagged = _flagged(REPORT, "contradicts")
    assert {(found.row.table[:12], found.row.label) for found in flagged} == {
        ("3 pipeline p", "H100X1"),
        ("3 tensor par", "H100X1"),
        ("4.1.2 Llama-", "H100X1"),
    }
    (finding,) = _findings(flagged[1], "contradicts")
    assert "105.12 output tokens/s in table '4.1.2" in finding.text


def test_the_post_s_example_passes() -> None:
    found = _rows(POST)[0]
    assert found.verdict is Verdict.VALID
    assert all(finding.verdict is Verdict.VALID for finding in found.findings)


def test_the_quoted_throughput_is_impossible_as_output_and_fits_as_total() -> None:
    one, *others = _rows(POST)[1:]
    (finding,) = _findings(one, "concurrency-exceeded")
    assert one.verdict is Verdict.INVALID
    assert finding.numbers["in_flight"] == pytest.approx(1946, abs=1)
    assert finding.numbers["in_flight_as_total"] == pytest.approx(973, abs=1)
    assert "fits" in finding.text
    assert [found.row.label for found in others] == ["TP2", "TP4", "TP8"]
    for found in others:
        assert found.verdict is Verdict.SUSPECT
        assert [f.text for f in _findings(found, "column-misread")] == [
            "TP1 of the same column can only be total tokens, not output"
        ]


def test_read_as_total_nothing_speaks_against_the_quoted_throughput() -> None:
    text = (PUBLISHED / POST).read_text("utf-8").replace('"tok/s" = "output_', '"tok/s" = "total_token_')
    for found in judged(read_source(POST, [(POST, text)])):
        assert found.verdict is Verdict.VALID, found
