"""Imported rows before the rules: the same as for own rows, and what rows of one source say of each other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from fleetbench.results.imports.values import ForeignRow, ImportedRow, Source
from fleetbench.results.rows import NOTHING, Finding, Json, Judgement, Verdict
from fleetbench.results.rules.case import Asked
from fleetbench.results.rules.table import thresholds
from fleetbench.results.verdict import Foreign, judge_foreign, judgement

Ceiling = Callable[[ForeignRow], Mapping[str, Json]]
EAGER = re.compile(r"(?:^|\s)--enforce[-_]eager(?:$|\s|=(?i:true))")


def no_ceiling(row: ForeignRow) -> Mapping[str, Json]:
    """Say nothing of what a row's hardware can do."""
    del row
    return NOTHING


def judged(source: Source, ceiling: Ceiling = no_ceiling) -> tuple[ImportedRow, ...]:
    """Given a source, return its rows in order, each with its verdict.

    `ceiling` gives for a row what `MeasurementRow.ceiling` keeps, empty where its model or GPU is not known.
    """
    ceilings = [ceiling(row) for row in source.rows]
    own = [judge_foreign(foreign(row, most)) for row, most in zip(source.rows, ceilings, strict=True)]
    misread = _misread_columns(source.rows, own)
    twins = _twins(source.rows)
    found = []
    for position, (row, alone) in enumerate(zip(source.rows, own, strict=True)):
        more = [*_column(row, alone, misread), *_contradictions(row, twins.get(position, ()))]
        whole = judgement((*alone.findings, *more))
        found.append(
            ImportedRow(
                source=source.id,
                position=position + 1,
                row=row,
                verdict=whole.verdict,
                findings=whole.findings,
                ceiling=ceilings[position],
            )
        )
    return tuple(found)


def foreign(row: ForeignRow, ceiling: Mapping[str, Json] = NOTHING) -> Foreign:
    """Return a row as the rules look at it: with what was measured, not with latencies that were derived.

    Where the lengths asked for are not said, those that the row's own numbers make stand for them.
    """
    conditions, result = row.conditions, row.result
    measured = {name: value for name, value in result.latencies.items() if name not in row.derived}
    return Foreign(
        result=replace(result, latencies=MappingProxyType(measured)),
        complete=row.complete,
        problems=row.problems,
        asked=Asked(
            num_prompts=result.num_prompts,
            max_concurrency=result.max_concurrency,
            request_rate=None if isinstance(result.request_rate, str) else result.request_rate,
            input_len=conditions.input_len or _whole(result.extra.get("mean_input_tokens")),
            output_len=conditions.output_len or _whole(result.extra.get("mean_output_tokens")),
            ignore_eos=conditions.ignore_eos,
            max_model_len=conditions.max_model_len,
            context_varied=bool(conditions.context_varied),
            eager=bool(EAGER.search(conditions.serve_args)) or None,
            same_prompt=conditions.same_prompt,
        ),
        client_program=_program(row),
        request_output_tps=result.extra.get("request_output_tps"),
        ceiling=ceiling,
        samples=row.samples,
    )


def _program(row: ForeignRow) -> str:
    """A report in text tells vLLM's two clients apart; before 0.27 there was one."""
    if row.form.startswith("vllm-rust"):
        return "rust"
    early = re.match(r"vllm bench serve 0\.(?:\d|1\d|2[0-6])(?:\.|$)", row.conditions.client)
    return "python" if early or row.form == "vllm-text" else ""


def _whole(tokens: float | None) -> int | None:
    return None if tokens is None else math.ceil(tokens)


def _misread_columns(rows: Sequence[ForeignRow], own: Sequence[Judgement]) -> dict[str, ForeignRow]:
    """Return the tables with a row whose output rate can only be one of prompts and answers together."""
    return {
        row.table: row
        for row, alone in zip(rows, own, strict=True)
        if row.table and any("in_flight_as_total" in finding.numbers for finding in alone.findings)
    }


def _column(row: ForeignRow, alone: Judgement, misread: dict[str, ForeignRow]) -> Iterator[Finding]:
    witness = misread.get(row.table)
    if witness is None or row.result.output_throughput is None:
        return
    if any(finding.rule == "concurrency-exceeded" for finding in alone.findings):
        return
    yield Finding(
        rule="column-misread",
        verdict=Verdict.SUSPECT,
        text=f"{witness.label or witness.place} of the same column can only be total tokens, not output",
        numbers={"output_throughput": row.result.output_throughput},
    )


def _twins(rows: Sequence[ForeignRow]) -> dict[int, tuple[ForeignRow, ...]]:
    """Return for each position the rows of other tables that are about the same configuration and load.

    Only where the source says how many GPUs there were: files of different splits look alike without it.
    """
    groups: dict[object, list[int]] = {}
    for position, row in enumerate(rows):
        if row.conditions.gpus is not None and row.result.output_throughput:
            same = replace(row.conditions, context_varied=None)
            load = (row.result.num_prompts, row.result.max_concurrency, row.result.request_rate)
            groups.setdefault((same, load), []).append(position)
    return {
        position: tuple(rows[other] for other in group if rows[other].table != rows[position].table)
        for group in groups.values()
        for position in group
    }


def _contradictions(row: ForeignRow, twins: Sequence[ForeignRow]) -> Iterator[Finding]:
    mine = row.result.output_throughput or 0.0
    for twin in twins:
        other = twin.result.output_throughput or 0.0
        if abs(mine - other) > thresholds().tables_apart * max(mine, other):
            yield Finding(
                rule="contradicts",
                verdict=Verdict.SUSPECT,
                text=f"the same configuration has {other:g} output tokens/s in table '{twin.table}'",
                numbers={"output_throughput": mine, "other_output_throughput": other},
            )
            return
