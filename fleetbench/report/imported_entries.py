"""From imported rows to entries, under the same names as own ones. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from fleetbench.errors import one_line
from fleetbench.model import Config, Workload
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import METRICS, PER_GPU, PER_REQUEST, PER_USER, PROMPT, PROMPT_PER_REQUEST
from fleetbench.results.comparison import Observation
from fleetbench.results.imports.values import Conditions, ImportedRow, ImportedSource
from fleetbench.results.rows import Verdict
from fleetbench.results.values import BenchResult

# What an import keeps under the names of others, and the metric that it is.
_EXTRA = {
    "input_throughput": PROMPT.key,
    "request_output_tps": PER_REQUEST.key,
    "request_input_tps": PROMPT_PER_REQUEST.key,
}


def entries_of_import(source: ImportedSource, rows: Sequence[ImportedRow]) -> tuple[Entry, ...]:
    """Return an entry for each row of a source, in its order; names are those that the source gives."""
    return tuple(_entry(source, found) for found in rows)


def _entry(source: ImportedSource, found: ImportedRow) -> Entry:
    row, about = found.row, found.row.conditions
    values = dict(_values(row.result, about))
    against = [each.text for each in found.findings if each.verdict is not Verdict.VALID]
    workload = _workload(row.result, about)
    return Entry(
        source=source.id,
        imported=True,
        place=f"row {found.position}",
        name=one_line(row.label or row.place or f"row {found.position}", 100),
        table=one_line(row.table),
        model=about.model,
        gpu=about.gpu,
        gpus=about.gpus,
        host=about.host,
        config=Config(
            tp=about.tp or 1,
            dp=about.dp or 1,
            pp=about.pp or 1,
            units=about.units or 1,
            max_model_len=about.max_model_len,
            serve_args=_words(about.serve_args),
        ),
        split_known=(about.tp, about.dp, about.pp) != (None, None, None),
        workload=workload,
        load=load_of(row.result, about),
        vllm_version=about.engine_version,
        client=about.client,
        status=Status(found.verdict.value),
        cause=one_line(next(iter(against), ""), 300),
        repeats=1,
        completed=row.result.completed,
        failed=row.result.failed,
        values=values,
        observations={key: (Observation(value=value),) for key, value in values.items()},
        findings=found.findings,
        ceiling=found.ceiling,
    )


def load_of(result: BenchResult, about: Conditions) -> str:
    """Return what was sent, in words, as far as the source says: `one fixed prompt n=100 c=10`."""
    rate = result.request_rate
    lengths = f"{about.input_len or '?'}/{about.output_len or '?'}"
    parts = [
        about.dataset or "requests",
        lengths if about.input_len or about.output_len else "",
        f"n={result.num_prompts}" if result.num_prompts else "",
        f"c={result.max_concurrency}" if result.max_concurrency else "",
        f"{rate:g}/s" if isinstance(rate, int | float) else "",
    ]
    return one_line(" ".join(filter(None, parts)), 200)


def _workload(result: BenchResult, about: Conditions) -> Workload:
    rate = result.request_rate
    return Workload(
        dataset=about.dataset or "unknown",
        input_len=about.input_len or 0,
        output_len=about.output_len or 0,
        num_prompts=result.num_prompts or 0,
        max_concurrency=result.max_concurrency,
        request_rate=float(rate) if isinstance(rate, int | float) else None,
    )


def _values(result: BenchResult, about: Conditions) -> Iterator[tuple[str, float]]:
    yield from result.latencies.items()
    for metric in METRICS:
        value = metric.of(result)
        if value is not None:
            yield metric.key, float(value)
    for name, key in _EXTRA.items():
        if name in result.extra:
            yield key, result.extra[name]
    if (mean := result.latencies.get("mean_e2el_ms")) is not None:
        yield "mean_e2el_ms", mean
        yield "avg_latency_s", mean / 1000
    if result.output_throughput is not None:
        yield "gen_tps", result.output_throughput
        if about.gpus:
            yield PER_GPU.key, result.output_throughput / about.gpus
    if result.failed is not None:
        yield "errors", float(result.failed)
    if tpot := result.latencies.get("median_tpot_ms"):
        yield PER_USER.key, 1000 / tpot
    elif result.extra.get("request_output_tps"):
        yield PER_USER.key, result.extra["request_output_tps"]


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:  # a quote without its end
        return tuple(text.split())
