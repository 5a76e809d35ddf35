"""What the planner says of a run's trials: which are not worth trying, what is expected of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleetbench.model import Config, Failure, Trial
from fleetbench.plan.document import predicted
from fleetbench.plan.planner import Candidate

KIND = "planner"
TRY_ALL = "--try-all tries it all the same; fleetbench plan shows every split"
MORE_GPUS = "take a host with more GPUs, or a smaller split"


def with_verdicts(
    trials: Iterable[Trial], judged: Mapping[str, Mapping[Config, Candidate]]
) -> tuple[Trial, ...]:
    """Given trials and each host's candidates, return the trials with what is predicted of them.

    A trial that its host's plan does not run is `skipped`, with the planner's reason. A host that is not in
    `judged` could not be judged: all its trials are tried.
    """
    return tuple(_with_verdict(trial, judged.get(trial.host, {}).get(trial.config)) for trial in trials)


def _with_verdict(trial: Trial, candidate: Candidate | None) -> Trial:
    if candidate is None:
        return trial
    said: dict[str, object] = {
        "verdict": candidate.verdict.value,
        "vllm": candidate.vllm,
        "reasons": [str(reason) for reason in candidate.reasons],
        **predicted(candidate),
    }
    return replace(trial, predicted=said, skipped=None if candidate.run else not_run(candidate))


def not_run(candidate: Candidate) -> Failure:
    """Return why a candidate is not tried: the rule in one line, and the numbers behind it."""
    decisive = candidate.reasons[0]
    found = candidate.estimate
    numbers = "; ".join(map(str, candidate.reasons[1:]))
    if found is not None:
        numbers = (
            f"of one GPU: {found.weights_gib:.1f} GiB weights, {found.overhead_gib:.1f} overhead,"
            f" {found.needed_kv_gib:.1f} for the KV cache of one request; {found.budget_gib:.1f} are there"
        )
    return Failure(
        kind=KIND,
        cause=f"{candidate.verdict.value}: {decisive}",
        evidence=numbers or decisive.text,
        advice=MORE_GPUS if any(reason.rule == "gpus" for reason in candidate.reasons) else TRY_ALL,
    )
