"""Whether trials side by side disturb each other: the difference against the noise of the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleetbench.results.interference import differences
from fleetbench.results.rows import MeasurementKind, MeasurementRow, MeasurementState, Verdict
from fleetbench.results.values import BenchResult


def rows(kind: MeasurementKind, speeds: Sequence[float], ttft_ms: float = 20.0) -> list[MeasurementRow]:
    return [
        MeasurementRow(
            run_id="r",
            trial=1,
            workload_index=0,
            repeat=repeat,
            kind=kind,
            seed=repeat,
            unit_name="u",
            client="c",
            state=MeasurementState.FINISHED,
            verdict=Verdict.VALID,
            result=BenchResult(output_throughput=speed, latencies={"median_ttft_ms": ttft_ms + repeat}),
        )
        for repeat, speed in enumerate(speeds, 1)
    ]


def control(alone: Sequence[float], beside: Sequence[float]) -> list[MeasurementRow]:
    return rows(MeasurementKind.MEASURE, alone) + rows(MeasurementKind.CONTROL, beside)


def test_a_difference_within_the_noise_of_the_repeats_is_none() -> None:
    speed, ttft = differences(control((1000, 1010, 990), (995, 1005, 985)))
    assert not speed.beyond_noise
    assert not ttft.beyond_noise
    assert speed.percent == pytest.approx(-0.5)
    assert speed.noise_percent == pytest.approx(2.8, abs=0.1)


def test_a_difference_beyond_the_noise_is_told_with_its_numbers() -> None:
    speed, _ = differences(control((1000, 1010, 990), (800, 810, 790)))
    assert speed.beyond_noise
    assert str(speed) == "1,000 output tok/s alone, 800 beside (-20.0 %, noise 3.2 %)"


def test_more_throughput_beside_others_is_as_suspicious_as_less() -> None:
    assert differences(control((1000, 1001), (1100, 1101)))[0].beyond_noise


def test_a_worse_latency_alone_is_harm_too() -> None:
    same = rows(MeasurementKind.MEASURE, (1000, 1010)) + rows(MeasurementKind.CONTROL, (1000, 1010), 80.0)
    assert [found.beyond_noise for found in differences(same)] == [False, True]


@pytest.mark.parametrize(
    ("alone", "beside"), [((1000,), (990, 1000)), ((1000, 1010), (990,)), ((1000, 1010), ()), ((), ())]
)
def test_a_single_repeat_tells_no_noise_so_nothing_is_shown(
    alone: Sequence[float], beside: Sequence[float]
) -> None:
    assert differences(control(alone, beside)) == ()


def test_only_valid_measurements_of_the_first_workload_count() -> None:
    found = control((1000, 1010), (990, 1000))
    assert differences([replace(row, verdict=Verdict.INVALID) for row in found]) == ()
    assert differences([replace(row, workload_index=1) for row in found]) == ()
    warm = [replace(row, kind=MeasurementKind.WARMUP) for row in found]
    assert differences(warm) == ()
