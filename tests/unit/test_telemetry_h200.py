"""What was sampled on a real H200: Qwen2.5-7B with dummy weights, 3,000 requests of 128/128, 1,000 at a time.

The files are those of the run; of its result only what places the window is left, of the counters their sums.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetbench.telemetry.summary import summary

FILES = Path(__file__).parent.parent / "fixtures" / "telemetry" / "h200-7b-c1000"


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    content = {path.name: path.read_bytes() for path in FILES.iterdir()}
    return dict(summary(content, json.loads(content["result.json"])["duration"]))  # type: ignore[arg-type]


def test_tokens_and_requests_are_those_that_the_client_counted(figures: dict[str, float]) -> None:
    reported = json.loads((FILES / "result.json").read_text())
    assert figures["window_from"] == "client"
    assert figures["server_generation_tokens"] == 3000 * 128
    assert figures["server_requests"] == reported["completed"]
    assert figures["generation_tps"] == pytest.approx(reported["output_throughput"], rel=1e-4)
    assert (figures["running_max"], figures["waiting_max"]) == (1000, 445)


def test_energy_is_power_over_the_window(figures: dict[str, float]) -> None:
    assert figures["gpu_power_w_mean"] == pytest.approx(510, abs=1)
    assert figures["gpu_energy_j"] == pytest.approx(
        figures["gpu_power_w_mean"] * figures["window_s"], rel=0.02
    )


def test_a_power_cap_is_told_apart_from_throttling(figures: dict[str, float]) -> None:
    assert figures["gpu_power_capped_share"] == pytest.approx(0.64, abs=0.01)
    assert figures["gpu_throttled_share"] == 0
    assert figures["gpu_sm_mhz_min"] < figures["gpu_sm_mhz_max_possible"] == 1980


def test_the_poller_takes_less_than_a_hundredth_of_a_core(figures: dict[str, float]) -> None:
    assert 0 < figures["poller_cpu_share"] < 0.01
