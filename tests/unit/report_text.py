"""Benchmark reports made for tests, in the layout that vLLM prints: label in 40 columns, value in 10."""

from __future__ import annotations

HEADER = " Serving Benchmark Result "
_LATENCY_TITLES = {
    "TTFT": "Time to First Token",
    "TPOT": "Time per Output Token (excl. 1st token)",
    "ITL": "Inter-token Latency",
}
# What `report()` says, under the names of the result JSON.
VALUES: dict[str, float] = {
    "completed": 731,
    "failed": 4,
    "max_concurrency": 48,
    "duration": 61.07,
    "total_input_tokens": 93571,
    "total_output_tokens": 46783,
    "request_throughput": 11.97,
    "output_throughput": 766.06,
    "max_output_tokens_per_s": 1204.0,
    "max_concurrent_requests": 55.0,
    "total_token_throughput": 2298.25,
    "mean_ttft_ms": 301.12,
    "median_ttft_ms": 287.45,
    "p99_ttft_ms": 911.38,
    "mean_tpot_ms": 33.71,
    "median_tpot_ms": 33.02,
    "p99_tpot_ms": 47.9,
    "mean_itl_ms": 33.64,
    "median_itl_ms": 31.55,
    "p99_itl_ms": 120.83,
}


def line(label: str, value: object) -> str:
    """One line as the client formats it."""
    shown = f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{label + ':':<40} {shown:<10}"


def report(*, scale: int = 1, failed: bool = True, end: bool = True) -> str:
    """A report with the values of `VALUES`; `scale` multiplies the counts so that two can be told apart."""
    lines = [
        f"{HEADER:=^50}",
        line("Successful requests", 731 * scale),
        *([line("Failed requests", 4 * scale)] if failed else []),
        line("Maximum request concurrency", 48),
        line("Benchmark duration (s)", 61.07),
        line("Total input tokens", 93571 * scale),
        line("Total generated tokens", 46783 * scale),
        line("Request throughput (req/s)", 11.97),
        line("Output token throughput (tok/s)", 766.06),
        line("Peak output token throughput (tok/s)", 1204.0),
        line("Peak concurrent requests", 55.0),
        line("Total token throughput (tok/s)", 2298.25),
    ]
    for name, title in _LATENCY_TITLES.items():
        lines.append(f"{title:-^50}")
        for statistic in ("Mean", "Median", "P99"):
            lines.append(
                line(f"{statistic} {name} (ms)", float(VALUES[f"{statistic.lower()}_{name.lower()}_ms"]))
            )
    return "\n".join([*lines, *(["=" * 50] if end else [])]) + "\n"
