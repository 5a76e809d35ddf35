"""What a measurement is worth, decided from its numbers alone: `judge` our own, `judge_foreign` others.

`vllm bench serve` exits 0 when every request has failed (seen up to vLLM 0.33), so nothing here trusts an
exit status of 0. Of our own rows, what cannot be known is a reason against `valid`, never a pass; of an
imported one it is said, and what is known decides. The rules are in `rules/`, their table is
`data/rules.toml`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fleetbench.errors import one_line
from fleetbench.model import Workload
from fleetbench.results.rows import NOTHING, Finding, Json, Judgement, MeasurementRow, TrialRow, Verdict
from fleetbench.results.rules import (
    client,
    latencies,
    lengths,
    load,
    machine,
    repeats,
    report,
    server,
    stalls,
    unchecked,
)
from fleetbench.results.rules.case import Asked, Case, asked_of
from fleetbench.results.rules.report import failed_requests
from fleetbench.results.rules.table import Thresholds, thresholds
from fleetbench.results.samples import Samples
from fleetbench.results.values import BenchResult

__all__ = ["Foreign", "failed_requests", "judge", "judge_foreign", "judgement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A row that somebody else published, with what is known of it.

    Attributes:
        result: its numbers under vLLM's names; what the source does not say is None.
        complete, problems: how well it could be read (`Block.complete`, `Block.problems`).
        asked: what it is said to be about.
        client_program: `python`, `rust`, or empty.
        request_output_tps: output tokens/s of one request, on average over all.
        telemetry, ceiling: as in `MeasurementRow`; empty: unknown.
        samples: of each request, where the source has them.
    """

    result: BenchResult
    complete: bool = True
    problems: tuple[str, ...] = ()
    asked: Asked = field(default_factory=Asked)
    client_program: str = ""
    request_output_tps: float | None = None
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    samples: Samples | None = None


def judge(
    result: BenchResult | None,
    workload: Workload,
    *,
    complete: bool = True,
    problems: tuple[str, ...] = (),
    exit_status: int | None = None,
    client_program: str = "",
    client_version: str = "",
    witnessed: tuple[Finding, ...] = (),
    telemetry: Mapping[str, Json] = NOTHING,
    ceiling: Mapping[str, Json] = NOTHING,
    samples: Samples | None = None,
    trial: TrialRow | None = None,
    siblings: tuple[TrialRow, ...] = (),
    seed: int | None = None,
    earlier: tuple[MeasurementRow, ...] = (),
    limits: Thresholds | None = None,
) -> Judgement:
    """Judge one execution of the bench client.

    Args:
        result: its numbers; None when no report could be read.
        workload: what it was asked to send.
        complete, problems: how well the report could be read (`Block.complete`, `Block.problems`).
        exit_status: of the client, None when unknown.
        client_program, client_version: which client it was; empty when unknown.
        witnessed: what was found besides its own report, for instance by the server's counters.
        telemetry, ceiling: as in `MeasurementRow`; empty: not measured.
        samples: of each request, where the client wrote them.
        trial: what it belongs to. siblings: the other trials of its run.
        seed: of this execution. earlier: finished measurements of the same trial, workload and kind.
        limits: other thresholds than those of the table.

    Returns the worst verdict that any finding asks for, and all findings, the worst first.
    """
    limits = limits or thresholds()
    findings = [*witnessed, *report.client_status(exit_status), *report.whole(result, problems, complete)]
    if result is not None:
        case = Case(
            result=result,
            asked=asked_of(workload, trial.config if trial else None),
            client_program=client_program,
            client_version=client_version,
            telemetry=telemetry,
            ceiling=ceiling,
            samples=samples,
            trial=trial,
            siblings=siblings,
            seed=seed,
            earlier=earlier,
        )
        findings += _of_both(case, limits)
        findings += _of_ours(case, limits)
    return judgement(findings)


def judge_foreign(row: Foreign, *, limits: Thresholds | None = None) -> Judgement:
    """Judge an imported row by the same rules, as far as its values are known.

    `valid` means: nothing contradicts it. What could not be checked is a remark of the rule `unchecked`.
    """
    limits = limits or thresholds()
    case = Case(
        result=row.result,
        asked=row.asked,
        ours=False,
        client_program=row.client_program,
        request_output_tps=row.request_output_tps,
        telemetry=row.telemetry,
        ceiling=row.ceiling,
        samples=row.samples,
    )
    findings = [*report.whole(row.result, row.problems, row.complete), *_of_both(case, limits)]
    findings += [*lengths.same_prompt(case), *latencies.faster_than_any(case, limits)]
    return judgement([*findings, *unchecked.unchecked(case)])


def judgement(findings: Iterable[Finding]) -> Judgement:
    """Return the worst verdict of the findings, and all of them, the worst first."""
    order = (Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID)
    found = tuple(sorted(map(_storable, findings), key=lambda finding: order.index(finding.verdict)))
    return Judgement(verdict=found[0].verdict if found else Verdict.VALID, findings=found)


def _storable(finding: Finding) -> Finding:
    """Leave out numbers that JSON has none for, and cut a text that is none: products of hostile numbers."""
    numbers = {name: value for name, value in finding.numbers.items() if math.isfinite(value)}
    text = one_line(finding.text)
    same = text == finding.text and len(numbers) == len(finding.numbers)
    return finding if same else replace(finding, numbers=numbers, text=text)


def _of_both(case: Case, limits: Thresholds) -> Iterator[Finding]:
    yield from report.requests(case)
    yield from report.rates(case)
    yield from report.arithmetic(case, limits)
    yield from latencies.order(case, limits)
    yield from latencies.total(case, limits)
    yield from latencies.peak(case)
    yield from latencies.bundles(case)
    yield from lengths.output(case, limits)
    yield from lengths.prompt(case, limits)
    yield from lengths.context(case, limits)
    yield from lengths.eager(case)
    yield from load.in_flight(case, limits)
    yield from load.waves(case, limits)
    yield from load.offered_rate(case, limits)
    yield from stalls.stalled(case, limits)
    yield from client.streams(case, limits)
    yield from client.long_context(case, limits)
    yield from machine.above_ceiling(case, limits)


def _of_ours(case: Case, limits: Thresholds) -> Iterator[Finding]:
    yield from client.starved(case, limits)
    yield from client.added(case, limits)
    yield from client.first_token(case, limits)
    yield from client.send_rate(case, limits)
    yield from stalls.drift(case, limits)
    yield from repeats.repeated_seed(case)
    yield from repeats.apart(case, limits)
    yield from repeats.version_changed(case)
    yield from server.configuration(case)
    yield from server.outcomes(case)
    yield from server.preempted(case)
    yield from machine.throttled(case, limits)
    yield from machine.clocks(case, limits)
    yield from machine.gaps(case, limits)
