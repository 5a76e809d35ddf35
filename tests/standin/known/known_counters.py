"""What /metrics of the known server counts, under the names of vLLM 0.32: all of it follows from its streams.

Counters grow when the token leaves, gauges are those of this moment, means are sums over counts of requests
that have ended, as in vLLM.
"""

from __future__ import annotations

TIMES = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
)
OUTCOMES = ("stop", "length", "abort", "error")


class Counters:
    """Counts of one server; `counted` is the share of the generated tokens that it admits to (1: all)."""

    def __init__(self, kv_tokens: int, counted: float = 1.0) -> None:
        self.kv_tokens = kv_tokens
        self.counted = counted
        self.running = self.waiting = self.kv_used = 0
        self.prompt = self.generated = self.hits = 0
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.times = {name: [0, 0.0] for name in TIMES}

    def took(self, name: str, seconds: float, times: int = 1) -> None:
        """Add one observation to a histogram, or several that took so long together."""
        self.times[name][0] += times
        self.times[name][1] += seconds

    def text(self, model: str) -> str:
        """Return what /metrics answers."""
        engine = f'engine="0",model_name="{model}"'
        values = [
            ("num_requests_running", "", float(self.running)),
            ("num_requests_waiting", "", float(self.waiting)),
            ("kv_cache_usage_perc", "", min(1.0, self.kv_used / self.kv_tokens)),
            ("prefix_cache_queries_total", "", float(self.prompt)),
            ("prefix_cache_hits_total", "", float(self.hits)),
            ("num_preemptions_total", "", 0.0),
            ("prompt_tokens_total", "", float(self.prompt)),
            ("generation_tokens_total", "", float(int(self.generated * self.counted))),
        ]
        values += [
            ("request_success_total", f',finished_reason="{reason}"', float(count))
            for reason, count in self.outcomes.items()
        ]
        for name, (count, seconds) in self.times.items():
            values += [
                (f"{name}_bucket", ',le="+Inf"', float(count)),
                (f"{name}_count", "", float(count)),
                (f"{name}_sum", "", seconds),
            ]
        lines = [f"vllm:{name}{{{engine}{more}}} {value}" for name, more, value in values]
        cache = f'block_size="16",enable_prefix_caching="True",num_gpu_blocks="{self.kv_tokens // 16}"'
        return "\n".join([*lines, f'vllm:cache_config_info{{{cache},engine="0"}} 1.0', ""])
