"""Rules over the client: is it the server that was measured, or the process that asked it."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.case import Case
from fleetbench.results.rules.load import open_requests
from fleetbench.results.rules.table import Thresholds


def streams(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """The one Python process is behind with reading: of 1,000 streams whose first token comes within 20 ms it
    reports 411 ms on average, the Rust client 38 (measured with 0.32 and 0.33)."""
    found, most = _streams(case), limits.python_streams
    if case.client_program.startswith("python") and found > most:
        text = f"TTFT is partly the Python client's own: {found:.0f} streams, more than {most}"
        yield Finding(rule="client-bound", verdict=Verdict.VALID, text=text, numbers={"streams": found})


def long_context(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """The Python client's read buffer of 64 KiB (vLLM's issue 39963; as it is up to 0.33)."""
    sent, completed = case.result.total_input_tokens, case.result.completed
    tokens = sent / completed if sent and completed else case.asked.input_len
    if case.client_program.startswith("python") and tokens and tokens >= limits.python_context:
        text = f"prompts of {tokens:,.0f} tokens: the Python client reads answers up to ten times too slowly"
        numbers = {"mean_input_tokens": tokens}
        yield Finding(rule="client-long-context", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def starved(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """A client without CPU to spare: in a short run, which is all start and end, that is a remark."""
    cores, window = case.measured("client_cpu_cores_mean"), case.measured("window_s")
    if not case.client_program.startswith("python") or not cores or not window:
        return
    if cores >= limits.client_cores:
        yield Finding(
            rule="client-bound",
            verdict=Verdict.SUSPECT if window >= limits.client_window_s else Verdict.VALID,
            text=f"the Python client used {cores:.2f} cores and has no more than one: it is the limit",
            numbers={"client_cpu_cores_mean": cores, "window_s": window},
        )


def added(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """What the client, and the way to it, add to the server's own time of a request."""
    whole, served = case.latency("mean_e2el_ms"), _served_ms(case)
    if whole is None or not served:
        return
    more = whole - served
    if more < limits.client_said_ms or more < limits.client_said * served:
        return
    much = more >= limits.client_added_ms and more >= limits.client_added * served
    yield Finding(
        rule="client-bound",
        verdict=Verdict.SUSPECT if much else Verdict.VALID,
        text=f"a request takes the client {whole:,.0f} ms and the server {served:,.0f} ms:"
        " the rest is the client's own, or the way to it",
        numbers={"mean_e2el_ms": whole, "server_ms": served, "added_ms": more},
    )


def first_token(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """What the client, and the way to it, add to the server's own time to the first token.

    It shows first there: many streams that begin together are read one after the other, and later tokens of
    each are late by the same.
    """
    seen, own = case.latency("mean_ttft_ms"), case.measured("ttft_s_mean")
    if seen is None or not own:
        return
    served = own * 1000
    more = seen - served
    if more > max(limits.ttft_said_ms, limits.ttft_said * served):
        yield Finding(
            rule="client-bound",
            verdict=Verdict.VALID,
            text=f"TTFT is {seen:,.1f} ms on average by the client and {served:,.1f} ms by the server:"
            " the rest is the client's own, or the way to it",
            numbers={"mean_ttft_ms": seen, "server_ttft_ms": served, "added_ms": more},
        )


def send_rate(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Requests that were sent later than the rate asks, where no limit of open requests holds them back."""
    asked, samples = case.asked, case.samples
    if samples is None or not asked.request_rate or asked.max_concurrency or asked.uneven:
        return
    starts = [request.started_s for request in samples.requests if request.started_s is not None]
    if len(starts) < 20:
        return
    took, planned = max(starts) - min(starts), (len(starts) - 1) / asked.request_rate
    noise = 5 / len(starts) ** 0.5
    if took > planned * (1 + limits.send_lag + noise) + 1:
        yield Finding(
            rule="send-rate",
            verdict=Verdict.SUSPECT,
            text=f"{len(starts)} requests were sent in {took:.1f} s, at {asked.request_rate:g}/s it had been"
            f" {planned:.1f} s: the client was too slow",
            numbers={"took_s": took, "planned_s": planned, "request_rate": asked.request_rate},
        )


def _served_ms(case: Case) -> float | None:
    """Return the server's own time of a request: from its arrival to its end, else its phases together."""
    whole = case.measured("e2e_s_mean")
    parts = [case.measured(name) for name in ("queue_s_mean", "prefill_s_mean", "decode_s_mean")]
    if whole is None and None not in parts:
        whole = sum(part for part in parts if part is not None)
    return whole * 1000 if whole is not None else None


def _streams(case: Case) -> float:
    """Return how many requests were open at the same time; 0 when that is unknown."""
    asked = case.asked
    if asked.max_concurrency is not None:
        return min(asked.max_concurrency, asked.num_prompts or asked.max_concurrency)
    if not asked.paced and asked.num_prompts and case.ours:
        return asked.num_prompts
    return open_requests(case) or 0
