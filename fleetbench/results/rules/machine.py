"""Rules over the machine: clocks of GPU and hosts, errors, missing samples, and what is possible."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetbench.errors import one_line
from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.table import Thresholds

# A power cap is how many GPUs run under load; these are not.
_HARM = re.compile(r"therm|slow|brake|hot|heat", re.IGNORECASE)


def throttled(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Clocks that were held down, and errors of the card."""
    share = case.measured("gpu_throttled_share")
    said = case.telemetry.get("gpu_throttle_reasons")
    reasons = one_line(said, 120) if isinstance(said, str) else ""
    if share is not None and share >= limits.throttled:
        clock, most = case.measured("gpu_sm_mhz_mean"), case.measured("gpu_sm_mhz_max_possible")
        speed = f", at {clock:,.0f} of {most:,.0f} MHz" if clock and most else ""
        yield Finding(
            rule="throttled",
            verdict=Verdict.SUSPECT if _HARM.search(reasons) else Verdict.VALID,
            text=f"its GPU was held down in {share:.0%} of samples ({reasons or 'no reason given'}){speed}",
            numbers={"throttled_share": share} | ({"sm_mhz_mean": clock} if clock else {}),
        )
    for name, what in (("gpu_xid", "XID messages"), ("gpu_ecc", "memory errors that were not corrected")):
        if count := case.measured(name):
            text = f"{count:.0f} {what} of its GPUs during the run"
            yield Finding(rule="gpu-errors", verdict=Verdict.SUSPECT, text=text, numbers={name: count})


def clocks(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Client and server host by their own clocks."""
    skew = case.measured("clock_offset_ms")
    if skew is not None and abs(skew) >= limits.skew_ms:
        side = "ahead of" if skew > 0 else "behind"
        yield Finding(
            rule="clock-skew",
            verdict=Verdict.SUSPECT,
            text=f"the clock of the server's host is {abs(skew) / 1000:.1f} s {side} the client's:"
            " what it sampled belongs to another time",
            numbers={"clock_offset_ms": skew},
        )


def gaps(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Samples that did not come."""
    missed, taken = case.measured("missed_samples"), case.measured("samples")
    if missed is None or taken is None or missed < limits.missed_least:
        return
    if missed >= limits.missed_share * (missed + taken):
        text = f"{missed:.0f} of {missed + taken:.0f} samples of the server are missing"
        numbers = {"missed_samples": missed, "samples": taken}
        yield Finding(rule="telemetry-gaps", verdict=Verdict.VALID, text=text, numbers=numbers)


def above_ceiling(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Above the strict ceiling, which is there only where every input of its formula is known."""
    percent = finite(case.ceiling.get("of_strict_percent"))
    if percent is None or percent <= limits.ceiling_percent:
        return
    most = finite(case.ceiling.get("strict_output_tps"))
    rate = finite(case.result.output_throughput)
    of = f" ({rate:,.0f} of {most:,.0f} output tokens/s)" if rate and most else ""
    yield Finding(
        rule="above-ceiling",
        verdict=Verdict.INVALID,
        text=f"{percent:.0f} % of what the hardware can do at most{of}",
        numbers={"of_strict_percent": percent},
    )
