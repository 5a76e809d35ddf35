"""A measurement, parsed and judged once more from its raw files, as the bench did when it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetbench import __version__
from fleetbench.bench.client import RESULT, Left
from fleetbench.bench.judged import Sent, judged, kept
from fleetbench.bench.left import CLIENT, described, read_blocks
from fleetbench.bench.witness import Seen
from fleetbench.errors import Unreadable
from fleetbench.results.records import as_stored, finding_document, finding_of, result_columns, storable
from fleetbench.results.rows import NOTHING, Finding, Json, MeasurementKind, Verdict
from fleetbench.results.values import BenchResult
from fleetbench.sweep import witnessed
from fleetbench.sweep.witness import digest_of, prompts_in
from fleetbench.telemetry.summary import AFTER, BEFORE, FILES, summary
from fleetbench.verify.material import OfMeasurement

# Findings of what was seen while it ran, which no file of the measurement repeats.
JUDGED_BY = (*FILES, "stdout", "stderr", CLIENT, witnessed.OBSERVED)
FROM_ELSEWHERE = {"server-ended"}
WITNESSED = {"prefix-cache", "server-requests", "server-tokens", "second-listener", "foreign-load"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What the raw files of a measurement come to; `why` says why it cannot be judged once more.

    Attributes:
        result: as the store would keep it; None: there is no report.
        source: the file that it was read from.
        verdict: None when it cannot be judged once more, for the reason `why`.
        telemetry: figures of the samples, as the store would keep them.
        lacks: which file is not there any more that it was judged by, and why; empty: none.
        witnesses: whether the findings of the witness come from files, too; else they are the stored ones.
    """

    result: BenchResult | None
    source: str
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    lacks: str = ""
    witnesses: bool = True
    why: str = ""


def derived(case: OfMeasurement) -> Derived:
    """Parse and judge once more what a client left. It never raises, whatever the files hold."""
    found, problem = _kept(case)
    content = {name: data for name in (RESULT, "stdout") if (data := case.read(name)) is not None}
    block, unread = read_blocks(content, case.row.directory)
    result = as_stored(block.result) if block else None
    telemetry = _telemetry(case, block.result.duration if block else None)
    source = RESULT if RESULT in content and not unread else "stdout"
    lacks = case.lacks(JUDGED_BY)
    ended = next((one for one in case.row.findings if one.rule in FROM_ELSEWHERE), None)
    if ended is not None:
        return Derived(result=None, source=source, lacks=lacks, why="the server ended during it")
    if found is None:
        return Derived(result=result, source=source, telemetry=telemetry, lacks=lacks, why=problem)
    left, sent = found
    witness, complete = _witnessed(case, block.result if block else None)
    seen = Seen(findings=tuple(witness), telemetry=telemetry, ceiling=case.row.ceiling)
    version = case.row.client_version
    judgement, said = judged(case.row, left, block, unread, sent, seen, case.near, client_version=version)
    _, refused = result_columns(block.result if block else BenchResult())
    return Derived(
        result=result,
        source=source,
        verdict=judgement.verdict,
        findings=tuple(finding_of(finding_document(one)) for one in judgement.findings),
        reasons=tuple(storable([*(one.text for one in judgement.findings), *said, *refused])),
        telemetry=telemetry,
        lacks=lacks,
        witnesses=complete,
    )


def _telemetry(case: OfMeasurement, duration_s: float | None) -> Mapping[str, Json]:
    if case.row.kind is not MeasurementKind.MEASURE:
        return NOTHING
    content = {name: data for name in FILES if (data := case.read(name)) is not None}
    found: Mapping[str, Json] = storable(dict(summary(content, duration_s)))
    return found


def _kept(case: OfMeasurement) -> tuple[tuple[Left, Sent] | None, str]:
    known = described(case.directory)
    if known.get("fleetbench", __version__) != __version__:
        return None, f"it was judged by the rules of fleetbench {known['fleetbench']}"
    try:
        found = kept(case.directory)
    except Unreadable as exc:
        return None, f"{exc.what}: {exc.cause}"
    return found, "" if found else f"{CLIENT} does not say what was sent"


def _witnessed(case: OfMeasurement, result: BenchResult | None) -> tuple[Sequence[Finding], bool]:
    """Return what the witness found; what it cannot be asked for once more is taken from the store."""
    if case.row.kind is not MeasurementKind.MEASURE:
        return (), True
    kept_one = case.read(witnessed.OBSERVED)
    observed = witnessed.from_json(kept_one) if kept_one is not None else None
    workload = case.trial.workloads[case.row.workload_index]
    if observed is None or observed.prompts_sha256 != digest_of(workload):
        return tuple(one for one in case.row.findings if one.rule in WITNESSED), False
    texts = [(case.read(name) or b"").decode("utf-8", "replace") for name in _READINGS]
    return witnessed.found(texts[0], texts[1], observed, result, workload, prompts_in(workload)), True


_READINGS = (BEFORE, AFTER)
