"""Rules over the neighbours of a measurement: earlier repeats of it, other trials of its run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from fleetbench.errors import one_line
from fleetbench.results.rows import Finding, MeasurementKind, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.table import Thresholds


def repeated_seed(case: Case) -> Iterator[Finding]:
    """A seed that was used before in this server's life, where it has a prefix cache."""
    if case.trial is not None and case.trial.effective.get("prefix_caching") is False:
        return
    for row in case.earlier:
        if case.seed is not None and row.seed == case.seed:
            what = "the warm-up" if row.kind is MeasurementKind.WARMUP else f"repeat {row.repeat}"
            text = f"{what} had sent the same prompts before (seed {case.seed})"
            yield Finding(
                rule="repeated-seed", verdict=Verdict.SUSPECT, text=text, numbers={"seed": case.seed}
            )
            return


def apart(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """This repeat against the median of those before it: a remark, for the spread of the row says it too."""
    mine = finite(case.result.output_throughput)
    before = [
        rate
        for row in case.earlier
        if row.kind is MeasurementKind.MEASURE and row.result is not None and row.verdict is Verdict.VALID
        if (rate := finite(row.result.output_throughput))
    ]
    if not mine or not before:
        return
    median = statistics.median(before)
    change = mine / median - 1
    if abs(change) >= limits.repeats_apart:
        than = "faster" if change > 0 else "slower"
        which = "the repeat" if len(before) == 1 else f"the median of the {len(before)} repeats"
        yield Finding(
            rule="repeats-apart",
            verdict=Verdict.VALID,
            text=f"{abs(change):.0%} {than} than {which} before it in the same server",
            numbers={"output_throughput": mine, "median_before": median},
        )


def version_changed(case: Case) -> Iterator[Finding]:
    """Another version of vLLM than that of an earlier trial of the same build on the same host, or client."""
    trial = case.trial
    if trial is None:
        return
    for other in case.siblings:
        same = other.host == trial.host and other.config.build == trial.config.build
        # A trial that began later has no version yet while this one is judged.
        same = same and "" < other.started_at < trial.started_at
        known = other.vllm_version and trial.vllm_version
        if same and known and other.vllm_version != trial.vllm_version:
            yield _changed("vLLM", trial.vllm_version, f"trial {other.number}", other.vllm_version)
            return
    for row in case.earlier:
        if row.client_version and case.client_version and row.client_version != case.client_version:
            yield _changed(
                "the client of vLLM", case.client_version, f"repeat {row.repeat}", row.client_version
            )
            return


def _changed(what: str, now: str, where: str, before: str) -> Finding:
    text = f"{what} {one_line(now, 60)} here and {one_line(before, 60)} in {where}: it changed within the run"
    return Finding(rule="version-changed", verdict=Verdict.INVALID, text=text)
