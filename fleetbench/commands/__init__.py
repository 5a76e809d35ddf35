"""Commands of the offline command line, one module a topic; `fleetbench/cli.py` loads them lazily."""
