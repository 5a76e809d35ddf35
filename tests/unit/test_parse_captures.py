"""What real clients printed and what they saved of the same run agree; the first source comes out exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_material import SHARED, names, read, shared

from fleetbench.errors import Unreadable
from fleetbench.results.parse import parse
from fleetbench.results.parse.labels import label_table
from fleetbench.results.render import as_rows
from fleetbench.vllm_features import parse_version

_ROUNDED = 0.00501  # printed with two decimals


def _pairs() -> list[tuple[str, str]]:
    pairs = []
    for text in names("captures/cpu/bench_versions/v0*.stdout") + names(
        "captures/cpu/bench_v0.32.0/*.stdout"
    ):
        path = Path(text)
        found = names(f"{path.parent}/results/{path.stem}.json*")
        pairs += [(text, found[0])] if found else []
    pairs += [(t, t.replace(".txt", ".json")) for t in names("captures/gpu/*/*.bench.txt")]
    rust = [("rs_real.stdout", "rs_real.json.xz"), ("rs_startup.stdout", "rs.json")]
    pairs += [(f"captures/cpu/client/{t}", f"captures/cpu/client/results/{j}") for t, j in rust]
    return [(t, j) for t, j in pairs if (SHARED / t).exists() and (SHARED / j).exists()]


@pytest.mark.parametrize(("text", "document"), _pairs(), ids=lambda name: Path(name).name)
def test_text_and_json_of_one_run_agree_within_print_rounding(text: str, document: str) -> None:
    printed = as_rows(parse(read(shared(text))))[-1]
    saved = as_rows(parse(read(shared(document))))[-1]
    compared = 0
    for key, value in printed.items():
        if key in ("source", "dialect", "first_line", "last_line", "complete", "problems", "date"):
            continue
        if value is not None and saved.get(key) is not None:
            other = saved[key]
            same = value == other or (
                isinstance(value, float) and isinstance(other, int | float) and abs(value - other) <= _ROUNDED
            )
            assert same, (key, value, other)
            compared += 1
    assert printed["complete"]
    assert saved["complete"]
    assert printed["problems"] == saved["problems"] == []
    assert compared >= 18


def test_the_captures_are_there_for_thirteen_versions_at_least() -> None:
    shared("captures", "cpu", "bench_versions")
    assert len([pair for pair in _pairs() if "bench_versions" in pair[0]]) >= 13
    assert len(_pairs()) >= 30


def test_what_ended_before_a_report_is_refused_with_a_reason() -> None:
    text = read(shared("captures/cpu/bench_versions/v01011_wrong_model.stdout"))
    with pytest.raises(Unreadable, match="no benchmark result"):
        parse(text)


def test_the_cause_of_a_crashed_client_is_quoted() -> None:
    text = read(shared("captures/cpu/bench_versions/v01011_wrong_model.stderr"))
    with pytest.raises(Unreadable) as refusal:
        parse(text)
    assert "ValueError: Initial test run failed" in refusal.value.cause


def test_the_rust_sweep_gives_one_block_a_concurrency_and_keeps_the_steady_state_apart() -> None:
    rows = as_rows(parse(read(shared("captures/cpu/client/rs_sweep.stdout"))))
    assert [row["max_concurrency"] for row in rows] == [1, 4, 16]
    assert [row["request_throughput"] for row in rows] == [15.21, 55.36, 143.02]
    assert [row["steady_state_request_throughput"] for row in rows] == [14.95, 52.21, 132.22]
    assert {row["dialect"] for row in rows} == {"vllm-rust"}


def test_the_example_of_the_first_source_comes_out_digit_by_digit() -> None:
    (row,) = as_rows(parse(read(shared("sources", "tensor-vs-data-parallel.txt"))))
    known = {key: value for key, value in row.items() if value is not None}
    assert known == {
        "source": "-",
        "dialect": "vllm",
        "first_line": 149,
        "last_line": 170,
        "complete": True,
        "problems": [],
        "completed": 10000,
        "max_concurrency": 1000,
        "duration": 86.26,
        "total_input_tokens": 1276722,
        "total_output_tokens": 1265234,
        "request_throughput": 115.93,
        "output_throughput": 14667.45,
        "total_token_throughput": 29468.07,
        "mean_ttft_ms": 1126.10,
        "median_ttft_ms": 1258.56,
        "p99_ttft_ms": 1970.82,
        "mean_tpot_ms": 55.98,
        "median_tpot_ms": 54.04,
        "p99_tpot_ms": 74.32,
        "mean_itl_ms": 55.85,
        "median_itl_ms": 48.65,
        "p99_itl_ms": 160.58,
    }
    assert row["failed"] is None  # this version prints no such line: unknown, not 0


def test_every_label_that_a_version_prints_is_in_the_table() -> None:
    rows = read(shared("captures/cpu/bench_versions/stdout_labels_by_version.tsv")).splitlines()
    missing = []
    for row in rows:
        label, _, span = row.partition("\t")
        shown = label.strip().removesuffix(":")
        shown = shown.replace("{metric_name}", "TTFT").replace("{p_word}", "99.9").replace("{i}", "3")
        if not span or shown.startswith("Failed requests during"):  # stands before the report
            continue
        found = label_table().find(shown)
        if found is None:
            missing.append(shown)
            continue
        first = span.strip().partition("..")[0]
        if found.since and first != "all":
            # The table may know an earlier first version than those that were run, never a later one.
            assert parse_version(found.since) <= parse_version(first), shown
    assert not missing
