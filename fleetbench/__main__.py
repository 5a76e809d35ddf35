"""`python -m fleetbench` is the offline command line."""

from fleetbench.cli import main

main(prog_name="fleetbench")
