"""Rules over the load: Little's law in both directions, waves, samples, request rate.

Little's law (J. D. C. Little, Operations Research 9, 1961): the mean number of open requests is requests/s ×
mean seconds of a request. vLLM's client takes E2EL inside the limit of open requests, so that over a whole
run the sum of all E2EL cannot exceed limit × duration.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case, finite
from fleetbench.results.rules.table import Thresholds


def output_tokens(case: Case) -> float | None:
    """Return the mean number of tokens of an answer: as counted, else as asked for."""
    made, completed = case.result.total_output_tokens, case.result.completed
    if made is not None and completed:
        return made / completed
    rate, requests = finite(case.result.output_throughput), finite(case.result.request_throughput)
    if rate and requests:
        return rate / requests
    return float(case.asked.output_len) if case.asked.output_len else None


def request_throughput(case: Case) -> float | None:
    """Return requests/s: as reported, else output tokens/s over tokens of an answer."""
    if requests := finite(case.result.request_throughput):
        return requests
    rate, tokens = finite(case.result.output_throughput), output_tokens(case)
    return rate / tokens if rate and tokens else None


def seconds_of_a_request(case: Case) -> tuple[float | None, bool]:
    """Return the mean E2EL in seconds, and whether it had to be derived from TTFT and TPOT.

    Of TPOT and ITL the smaller one counts, so that the derived value is rather too small: where several
    tokens come in one piece, ITL is too large.
    """
    if whole := case.latency("mean_e2el_ms"):
        return whole / 1000, False
    first, tokens = case.latency("mean_ttft_ms"), output_tokens(case)
    gaps = [gap for name in ("tpot", "itl") if (gap := case.latency(f"mean_{name}_ms")) is not None]
    if first is None or tokens is None or not gaps:
        return None, True
    return (first + max(tokens - 1, 0) * min(gaps)) / 1000, True


def open_requests(case: Case) -> float | None:
    """Return the mean number of open requests; None when unknown."""
    rate, (seconds, _) = request_throughput(case), seconds_of_a_request(case)
    return rate * seconds if rate and seconds else None


def before_draining(case: Case) -> float | None:
    """Return the mean number of open requests until the last one was sent; None without samples."""
    samples = case.samples
    if samples is None or not samples.timed:
        return None
    spans = [(request.started_s or 0.0, request.e2el_s) for request in samples.requests]
    first, last = min(start for start, _ in spans), max(start for start, _ in spans)
    open_s = sum(min(start + took, last) - start for start, took in spans)
    return open_s / (last - first) if last > first else None


def limit(case: Case) -> int | None:
    """Return how many requests might be open at the same time."""
    asked = case.asked.max_concurrency
    if asked is None and not case.ours:
        asked = case.result.max_concurrency
    prompts = case.asked.num_prompts
    return min(asked, prompts) if asked and prompts else asked


def in_flight(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Little's law against the limit of open requests, both ways."""
    allowed, seen = limit(case), open_requests(case)
    rate, (seconds, derived) = request_throughput(case), seconds_of_a_request(case)
    if not allowed or seen is None or rate is None or seconds is None:
        return
    share = seen / allowed
    numbers = {
        "in_flight": seen,
        "max_concurrency": allowed,
        "request_throughput": rate,
        "mean_request_s": seconds,
    }
    law = f"{rate:.4g} requests/s × {seconds:.4g} s = {seen:.4g} in flight"
    if share > (limits.little_over_derived if derived else limits.little_over):
        every, output = _as_total(case), finite(case.result.output_throughput)
        reading = f"; read as total tokens it is {every:.4g}, which fits" if every and output else ""
        yield Finding(
            rule="concurrency-exceeded",
            verdict=Verdict.INVALID,
            text=f"{law}, but {allowed} were allowed{reading}",
            numbers=numbers | ({"in_flight_as_total": every} if every else {}),
        )
        return
    enough = case.asked.num_prompts is not None and case.asked.num_prompts >= limits.waves * allowed
    least = limits.little_under if case.one_length else limits.little_under_varied
    loaded = max(share, (before_draining(case) or 0) / allowed)
    if enough and not case.asked.paced and allowed > 1 and loaded < least:
        text = f"{law}, of {allowed} that were asked for: the server was under-loaded"
        yield Finding(rule="under-loaded", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def _as_total(case: Case) -> float | None:
    """Return the requests in flight if the output rate were that of prompts and answers together.

    None where the reading does not explain it: requests/s that are reported by themselves are no token rate.
    """
    allowed, tokens, prompt = limit(case), output_tokens(case), case.asked.input_len
    seen = open_requests(case)
    if finite(case.result.request_throughput) or not (allowed and tokens and prompt and seen):
        return None
    corrected = seen * tokens / (tokens + prompt)
    return corrected if corrected <= allowed * 1.05 else None


def waves(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Prompts for each open request, and requests behind a 99th percentile."""
    concurrency, prompts = case.asked.max_concurrency, case.asked.num_prompts
    if concurrency and prompts is not None and prompts < limits.waves * concurrency:
        yield Finding(
            rule="waves",
            verdict=Verdict.SUSPECT,
            text=f"{prompts / concurrency:.1f} waves of {concurrency} requests, "
            f"{limits.waves} are needed: use {limits.waves * concurrency} prompts",
            numbers={"waves": prompts / concurrency, "max_concurrency": concurrency},
        )
    completed = case.result.completed
    has_p99 = any(name.startswith("p99_") for name in case.result.latencies)
    if has_p99 and completed and completed < limits.p99_samples:
        text = f"p99 rests on {completed} requests, fewer than {limits.p99_samples}"
        numbers = {"completed": completed}
        yield Finding(rule="percentile-samples", verdict=Verdict.VALID, text=text, numbers=numbers)


def offered_rate(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """A request rate that the server did not keep up with; the last request may take its own time."""
    offered, rate = case.asked.request_rate, finite(case.result.request_throughput)
    prompts, (seconds, _) = case.asked.num_prompts, seconds_of_a_request(case)
    if not offered or case.asked.uneven or not rate or not prompts or seconds is None:
        return
    # n requests are sent within n / rate seconds (Poisson: ± √n), and the last one has to end.
    expected = prompts / (prompts / offered * (1 + 3 / prompts**0.5) + 2 * seconds)
    if rate < limits.offered * expected:
        yield Finding(
            rule="offered-rate",
            verdict=Verdict.VALID,
            text=f"{offered:g} requests/s were offered and {rate:.4g} answered: the server did not keep up,"
            " latencies grow with the length of the run",
            numbers={"offered": offered, "request_throughput": rate},
        )
