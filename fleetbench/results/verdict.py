"""What a measurement is worth, decided from its numbers alone.

`vllm bench serve` exits 0 when every request has failed (seen up to vLLM 0.33), so nothing here trusts an
exit status of 0. What cannot be known is a reason against `valid`, never a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleetbench.model import Workload
from fleetbench.results.rows import Finding, Judgement, Verdict
from fleetbench.results.values import BenchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where a number becomes a reason.

    Attributes:
        waves: least number of prompts for each concurrent request; with fewer, filling up and draining
            dominate (InferenceX measures with 10).
        p99_samples: least number of requests behind a 99th percentile; with fewer it rests on a handful.
        output_short, output_long: bounds of generated tokens, as share of what was asked for.
        python_streams: most concurrent requests whose TTFT the Python client does not inflate itself.
    """

    waves: int = 10
    p99_samples: int = 1000
    output_short: float = 0.99
    output_long: float = 1.01
    python_streams: int = 200


THRESHOLDS = Thresholds()

# Data sets whose every answer has `output_len` tokens (with --ignore-eos); others bring their own lengths.
FIXED_OUTPUT = ("random", "custom", "sonnet")
VARIES_OUTPUT = "--random-range-ratio"


def judge(
    result: BenchResult | None,
    workload: Workload,
    *,
    complete: bool = True,
    problems: tuple[str, ...] = (),
    exit_status: int | None = None,
    client_program: str = "",
    witnessed: tuple[Finding, ...] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> Judgement:
    """Judge one execution of the bench client.

    Args:
        result: its numbers; None when no report could be read.
        workload: what it was asked to send.
        complete, problems: how well the report could be read (`Block.complete`, `Block.problems`).
        exit_status: of the client, None when unknown.
        client_program: which client it was; empty when unknown.
        witnessed: what was found besides its own report, for instance by the server's counters.

    Returns the worst verdict that any finding asks for, and all findings, the worst first.
    """
    findings: list[Finding] = list(witnessed)
    if exit_status not in (None, 0):
        text = f"the bench client ended with status {exit_status}"
        findings.append(Finding(rule="client-status", verdict=Verdict.INVALID, text=text))
    if result is None:
        findings.append(Finding(rule="report", verdict=Verdict.INVALID, text="no report could be read"))
    else:
        if not complete:
            why = problems[0] if problems else "its end is missing"
            text = f"the report is incomplete: {why}"
            findings.append(Finding(rule="report", verdict=Verdict.INVALID, text=text))
        findings += _requests(result, workload)
        findings += _rates(result)
        findings += _output(result, workload, thresholds)
        findings += _samples(result, workload, thresholds)
        findings += _client(result, workload, client_program, thresholds)
    return judgement(findings)


def judgement(findings: Iterable[Finding]) -> Judgement:
    """Return the worst verdict of the findings, and all of them, the worst first."""
    order = (Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID)
    found = tuple(sorted(findings, key=lambda finding: order.index(finding.verdict)))
    return Judgement(verdict=found[0].verdict if found else Verdict.VALID, findings=found)


def failed_requests(result: BenchResult, num_prompts: int) -> int | None:
    """Return how many requests failed; vLLM before 0.11.1 does not say, then what was not completed did."""
    if result.failed is not None:
        return result.failed
    return None if result.completed is None else max(num_prompts - result.completed, 0)


def _requests(result: BenchResult, workload: Workload) -> Iterator[Finding]:
    asked, completed = workload.num_prompts, result.completed
    if result.num_prompts is not None and result.num_prompts != asked:
        text = f"the report is about {result.num_prompts} prompts, {asked} were asked for"
        numbers = {"num_prompts": result.num_prompts, "asked": asked}
        yield Finding(rule="counts", verdict=Verdict.INVALID, text=text, numbers=numbers)
    if completed is None:
        text = "the number of completed requests is unknown"
        yield Finding(rule="counts", verdict=Verdict.INVALID, text=text)
        return
    failed = failed_requests(result, asked)
    numbers = {"completed": completed, "failed": failed or 0, "asked": asked}
    if completed == 0:
        text = f"none of {asked} requests completed"
        yield Finding(rule="no-requests", verdict=Verdict.INVALID, text=text, numbers=numbers)
    elif failed:
        text = f"{failed} of {asked} requests failed"
        yield Finding(rule="failed-requests", verdict=Verdict.INVALID, text=text, numbers=numbers)
    elif completed != asked:
        text = f"{completed} requests completed, {asked} were asked for"
        yield Finding(rule="counts", verdict=Verdict.INVALID, text=text, numbers=numbers)


def _rates(result: BenchResult) -> Iterator[Finding]:
    for name, value in (
        ("duration", result.duration),
        ("request_throughput", result.request_throughput),
        ("output_throughput", result.output_throughput),
    ):
        if value is None:
            yield Finding(rule="rates", verdict=Verdict.INVALID, text=f"{name} is unknown")
        elif not value > 0:
            yield Finding(rule="rates", verdict=Verdict.INVALID, text=f"{name} is {value:g}")


def _output(result: BenchResult, workload: Workload, thresholds: Thresholds) -> Iterator[Finding]:
    if workload.dataset not in FIXED_OUTPUT or not result.completed:
        return
    if any(argument.startswith(VARIES_OUTPUT) for argument in workload.extra_args):
        return
    if result.total_output_tokens is None:
        text = "the number of generated tokens is unknown"
        yield Finding(rule="output-length", verdict=Verdict.SUSPECT, text=text)
        return
    asked = result.completed * workload.output_len
    share = result.total_output_tokens / asked if asked else 1.0
    mean = result.total_output_tokens / result.completed
    numbers = {"mean_output_tokens": mean, "asked_output_tokens": workload.output_len}
    than = f"than asked: {mean:.1f} tokens on average, not {workload.output_len}"
    if share < thresholds.output_short:
        text = f"answers are shorter {than}"
        yield Finding(rule="output-length", verdict=Verdict.INVALID, text=text, numbers=numbers)
    elif share > thresholds.output_long:
        text = f"answers are longer {than}"
        yield Finding(rule="output-length", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def _samples(result: BenchResult, workload: Workload, thresholds: Thresholds) -> Iterator[Finding]:
    concurrency = workload.max_concurrency
    if concurrency and workload.num_prompts < thresholds.waves * concurrency:
        waves = workload.num_prompts / concurrency
        yield Finding(
            rule="waves",
            verdict=Verdict.SUSPECT,
            text=f"{waves:.1f} waves of {concurrency} requests, "
            f"{thresholds.waves} are needed: use {thresholds.waves * concurrency} prompts",
            numbers={"waves": waves, "max_concurrency": concurrency},
        )
    has_p99 = any(name.startswith("p99_") for name in result.latencies)
    if has_p99 and result.completed and result.completed < thresholds.p99_samples:
        text = f"p99 rests on {result.completed} requests, fewer than {thresholds.p99_samples}"
        numbers = {"completed": result.completed}
        yield Finding(rule="percentile-samples", verdict=Verdict.VALID, text=text, numbers=numbers)


def _client(
    result: BenchResult, workload: Workload, client_program: str, thresholds: Thresholds
) -> Iterator[Finding]:
    """The one Python process is behind with reading: of 1,000 streams whose first token comes within 20 ms it
    reports 411 ms on average, the Rust client 38 (measured with 0.32 and 0.33)."""
    most = thresholds.python_streams
    streams = _streams(result, workload)
    if client_program.startswith("python") and streams > most:
        text = f"TTFT is partly the Python client's own: {streams:.0f} streams, more than {most}"
        yield Finding(rule="client-bound", verdict=Verdict.VALID, text=text, numbers={"streams": streams})


def _streams(result: BenchResult, workload: Workload) -> float:
    """Return how many requests were open at the same time; 0 when that is unknown."""
    if workload.max_concurrency is not None:
        return min(workload.max_concurrency, workload.num_prompts)
    if workload.request_rate is None:
        return workload.num_prompts
    # Little's law: requests that are open = requests per second × seconds of each.
    return (result.request_throughput or 0) * (result.latencies.get("mean_e2el_ms") or 0) / 1000
