"""What a compromised host may print as its result: the parser neither hangs nor breaks."""

from __future__ import annotations

import json
import time

import pytest

from fleetbench.results.parse import parse

HEADER = "============ Serving Benchmark Result ============"
RESULT = {
    "completed": 5,
    "duration": 1.0,
    "total_input_tokens": 5,
    "total_output_tokens": 5,
    "request_throughput": 1.0,
    "output_throughput": 2.0,
}


@pytest.mark.parametrize("noise", ["|", "*", "| ", "*|`", "a|", " ", "=", "- ", "<br ", "\\n", "&", "1,"])
def test_a_long_line_inside_a_report_takes_time_in_proportion_to_its_length(noise: str) -> None:
    text = f"{HEADER}\nSuccessful requests: 5\nBenchmark duration (s): 3.00\n{noise * 40_000}\n{'=' * 50}\n"
    began = time.monotonic()
    (block,) = parse(text)
    assert time.monotonic() - began < 5
    assert (block.result.completed, block.result.duration) == (5, 3.0)


@pytest.mark.parametrize("line", ["| **Successful requests:** | 7 |", "* `Successful requests`:   7"])
def test_marks_around_a_label_are_still_taken_off(line: str) -> None:
    (block,) = parse(f"{HEADER}\n{line}\nBenchmark duration (s): 3.00\n{'=' * 50}\n")
    assert block.result.completed == 7


@pytest.mark.parametrize("key", ["completed", "total_output_tokens", "duration", "mean_ttft_ms"])
def test_a_number_that_no_float_holds_is_unknown_with_its_reason(key: str) -> None:
    (block,) = parse(json.dumps(RESULT | {key: 10**400}))
    assert block.result.latencies.get(key, getattr(block.result, key, None)) is None
    assert "is larger than any measurement" in " ".join(block.problems)
