"""The same six trials on one host and on two: how much sooner is the sweep done?

    python3 benchmarks/many_hosts.py [--seconds 24] > benchmarks/many_hosts.md

Lab hosts with a stand-in for vLLM whose load takes as long as it is told, so that the controller's own work
and the hosts' are what is compared, not two GPUs. What counts is the whole command, from typing it until the
prompt is back: connecting, planning, borrowing and giving back are in it. Needs what `invoke lab` needs:
root, and ten minutes. Exit status 1 when two hosts are less than 1.9 times as fast as one.
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
    ratio = one / two
    sys.stdout.write(_page(one, two, shares, seconds))
    return 0 if ratio >= LEAST else 1


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


def _page(one: float, two: float, shares: dict[str, int], seconds: int) -> str:
    spread = ", ".join(f"{host} {count}" for host, count in shares.items())
    return (
        f"# {TRIALS} trials on one host and on two\n\n"
        f"Stand-in for vLLM on lab hosts, {seconds} s of loading a trial, with a loan.\n"
        "Whole command, seconds.\n\n"
        f"| hosts | seconds | trials |\n| --- | ---: | --- |\n"
        f"| 1 | {one:.1f} | {TRIALS} |\n| 2 | {two:.1f} | {spread} |\n\n"
        f"Two hosts are {one / two:.2f} times as fast as one (wanted: {LEAST} or more).\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
