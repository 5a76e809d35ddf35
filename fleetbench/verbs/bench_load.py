"""The options of `invoke bench` that say what is sent: which values make sense."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.bench_program import Program
from fleetbench.errors import UsageError
from fleetbench.model import Workload
from fleetbench.verbs.common import at_least


def check_load(workload: Workload, *, repeats: int, seed: int, limit_s: float) -> None:
    """Raise UsageError for the first option whose value makes no sense."""
    at_least(1, input_len=workload.input_len, output_len=workload.output_len, repeats=repeats, limit=limit_s)
    at_least(1, num_prompts=workload.num_prompts)
    if workload.client_program not in ("auto", Program.PYTHON, Program.RUST):
        raise UsageError(
            f"--client-program {workload.client_program!r} is no client", next_step="auto, python or rust"
        )
    at_least(0, rate=workload.request_rate or 0, temperature=workload.temperature, seed=seed)


def with_concurrency(workload: Workload, text: str) -> Workload:
    """Return the workload with `--concurrency`; empty means open loop (all at once, or at a rate)."""
    if not text:
        return replace(workload, max_concurrency=None)
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"--concurrency {text!r} is no number", next_step="a number from 1 up")
    return replace(workload, max_concurrency=int(text))
