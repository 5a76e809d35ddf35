"""What is derived once more for each measurement: its result, its verdict, and who measured it how."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping

from fleetbench.bench.client import RESULT
from fleetbench.bench.left import CLIENT, described
from fleetbench.ceiling.models import architecture_named
from fleetbench.ceiling.row import Served, ceiling_of
from fleetbench.errors import Unreadable
from fleetbench.facts.document import from_json
from fleetbench.facts.values import Gpu, Missing
from fleetbench.results.records import document_of, workload_of
from fleetbench.results.rows import Finding, Json, MeasurementKind, as_json
from fleetbench.results.samples import read_samples
from fleetbench.results.schema import REAL_COLUMNS, TEXT_COLUMNS, WHOLE_COLUMNS
from fleetbench.results.values import BenchResult
from fleetbench.sweep.repeats import warm_up
from fleetbench.sweep.shape import KEPT, architecture_in
from fleetbench.telemetry.summary import FILES
from fleetbench.units import exec_arguments
from fleetbench.verify.claims import Checked, Claim, Unchecked, claims
from fleetbench.verify.derived import FROM_ELSEWHERE, Derived
from fleetbench.verify.material import OfMeasurement, raw_file

FACTS = "facts-before.json"


def result(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """Every number of the result, from the client's own report; what it printed has two decimals of most."""
    if any(one.rule in FROM_ELSEWHERE for one in case.row.findings):
        return
    stored, found = _numbers(case.row.result), _numbers(derived.result)
    lacks = case.lacks((RESULT,))
    if not lacks:
        yield from claims(case.place, stored, found, derived.source)
        return
    for name, value in stored.items():
        if found.get(name) is not None:
            printed, source = found[name], derived.source
            yield Claim(place=case.place, name=name, stored=value, found=printed, source=source, rounded=True)
        elif value is not None:
            yield Unchecked(place=case.place, name=name, why=lacks)


def judgement(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """The verdict, each finding with its numbers, and what else is said of it."""
    row = case.row
    if derived.verdict is None:
        yield Unchecked(place=case.place, name="verdict", why=derived.why)
        return
    source = "what it left, judged again"
    verdict = {"verdict": row.verdict.value if row.verdict else None}
    judged, lacks = {"verdict": derived.verdict.value}, derived.lacks
    yield from claims(case.place, verdict, judged, source, lacks=lacks)
    findings = _findings(row.findings), _findings(derived.findings)
    yield from claims(case.place, *findings, source, "finding ", lacks=lacks)
    said = _said(row.findings, row.reasons), _said(derived.findings, derived.reasons)
    yield from claims(case.place, *said, source, lacks=lacks)
    if not derived.witnesses:
        why = "what the witness saw was not kept, or the prompt file is another one now"
        yield Unchecked(place=case.place, name="findings by the server's counters", why=why)


def telemetry(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """Every figure of the telemetry, from the samples."""
    lacks = case.lacks(FILES)
    if case.row.kind is not MeasurementKind.MEASURE or (derived.result is None and not lacks):
        return
    stored, found = dict(case.row.telemetry), dict(derived.telemetry)
    yield from claims(case.place, stored, found, "its samples", "telemetry ", lacks=lacks)


def ceiling(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """What the hardware could do at most, from the model's configuration, the host's facts and the result."""
    row, trial = case.row, case.trial
    lacks = case.lacks(FILES, (FACTS, *KEPT))
    if not row.ceiling or row.kind is not MeasurementKind.MEASURE or (derived.result is None and not lacks):
        return
    place = case.directory.parent.parent
    facts = raw_file(place, FACTS)
    known = _gpus(facts, trial.gpus.indices) if facts is not None else ()
    files = {name: data for name in KEPT if (data := raw_file(place, name)) is not None}
    if not known:
        yield Unchecked(place=case.place, name="ceiling", why="which GPUs it had is not known any more")
        return
    served = Served(
        words=exec_arguments(trial.unit_text)[3:],
        effective=trial.effective,
        version=trial.vllm_version,
        client_program=row.client_program,
    )
    workload = trial.workloads[row.workload_index]
    shape = architecture_in(files) or architecture_named(case.run.repo)
    result, figures = derived.result, derived.telemetry
    stored, found = (
        dict(row.ceiling),
        dict(ceiling_of(shape, known, trial.config, workload, result, figures, served)),
    )
    yield from claims(case.place, stored, found, "shape, GPUs and result", "ceiling ", lacks=lacks)


def _gpus(facts: bytes, indices: tuple[int, ...]) -> tuple[Gpu, ...]:
    try:
        known = from_json(facts.decode("utf-8", "replace")).gpus
    except Unreadable:
        return ()
    return () if isinstance(known, Missing) else tuple(gpu for gpu in known if gpu.index in indices)


def samples(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """What the client's report says of its requests, from the requests that it wrote down.

    Time to first token, pauses and tokens are computed so by every client from 0.10 to 0.33; the time of a
    whole request is not written down before 0.30, and a sum of pauses is a little longer.
    """
    content, report = case.read(RESULT), derived.result
    known = read_samples(content) if content is not None else None
    if known is None or report is None or not known.requests:
        return
    if known.unreadable or len(known.requests) != report.completed:
        why = f"{len(known.requests)} of {report.completed} can be read"
        yield Unchecked(place=case.place, name="what follows from its requests", why=why)
        return
    found: dict[str, Json] = {
        "total_input_tokens": sum(request.input_tokens for request in known.requests),
        "total_output_tokens": sum(request.output_tokens for request in known.requests),
    }
    times = {
        "ttft": [request.ttft_s * 1000 for request in known.requests],
        "itl": [pause * 1000 for request in known.requests for pause in request.itl_s],
    }
    for name, values in times.items():
        for statistic, value in _statistics(values):
            key = f"{statistic}_{name}_ms"
            reported = report.latencies.get(key)
            # Sums in another order differ in the last digits.
            close = reported is not None and math.isclose(reported, value, rel_tol=1e-9, abs_tol=1e-9)
            found |= {key: reported if close else value} if reported is not None else {}
    stored = {name: _numbers(report).get(name) for name in found}
    yield from claims(case.place, stored, found, "the requests in result.json", "from its requests: ")


def _statistics(values: list[float]) -> Iterator[tuple[str, float]]:
    """Yield what vLLM's clients report of some times, by their definitions (numpy's)."""
    if not values:
        return
    ordered = sorted(values)
    yield "mean", statistics.fmean(values)
    yield "std", statistics.pstdev(values)
    for name, percent in (("median", 50), ("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
        place = (len(ordered) - 1) * percent / 100
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        yield name, ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def client(case: OfMeasurement, derived: Derived) -> Iterator[Checked]:
    """Seed, attempt, exit status, program, and the workload, as the client was given them."""
    known, row = described(case.directory), case.row
    if not known:
        yield Unchecked(place=case.place, name="seed, attempt, exit status", why=f"no readable {CLIENT}")
        return
    stored: dict[str, Json] = {
        "seed": row.seed,
        "attempt": row.attempt,
        "client": row.client,
        "unit_name": row.unit_name,
    }
    names = {"unit_name": "unit"}
    if derived.why != "the server ended during it":
        stored |= {"exit_status": row.exit_status, "client_program": row.client_program or None}
        names["client_program"] = "program"
    found = {name: known.get(names.get(name, name)) for name in stored}
    yield from claims(case.place, stored, found, CLIENT)
    sent = known.get("workload")
    if isinstance(sent, dict):
        planned = case.trial.workloads[row.workload_index]
        if row.kind is MeasurementKind.WARMUP:
            planned = warm_up(planned)
        asked = as_json(document_of(planned))
        yield from claims(case.place, _asked(asked), _asked(_readable(sent)), CLIENT, "workload: ")


def _numbers(found: BenchResult | None) -> Mapping[str, Json]:
    if found is None:
        return {}
    columns = {name: getattr(found, name) for name in (*WHOLE_COLUMNS, *REAL_COLUMNS, *TEXT_COLUMNS)}
    return columns | dict(found.latencies) | dict(found.extra)


def _findings(found: tuple[Finding, ...]) -> Mapping[str, Json]:
    """Each finding by its rule: of several of one rule each has a number."""
    named: dict[str, Json] = {}
    for one in found:
        same = sum(name.partition(" (")[0] == one.rule for name in named)
        name = f"{one.rule} ({same + 1})" if same else one.rule
        named[name] = one.text
        named |= {f"{name}: {key}": value for key, value in one.numbers.items()}
    return named


def _said(findings: tuple[Finding, ...], reasons: tuple[str, ...]) -> Mapping[str, Json]:
    """Return what is said besides the findings."""
    texts = {one.text for one in findings}
    return {f"remark {n}": text for n, text in enumerate((x for x in reasons if x not in texts), start=1)}


def _readable(sent: dict[str, Json]) -> Json:
    try:
        return as_json(document_of(workload_of(sent)))
    except (TypeError, ValueError):
        return {}


def _asked(document: Json) -> Mapping[str, Json]:
    """Return what was to be sent; the salt of a measurement is in its extra arguments and is its own."""
    known = document if isinstance(document, dict) else {}
    return {name: value for name, value in known.items() if name != "extra_args"}
