"""`vllm bench serve` on a client host, as a transient unit that needs no controller to finish."""
