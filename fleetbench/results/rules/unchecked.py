"""What could not be checked of an imported row, in one remark."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case
from fleetbench.results.rules.load import limit, open_requests


def unchecked(case: Case) -> Iterator[Finding]:
    """Name the checks for which values are missing; no finding where all could be made."""
    result, asked = case.result, case.asked
    missing = []
    if result.failed is None and (
        result.completed is None or (asked.num_prompts or result.num_prompts) is None
    ):
        missing.append("failed requests")
    if limit(case) is None or open_requests(case) is None:
        missing.append("Little's law")
    if result.duration is None:
        missing.append("totals against rates")
    if asked.output_len is None or result.total_output_tokens is None:
        missing.append("length of answers")
    if asked.input_len is None or result.total_input_tokens is None:
        missing.append("length of prompts")
    if case.ceiling.get("of_strict_percent") is None:
        missing.append("the physical ceiling")
    if missing:
        text = f"not checked, because the source lacks the values: {', '.join(missing)}"
        yield Finding(rule="unchecked", verdict=Verdict.VALID, text=text, numbers={"checks": len(missing)})
