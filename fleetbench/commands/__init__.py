"""Commands of the offline command line, one module a topic; `fleetbench/cli.py` has the table."""
