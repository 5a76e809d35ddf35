"""Rules over what the server itself says: its configuration, its counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetbench.results.rows import Finding, TrialRow, Verdict
from fleetbench.results.rules.case import Case
from fleetbench.results.rules.table import Thresholds, thresholds
from fleetbench.results.values import BenchResult

_FLAGS = {
    "tp": ("tensor-parallel size", "tensor-parallel-size"),
    "pp": ("pipeline stages", "pipeline-parallel-size"),
    "dp": ("data-parallel size", "data-parallel-size"),
    "max_model_len": ("max-model-len", "max-model-len"),
}


def configuration(case: Case) -> Iterator[Finding]:
    """What the server read back of itself, against its unit's command line and the configuration."""
    if case.trial is None:
        return
    for key, (what, flag) in _FLAGS.items():
        wanted, found = _wanted(case.trial, key, flag), case.trial.effective.get(key)
        if wanted is None or isinstance(found, bool) or not isinstance(found, int) or found == wanted:
            continue
        yield Finding(
            rule="configuration",
            verdict=Verdict.INVALID,
            text=f"asked for {what} {wanted}, it ran with {found}",
            numbers={"asked": wanted, "effective": found},
        )


def tokens(
    result: BenchResult,
    *,
    prompt_tokens: int | None,
    generation_tokens: int | None,
    cached_tokens: int | None = None,
    more_requests: int = 0,
    limits: Thresholds | None = None,
) -> Iterator[Finding]:
    """The client's totals against what the server counted between two readings.

    Args:
        result: of a client of which no request failed.
        prompt_tokens, generation_tokens: as the server counted them; None: unknown.
        cached_tokens: prompt tokens from the prefix cache, which some versions may not count.
        more_requests: that may come on top of the client's: its own test requests, probes.
    """
    share = (limits or thresholds()).server_tokens
    completed = result.completed or 0
    if not completed or result.failed:
        return
    for what, mine, theirs, missing in (
        ("output tokens", result.total_output_tokens, generation_tokens, 0),
        ("prompt tokens", result.total_input_tokens, prompt_tokens, cached_tokens or 0),
    ):
        if mine is None or theirs is None:
            continue
        each = mine / completed
        # Special tokens are counted by one of the two only: a few for each prompt, whatever its length.
        slack = share * mine + (4 * completed if what == "prompt tokens" else 0)
        if mine - slack - missing <= theirs <= mine + slack + more_requests * (each + 8):
            continue
        if what == "prompt tokens" and "chat" in (result.backend or ""):
            continue  # a chat template adds text that the client does not count
        yield Finding(
            rule="server-tokens",
            verdict=Verdict.SUSPECT,
            text=f"the server counted {theirs:,} {what}, the client {mine:,}",
            numbers={"server": theirs, "client": mine},
        )


def outcomes(case: Case) -> Iterator[Finding]:
    """Requests in error by the server's counter, of which the client knows nothing."""
    errors = case.measured("finished_error")
    if errors and case.result.failed == 0:
        text = f"the server ended {errors:.0f} requests in error, the client counts none as failed"
        numbers = {"finished_error": errors}
        yield Finding(rule="server-outcomes", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def preempted(case: Case) -> Iterator[Finding]:
    """Requests that lost their place in the KV cache."""
    count = case.measured("preemptions")
    if count:
        text = f"{count:,.0f} preemptions: the KV cache was full"
        yield Finding(rule="preempted", verdict=Verdict.VALID, text=text, numbers={"preemptions": count})


def _wanted(trial: TrialRow, key: str, flag: str) -> int | None:
    """Return what the unit's command line says last, else what the configuration says."""
    name = flag.replace("-", "[-_]")
    found = re.findall(rf"{name}[=\s]'?\"?(\d{{1,9}})\b", trial.unit_text)
    # Of several the last one counts, and which one that is a short form makes hard to tell.
    if re.search(rf"\s-{key}[=\s]", f"{trial.unit_text} {' '.join(trial.config.serve_args)} "):
        return None
    value = int(found[-1]) if found else getattr(trial.config, key)
    return value if isinstance(value, int) else None
