"""The same sweep twice with real vLLM on a lab host: do the second run's rows agree with the first's?

    python3 benchmarks/twice.py [--repeats 5] > benchmarks/twice.md

A row agrees when the two runs' repeats cannot be told apart: their ranges share a value, or their medians
differ by no more than twice the noise that the rows report (the coefficients of variation of both, added as
squares). Needs what `invoke lab` needs: root, and ten minutes of an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from fleetbench.report.files import read_report
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.report.summary import Report
from fleetbench.results.rows import RunKind
from fleetbench.results.statistics import Spread
from fleetbench.results.store import Store, open_store

ROOT = Path(__file__).parent.parent
SWEEP = """
[sweeps.twice]
parallel = [{{ tp = 1 }}, {{ tp = 2 }}, {{ dp = 2 }}, {{ pp = 2 }}, {{ units = 2 }}]
repeats = {repeats}
ready_timeout_s = 300
bench_timeout_s = 600
workload = {{ dataset = "random", input_len = 64, output_len = 32, num_prompts = 80, max_concurrency = 8 }}
"""
SWEEP_COMMAND = ("sweep", "--model", "tiny", "--sweep", "twice", "--hosts", "lab-01", "--new")
NOISES = 2
SHOWN = ("output_throughput", "median_ttft_ms", "median_tpot_ms")


def main() -> int:
    """Run the sweep twice in a lab of its own and print the comparison; 1 when a row disagrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a directory that is made, for the store and the raw files")
    options = parser.parse_args()
    repeats = options.repeats
    with tempfile.TemporaryDirectory(prefix="fleetbench-twice-") as place:
        directory = Path(place) / "inventory"
        directory.mkdir()
        environment = dict(os.environ) | {
            "FLEETBENCH_LAB": "twice",
            "FLEETBENCH_INVENTORY": str(directory),
            "FLEETBENCH_RUNS": str(Path(place) / "runs"),
        }
        try:
            _invoke(environment, "lab", "up", "--count", "1")
            _invoke(environment, "provision", "--hosts", "lab-01")
            (directory / "sweeps.toml").write_text(SWEEP.format(repeats=repeats))
            for _ in range(2):
                _invoke(environment, *SWEEP_COMMAND)
            os.environ |= environment
            with open_store(create=False) as store:
                first, second = _reports(store)
            if options.keep is not None:
                shutil.copytree(Path(place) / "runs", options.keep)
        finally:
            _invoke(environment, "lab", "down")
    rows = list(_compared(first, second))
    sys.stdout.write(_page(rows, repeats))
    return 0 if all(row[-1].startswith("agrees") for row in rows) else 1


def _invoke(environment: Mapping[str, str], *words: str) -> None:
    argv = [sys.executable, "-m", "invoke", *words]
    subprocess.run(argv, cwd=ROOT, env=dict(environment), check=True, stdout=sys.stderr)


def _reports(store: Store) -> tuple[Report, Report]:
    newest, before = [run for run in store.runs() if run.kind is RunKind.SWEEP][:2]
    return read_report(store, before.id), read_report(store, newest.id)


def _compared(first: Report, second: Report) -> Iterator[tuple[str, ...]]:
    """One line for each row and metric; rows without numbers agree when they ended in the same way."""
    for one, other in zip(first.rows, second.rows, strict=True):
        label = one.trial.config.label
        if not one.spreads or not other.spreads:
            same = one.status == other.status
            yield label, "–", one.status, other.status, "–", "–", "agrees" if same else "DISAGREES"
            continue
        for metric in (metric for metric in METRICS if metric.key in SHOWN):
            yield label, *_judged(metric, one.spreads[metric.key], other.spreads[metric.key])


def _judged(metric: Metric, one: Spread, other: Spread) -> tuple[str, ...]:
    noise = math.hypot(one.cv_percent or 0, other.cv_percent or 0)
    apart = (other.median / one.median - 1) * 100
    word = "agrees, ranges overlap" if one.overlaps(other) else "agrees, within the noise"
    if not one.overlaps(other) and abs(apart) > NOISES * noise:
        word = "DISAGREES"
    title = f"{metric.title}, {metric.unit}"
    return title, _shown(metric, one), _shown(metric, other), f"{apart:+.1f} %", f"{noise:.1f} %", word


def _shown(metric: Metric, found: Spread) -> str:
    return f"{metric.shown(found.median)} ({metric.shown(found.minimum)}–{metric.shown(found.maximum)})"


def _page(rows: list[tuple[str, ...]], repeats: int) -> str:
    columns = ("config", "metric", "first run", "second run", "difference", "noise of both", "verdict")
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    head = (
        "# One sweep, twice\n\nWritten by `python3 benchmarks/twice.py`: real vLLM (CPU build) on a lab host,"
        f" {repeats} repeats, median (range).\n\n"
    )
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
