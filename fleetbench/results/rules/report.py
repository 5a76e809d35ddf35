"""Rules over what the client itself reports: is it whole, do its counts and sums agree."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.table import Thresholds
from fleetbench.results.values import BenchResult

# Reports print two decimals, so each printed number may be off by half of the last one.
ROUNDING = 0.006
# Tokens per second of one request, which only imports have (results/imports/fields.py).
_OF_A_REQUEST = ("request_output_tps", "request_input_tps")


def failed_requests(result: BenchResult, num_prompts: int) -> int | None:
    """Return how many requests failed; vLLM before 0.11.1 does not say, then what was not completed did."""
    if result.failed is not None:
        return result.failed
    return None if result.completed is None else max(num_prompts - result.completed, 0)


def client_status(status: int | None) -> Iterator[Finding]:
    """A client that ended badly; its 0 proves nothing."""
    if status not in (None, 0):
        text = f"the bench client ended with status {status}"
        yield Finding(rule="client-status", verdict=Verdict.INVALID, text=text)


def whole(result: BenchResult | None, problems: tuple[str, ...], complete: bool) -> Iterator[Finding]:
    """A report that is missing or cut off."""
    if result is None:
        yield Finding(rule="report", verdict=Verdict.INVALID, text="no report could be read")
    elif not complete:
        text = f"the report is incomplete: {problems[0] if problems else 'its end is missing'}"
        yield Finding(rule="report", verdict=Verdict.INVALID, text=text)


def requests(case: Case) -> Iterator[Finding]:
    """Completed, failed and asked-for requests."""
    result, completed = case.result, case.result.completed
    asked = case.asked.num_prompts if case.asked.num_prompts is not None else result.num_prompts
    if result.num_prompts is not None and asked is not None and result.num_prompts != asked:
        text = f"the report is about {result.num_prompts} prompts, {asked} were asked for"
        numbers = {"num_prompts": result.num_prompts, "asked": asked}
        yield Finding(rule="counts", verdict=Verdict.INVALID, text=text, numbers=numbers)
    if completed is None:
        if case.ours:
            text = "the number of completed requests is unknown"
            yield Finding(rule="counts", verdict=Verdict.INVALID, text=text)
            return
        completed = (asked - result.failed) if asked is not None and result.failed is not None else None
    failed = failed_requests(result, asked) if asked is not None else result.failed
    of = f"{asked} requests" if asked is not None else "its requests"
    numbers = {
        name: value
        for name, value in (("completed", completed), ("failed", failed), ("asked", asked))
        if value is not None
    }
    if completed == 0:
        text = f"none of {of} completed"
        yield Finding(rule="no-requests", verdict=Verdict.INVALID, text=text, numbers=numbers)
    elif failed:
        text = f"{failed} of {of} failed"
        yield Finding(rule="failed-requests", verdict=Verdict.INVALID, text=text, numbers=numbers)
    elif completed is not None and asked is not None and completed != asked:
        text = f"{completed} requests completed, {asked} were asked for"
        yield Finding(rule="counts", verdict=Verdict.INVALID, text=text, numbers=numbers)


def rates(case: Case) -> Iterator[Finding]:
    """Durations and throughputs; an imported row may lack some, but has to say one speed."""
    result = case.result
    if not case.ours and not any(map(_above_0, _speeds(result))):
        text = "no throughput and no latency is known: nothing was measured"
        yield Finding(rule="rates", verdict=Verdict.INVALID, text=text)
    named = {
        "duration": result.duration,
        "request_throughput": result.request_throughput,
        "output_throughput": result.output_throughput,
    }
    for name, value in named.items():
        if value is None:
            if case.ours:
                yield Finding(rule="rates", verdict=Verdict.INVALID, text=f"{name} is unknown")
        elif not value > 0:
            yield Finding(rule="rates", verdict=Verdict.INVALID, text=f"{name} is {value:g}")


def _speeds(result: BenchResult) -> Iterator[float | None]:
    """Yield each number that says how fast a row is; a duration does where it is known what was done."""
    yield from (result.request_throughput, result.output_throughput, result.total_token_throughput)
    yield from (result.extra.get(name) for name in ("input_throughput", *_OF_A_REQUEST))
    yield from result.latencies.values()
    if result.completed or result.total_output_tokens:
        yield result.duration


def _above_0(value: float | None) -> bool:
    return (finite(value) or 0.0) > 0


def arithmetic(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Total = rate × duration, for requests, output tokens and all tokens; output is never above all."""
    result = case.result
    duration = finite(result.duration)
    output, every = finite(result.output_throughput), finite(result.total_token_throughput)
    if output and every and output > every * (1 + limits.arithmetic) + ROUNDING:
        yield Finding(
            rule="arithmetic",
            verdict=Verdict.INVALID,
            text=f"{output:g} output tokens/s are more than {every:g} tokens/s in all: they are mixed up",
            numbers={"output_throughput": output, "total_token_throughput": every},
        )
    if not duration or duration <= 0:
        return
    spent, made = result.total_input_tokens, result.total_output_tokens
    both = spent + made if spent is not None and made is not None else None
    for what, rate, total in (
        ("request_throughput", finite(result.request_throughput), result.completed),
        ("output_throughput", output, made),
        ("total_token_throughput", every, both),
    ):
        if not rate or not total or rate <= 0 or (what == "total_token_throughput" and not spent):
            continue
        expected = total / duration
        allowed = limits.arithmetic + ROUNDING / duration + ROUNDING / expected
        if abs(rate - expected) > allowed * expected:
            mixed = what == "output_throughput" and both and abs(rate * duration - both) <= allowed * both
            hint = ": it is prompts and answers together" if mixed else ""
            yield Finding(
                rule="arithmetic",
                verdict=Verdict.INVALID,
                text=f"{what} is {rate:g}, but {total:,} in {duration:g} s are {expected:.6g}/s{hint}",
                numbers={what: rate, "total": total, "duration_s": duration, "expected": expected},
            )
