"""The same six trials on one host and on two: how much sooner is the sweep done?

    python3 benchmarks/many_hosts.py [--seconds 24] > benchmarks/many_hosts.md

Lab hosts with a stand-in for vLLM whose load takes as long as it is told, so that the controller's own work
and the hosts' are what is compared, not two GPUs. What counts is the whole command, from typing it until the
prompt is back: connecting, planning, borrowing and giving back are in it.

The two commands run one after the other, so what else the machine does between them is in their quotient, and
it may exceed 2. The second quotient is of the two hosts' run alone, from its timeline: what its trials would
have taken one after the other, with what is not trials once, by what the command took. It cannot exceed 2.
Exit status 1 when either is less than 1.9. Needs what `invoke lab` needs: root, and ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lab"))

from standin_host import Fleet, fleet_of  # noqa: E402  the tests' hosts

from fleetbench.results.store import open_store  # noqa: E402
from fleetbench.results.timeline import read_timeline  # noqa: E402

LEAST = 1.9
TRIALS = 6


def main() -> int:
    """Run the sweep on one host and on two, and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=24, help="what the load of each trial takes, about")
    seconds = parser.parse_args().seconds
    temporary = tempfile.TemporaryDirectory(prefix="fleetbench-hosts-")
    with temporary as place, fleet_of(2, Path(place), "th") as fleet:
        with (fleet.inventory / "sweeps.toml").open("a", encoding="utf-8") as file:
            file.write(_sweep(seconds))
        for name in fleet.names:
            fleet.deploy("other", gpus="0", host=name)
        one, two = _timed(fleet, "lab-01"), _timed(fleet, ",".join(fleet.names))
        shares = _shares(fleet)
        in_turn = _in_turn(fleet, two)
    sys.stdout.write(_page(one, two, in_turn, shares, seconds))
    return 0 if min(one, in_turn) / two >= LEAST else 1


def _sweep(seconds: int) -> str:
    # The stand-in loads for a hundredth of a second a token; trials that differ are trials of their own.
    lengths = [seconds * 100 + 10 * number for number in range(TRIALS)]
    configs = ", ".join(f"{{ max_model_len = {length} }}" for length in lengths)
    load = "{ num_prompts = 40, max_concurrency = 1, input_len = 8, output_len = 8 }"
    return f"\n[sweeps.even]\nparallel = [{configs}]\nrepeats = 1\nworkload = {load}\n"


def _timed(fleet: Fleet, hosts: str) -> float:
    began = time.monotonic()
    done = fleet.invoke("sweep", "--model", "paced", "--sweep", "even", "--hosts", hosts, timeout_s=1200)
    took = time.monotonic() - began
    sys.stderr.write(done.err)
    if done.status != 0:
        raise SystemExit(f"the sweep ended with {done.status}")
    return took


def _shares(fleet: Fleet) -> dict[str, int]:
    with open_store(runs_directory=fleet.runs, create=False) as store:
        hosts = [trial.host for trial in store.trials(store.run("latest").id)]
    return {host: hosts.count(host) for host in sorted(set(hosts))}


def _in_turn(fleet: Fleet, two: float) -> float:
    """Return what the trials of the latest run would have taken one after the other on one host."""
    with open_store(runs_directory=fleet.runs, create=False) as store:
        timeline = read_timeline(store.directory(store.run("latest").id))
    busy = dict.fromkeys(fleet.names, 0.0)
    for period in timeline.periods if timeline is not None else ():
        if period.trial is not None:
            busy[period.host] += period.seconds
    return two - max(busy.values()) + sum(busy.values())


def _page(one: float, two: float, in_turn: float, shares: dict[str, int], seconds: int) -> str:
    spread = ", ".join(f"{host} {count}" for host, count in shares.items())
    return (
        f"# {TRIALS} trials on one host and on two\n\n"
        f"Stand-in for vLLM on lab hosts, {seconds} s of loading a trial, with a loan.\n"
        "Whole command, seconds.\n\n"
        f"| hosts | seconds | trials |\n| --- | ---: | --- |\n"
        f"| 1 | {one:.1f} | {TRIALS} |\n| 2 | {two:.1f} | {spread} |\n\n"
        f"Two hosts are {one / two:.2f} times as fast as one, command against command.\n"
        f"Within the run on two hosts, its trials in turn ({in_turn:.1f} s) by the command:"
        f" {in_turn / two:.2f}, of 2.00 at most.\n"
        f"Wanted: {LEAST} or more of both.\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
