"""A plan as plain values: for JSON, for a CSV, for a table."""

from __future__ import annotations

from fleetbench.plan.planner import Candidate, Plan

# Names of a candidate's values, in order.
COLUMNS = (
    *("tp", "dp", "pp", "ep", "units", "max_model_len", "build", "vllm", "serve_args", "variant", "gpus"),
    *("verdict", "run", "reasons"),
    *("weights_gib", "overhead_gib", "kv_gib", "kv_bytes_per_token", "kv_tokens", "kv_tokens_total"),
    *("request_tokens", "sequences", "sequences_total", "budget_gib", "needed_gib", "gpu_sets"),
)


def document(plan: Plan) -> dict[str, object]:
    """Return the plan as one object; memory in GiB of one GPU, KV tokens and sequences of one engine and of
    all engines together. What is not predicted is null."""
    return {
        "sweep": plan.sweep,
        "model": plan.model,
        "repo": plan.repo,
        "host": plan.host,
        "vllm": plan.vllm,
        "gpu": plan.gpu,
        "gpu_count": plan.gpu_count,
        "gpu_memory_gib": _rounded(plan.gpu_memory_gib),
        "notes": list(plan.notes),
        "candidates": [row(candidate) for candidate in plan.candidates],
    }


def row(candidate: Candidate) -> dict[str, object]:
    """Return one candidate with the keys of COLUMNS."""
    config = candidate.config
    values: dict[str, object] = {
        "tp": config.tp,
        "dp": config.dp,
        "pp": config.pp,
        "ep": config.ep,
        "units": config.units,
        "max_model_len": config.max_model_len,
        "build": config.build,
        "vllm": candidate.vllm,
        "serve_args": list(config.serve_args),
        "variant": config.variant,
        "gpus": config.gpus,
        "verdict": candidate.verdict.value,
        "run": candidate.run,
        "reasons": [str(reason) for reason in candidate.reasons],
        "gpu_sets": [str(chosen) for chosen in candidate.gpus],
    }
    values |= predicted(candidate)
    return {name: values.get(name) for name in COLUMNS}


def predicted(candidate: Candidate) -> dict[str, float | int | None]:
    """Return what is expected of a candidate's memory, to be compared with what its server says; empty when
    it cannot be estimated."""
    found = candidate.estimate
    if found is None:
        return {}
    return {
        "weights_gib": _rounded(found.weights_gib),
        "overhead_gib": _rounded(found.overhead_gib),
        "kv_gib": _rounded(found.kv_gib),
        "kv_bytes_per_token": found.kv_bytes_per_token,
        "kv_tokens": found.kv_tokens,
        "kv_tokens_total": found.kv_tokens * candidate.engines,
        "request_tokens": found.request_tokens,
        "sequences": found.sequences,
        "sequences_total": found.sequences * candidate.engines,
        "budget_gib": _rounded(found.budget_gib),
        "needed_gib": _rounded(found.needed_gib),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
