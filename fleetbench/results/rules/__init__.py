"""What is held against a row: rules over the numbers of a measurement, our own or an imported one.

`table` has the rules and thresholds as data, `case` what a rule looks at; each other module holds the rules
of one topic as generators of findings. `results/verdict.py` puts them together: `judge` for what fleetbench
measured itself, `judge_foreign` for what somebody else published.
"""
