"""Result JSON in every form in which it is found, and JSON logs that carry a text report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from report_text import VALUES, report

from fleetbench.errors import Unreadable
from fleetbench.results.parse import parse
from fleetbench.results.render import as_rows


def _result(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "date": "20261130-101112",
        "backend": "vllm",
        "endpoint_type": "vllm",
        "label": None,
        "model_id": "acme/tiny",
        "num_prompts": 735,
        "request_rate": "inf",
        "burstiness": 1.0,
        "request_goodput": None,
        "errors": ["", "boom"],
        **VALUES,
        "std_itl_ms": 3.25,
    }
    return {**base, **changes}


def _without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in _result().items() if key not in keys}


def test_an_object_gives_every_number_under_its_own_name() -> None:
    (row,) = as_rows(parse(json.dumps(_result(), indent=2), "r.json"))
    assert {key: row[key] for key in VALUES} == VALUES
    assert row["dialect"] == "vllm-json"
    assert row["complete"] is True
    assert (row["request_rate"], row["model_id"], row["date"]) == ("inf", "acme/tiny", "20261130-101112")
    assert row["std_itl_ms"] == 3.25
    assert row["burstiness"] == 1.0
    assert row["request_goodput"] is None
    assert row["problems"] == []


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([_result(), _result(completed=5)]),
        json.dumps(_result()) + "\n" + json.dumps(_result(completed=5)) + "\n",
        json.dumps(_result(), indent=1) + json.dumps(_result(completed=5), indent=1),
        json.dumps({"runs": {"a": _result(), "b": [_result(completed=5)]}}),
        "\ufeff" + json.dumps(_result()) + "\r\n" + json.dumps(_result(completed=5)),
    ],
    ids=["list", "lines", "one after the other", "nested", "byte order mark"],
)
def test_several_results_in_one_file_come_in_order(text: str) -> None:
    assert [block.result.completed for block in parse(text)] == [731, 5]


def test_a_file_without_failed_key_leaves_it_unknown() -> None:
    (row,) = as_rows(parse(json.dumps(_without("failed"))))
    assert row["failed"] is None
    assert row["complete"] is True


def test_the_old_key_with_the_colon_and_the_old_routing_key_are_understood() -> None:
    old = {**_without("request_goodput", "backend"), "request_goodput:": 4.5, "endpoint_type": "openai"}
    (row,) = as_rows(parse(json.dumps(old)))
    assert (row["request_goodput"], row["backend"]) == (4.5, "openai")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("duration", float("nan")),
        ("duration", float("inf")),
        ("output_throughput", "766.06"),
        ("completed", True),
        ("completed", -1),
        ("completed", 12.5),
        ("mean_ttft_ms", [1.0]),
        ("mean_ttft_ms", "fast"),
    ],
)
def test_a_value_of_the_wrong_kind_is_unknown(key: str, value: object) -> None:
    (row,) = as_rows(parse(json.dumps(_result(**{key: value}))))
    assert row[key] is None
    if not isinstance(value, list):
        assert key in str(row["problems"])
    json.dumps(row, allow_nan=False)


def test_metadata_cannot_shadow_what_we_say_about_a_block() -> None:
    (row,) = as_rows(parse(json.dumps(_result(source=1, complete=0, first_line=99)), "r.json"))
    assert (row["source"], row["complete"], row["first_line"]) == ("r.json", True, 1)


def test_the_steady_state_of_the_rust_client_is_kept_apart() -> None:
    steady = {
        "window": {"observed_peak": 16, "warning": "short"},
        "request_throughput": 9.5,
        "mean_ttft_ms": 1.5,
    }
    (row,) = as_rows(parse(json.dumps(_result(steady_state=steady))))
    assert row["dialect"] == "vllm-rust-json"
    assert row["steady_state_request_throughput"] == 9.5
    assert row["steady_state_window_observed_peak"] == 16
    assert row["mean_ttft_ms"] == VALUES["mean_ttft_ms"]


def test_sglang_names_are_translated() -> None:
    (row,) = as_rows(parse(json.dumps(_result(mean_e2e_latency_ms=77.5, total_output_tokens_retokenized=3))))
    assert row["dialect"] == "sglang-json"
    assert row["mean_e2el_ms"] == 77.5


def test_a_file_cut_off_says_so_with_its_line() -> None:
    with pytest.raises(Unreadable) as refusal:
        parse(json.dumps(_result(), indent=2)[:200], "r.json")
    assert "cut off" in refusal.value.cause
    assert "line 1" in refusal.value.cause


def test_lines_before_a_cut_one_are_read_and_the_cut_one_is_named() -> None:
    text = json.dumps(_result()) + "\n" + json.dumps(_result())[:150]
    good, cut = parse(text)
    assert good.complete
    assert not cut.complete
    assert cut.result.completed is None
    assert "line 2" in cut.problems[0]


def test_json_that_is_no_result_is_refused() -> None:
    with pytest.raises(Unreadable):
        parse('{"completed": 3, "name": "something else"}')


def test_json_nested_a_million_deep_is_refused() -> None:
    with pytest.raises(Unreadable):
        parse("[" * 1_000_000)
    with pytest.raises(Unreadable):
        parse('{"a":' * 200_000)


def test_a_journal_in_json_is_read_as_the_lines_it_carries() -> None:
    records = [
        {"_HOSTNAME": "h1", "_SYSTEMD_UNIT": "bench.service", "_PID": "7", "MESSAGE": part}
        for part in report().splitlines()
    ]
    records[3]["MESSAGE"] = list(("\x1b[36m" + str(records[3]["MESSAGE"])).encode())  # type: ignore[assignment]
    other = {
        "_HOSTNAME": "h1",
        "_SYSTEMD_UNIT": "vllm-8001.service",
        "_PID": "9",
        "MESSAGE": "Mean TTFT (ms): 9.99",
    }
    text = "\n".join(json.dumps(record) + "\n" + json.dumps(other) for record in records)
    (row,) = as_rows(parse(text))
    assert {key: row[key] for key in VALUES} == VALUES
    assert row["complete"] is True


def test_a_docker_log_is_read_as_the_lines_it_carries() -> None:
    text = "\n".join(
        json.dumps({"log": part + "\n", "stream": "stdout", "time": "2026-11-30T18:20:07.1Z"})
        for part in report().splitlines()
    )
    (row,) = as_rows(parse(text))
    assert {key: row[key] for key in VALUES} == VALUES


def test_a_result_object_inside_a_log_is_found_where_no_report_is() -> None:
    text = (
        "job 17 begins\n+ cat result.json\n"
        + json.dumps(_result(steady_state={**VALUES}), indent=2)
        + "\ndone\n"
    )
    (block,) = parse(text)
    assert block.first_line == 3
    assert block.result.completed == 731


def test_a_report_and_its_json_in_one_log_count_once() -> None:
    blocks = parse("log\n" + report() + json.dumps(_result()) + "\n")
    assert [block.dialect for block in blocks] == ["vllm"]
