"""Measured data for other programs: archives of runs, Parquet, vLLM's own files, Prometheus."""
