"""How long after a server's end does a sweep say why? A stand-in of vLLM that fails in each way, in the lab.

    python3 benchmarks/time_to_verdict.py > benchmarks/time_to_verdict.md

Seconds count from systemd's line about the end of the main process, on the host, to the line of the sweep
that names the cause, on the controller; both read the same clock. Needs what `invoke lab` needs: root, and
five minutes. The stand-in ends as real servers do, but starts in no time: what is measured is ours, the
looking, the reading of the journal and the naming of the cause.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "lab")]

from standin_host import fleet_of  # noqa: E402  the tests' own hosts and servers
from verdicts import Kind, Outcome, outcomes  # noqa: E402

PROMISED_S = 2.0
COLUMNS = ("server", "class", "cause", "decisive line", "seconds from exit to verdict, each time", "median")


def main() -> int:
    """Print the table; 1 when a verdict took longer than promised, or came from a time limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    found: dict[Kind, list[Outcome]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="fleetbench-verdicts-") as place,
        fleet_of(1, Path(place), "v") as fleet,
    ):
        for _ in range(times):
            for kind, outcome in outcomes(fleet):
                found.setdefault(kind, []).append(outcome)
                sys.stderr.write(f"{kind.name}: {outcome}\n")
    write(f"# From a server's end to the verdict\n\n{times} times each; promised: {PROMISED_S:g} s.\n")
    write("| " + " | ".join(COLUMNS) + " |")
    write("|" + " --- |" * (len(COLUMNS) - 1) + " ---: |")
    for kind, results in found.items():
        write(_row(kind, results))
    write(
        "\nA server that hangs has no end to count from: `never opens its port` is a verdict when"
        " `ready_timeout_s` is over and names the last phase, `hangs while it is measured` when its counters"
        " have stood still for `stall_timeout_s` (1 s and 6 s here) while requests wait.\n"
        "Lab hosts have no memory controller: SIGKILL out of nowhere stands for the OOM killer."
    )
    late = [o for kind, each in found.items() for o in each if kind.exits and not _in_time(o)]
    return 1 if late else 0


def write(line: str) -> None:
    """Write a line of the page."""
    sys.stdout.write(f"{line}\n")


def _in_time(outcome: Outcome) -> bool:
    return outcome.seconds is not None and outcome.seconds <= PROMISED_S and not outcome.timed_out


def _row(kind: Kind, results: list[Outcome]) -> str:
    seconds = [outcome.seconds for outcome in results if outcome.seconds is not None]
    last = results[-1]
    cells = (
        kind.name,
        last.failure,
        last.cause.partition("; ")[0],
        f"`{last.evidence[:90]}`",
        ", ".join(f"{one:.2f}" for one in seconds) or "its limit",
        f"{statistics.median(seconds):.2f}" if seconds else "–",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
