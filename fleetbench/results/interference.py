"""Do trials that run side by side disturb each other? One measured alone, and again beside others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fleetbench.results.rows import MeasurementKind, MeasurementRow, Verdict
from fleetbench.results.statistics import Spread, spread

# Medians that are further apart than that many times the noise of the repeats are different.
_NOISES = 2.0
LEAST_REPEATS = 2
_WATCHED = (
    ("output_throughput", "output tok/s"),
    ("median_ttft_ms", "ms TTFT"),
    ("median_tpot_ms", "ms TPOT"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric alone and beside other trials; `percent` is what the others change of its median.

    `noise_percent` is what repeats differ by anyway: both coefficients of variation, added as squares, twice.
    """

    name: str
    alone: Spread
    beside: Spread
    percent: float
    noise_percent: float

    @property
    def beyond_noise(self) -> bool:
        """True when the others change more than repeats differ by anyway."""
        return abs(self.percent) > self.noise_percent

    def __str__(self) -> str:
        return (
            f"{self.alone.median:,.4g} {self.name} alone, {self.beside.median:,.4g} beside"
            f" ({self.percent:+.1f} %, noise {self.noise_percent:.1f} %)"
        )


def differences(rows: Iterable[MeasurementRow]) -> tuple[Difference, ...]:
    """Given the measurements of a trial, return what its control shows; empty when there are too few.

    Only the first workload has a control. Two valid measurements of each kind are the least that tell noise.
    """
    valid = [row for row in rows if row.workload_index == 0 and row.verdict is Verdict.VALID]
    found = []
    for key, name in _WATCHED:
        alone = spread(_values(valid, MeasurementKind.MEASURE, key))
        beside = spread(_values(valid, MeasurementKind.CONTROL, key))
        if (
            alone is None
            or beside is None
            or min(alone.count, beside.count) < LEAST_REPEATS
            or not alone.median
        ):
            continue
        noise = math.hypot(alone.cv_percent or 0.0, beside.cv_percent or 0.0) * _NOISES
        percent = (beside.median / alone.median - 1) * 100
        found.append(Difference(name=name, alone=alone, beside=beside, percent=percent, noise_percent=noise))
    return tuple(found)


def _values(rows: Iterable[MeasurementRow], kind: MeasurementKind, key: str) -> list[float]:
    found = []
    for row in rows:
        if row.kind is kind and row.result is not None:
            latencies = row.result.latencies
            value = latencies.get(key) if key in latencies else getattr(row.result, key, None)
            found += [value] if value is not None else []
    return found
