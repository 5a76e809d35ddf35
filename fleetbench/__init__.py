"""fleetbench: vLLM as systemd services on GPU hosts, and numbers that tell which configuration to serve."""

__version__ = "0.1.0"
