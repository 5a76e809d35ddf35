"""A store of 10,000 runs: how long do the commands take that read it?

    python3 benchmarks/ten_thousand_runs.py [--runs 10000] [--before CHECKOUT] > benchmarks/store.md

Each run has 4 trials of one workload, each with a warm-up and 3 repeats (160,000 measurements in all), with
what a real row holds: the unit's text, what the server ran with, what was sampled, findings. The rows go in
through the store's own code; raw files are there of the newest run only, as `report` reads no other's.

Every command is a process of its own, as a user starts it, once to warm the page cache and then `--times`
times; what counts is the least, because what else the machine does can only add. Seconds of processor time
stand beside it. With `--before`, a checkout of an earlier commit, its commands read a store of the same rows
that its own code made, in turn with ours.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from fleetbench.results.run_records import RunRecords, read_records
from fleetbench.results.store import open_store

ROOT = Path(__file__).resolve().parent.parent
TRIALS, REPEATS = 4, 3
MODELS = ("Qwen/Qwen3-Coder-30B-A3B", "meta-llama/Llama-3.1-8B", "openai/gpt-oss-120b")
GPUS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA A100-SXM4-80GB")
VERSIONS = ("0.30.0", "0.31.1", "0.32.0", "0.33.0")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
UNIT = "[Unit]\nDescription=vLLM\n[Service]\n" + "".join(
    f"Environment=NAME_{place}=a-value-as-long-as-a-path\n" for place in range(30)
)
LIMITS_S = {"report": 5.0, "query": 1.0}

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "latest"),
    "report, one of the middle": ("report", "MIDDLE"),
    "runs": ("runs",),
    "runs, all as csv": ("runs", "--format", "csv"),
    "runs show": ("runs", "show", "latest"),
    "query: the best of a model": (
        "query",
        "select configuration, gpu, host, output_throughput, p99_ttft_ms from results"
        " where model = 'qwen3-coder-30b-a3b' and verdict = 'valid' order by output_throughput desc limit 10",
    ),
    "query: every model on every GPU": (
        "query",
        "select model, gpu, count(*) as n, max(output_throughput) as best, min(p99_ttft_ms) as ttft"
        " from results where verdict = 'valid' group by model, gpu order by best desc",
    ),
    "query: all measurements by verdict": (
        "query",
        "select verdict, count(*) as n, avg(output_throughput) as mean from measurements group by verdict",
    ),
    "query: one run": ("query", "select * from results where run = 'MIDDLE'"),
    "compare": ("compare", "MIDDLE", "LAST", "--anyway"),
    "recommend": ("recommend", "latest"),
    "export prometheus": ("export", "--format", "prometheus"),
    "--help": ("--help",),
}


class Took(NamedTuple):
    """Seconds of one command, by the clock and of processors."""

    wall_s: float
    cpu_s: float


def documents(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield so many runs as the JSON of an archive, the oldest first; the same ones each time."""
    chance = random.Random(seed)  # noqa: S311  numbers that look measured, no secret
    for number in range(count):
        yield _run(number, chance)


def _run(number: int, chance: random.Random) -> dict[str, Any]:
    began = FIRST + timedelta(minutes=40 * number)
    model = chance.choice(MODELS)
    slug = model.rpartition("/")[2].lower().replace(".", "-")
    run_id = f"{began:%Y%m%d-%H%M%S}-{slug}-{number:04x}"
    host, gpu, version = f"gpu-{chance.randrange(50):02d}", chance.choice(GPUS), chance.choice(VERSIONS)
    concurrency = chance.choice((8, 32, 64, 128))
    workload = {"num_prompts": 20 * concurrency, "max_concurrency": concurrency, "output_len": 128}
    trials, measurements = [], []
    for trial in range(1, TRIALS + 1):
        tp = 2 ** (trial - 1)
        failed = chance.random() < 0.05
        trials.append(_trial(run_id, trial, tp, host, gpu, version, workload, began, failed))
        speed = chance.uniform(800, 1200) * tp**0.8 * math.log2(concurrency)
        for kind, repeat in (("warmup", 1), *(("measure", n) for n in range(1, REPEATS + 1))):
            if not failed:
                tokens_s = chance.gauss(speed, speed * 0.01)
                measurements.append(
                    _measurement(run_id, trial, kind, repeat, tokens_s, workload, began, chance)
                )
    when = f"{began:%Y-%m-%dT%H:%M:%SZ}"
    run = {
        "id": run_id,
        "kind": "sweep",
        "state": "done",
        "model": slug,
        "repo": model,
        "sweep": "tp-dp",
        "hosts": [host],
        "arguments": {"sweep": "tp-dp", "hosts": [host], "repeats": REPEATS, "trials": list(range(50))},
        "fingerprint": f"{number % 500:08x}",
        "controller": "laptop:4711:123",
        "fleetbench_version": "0.1.0",
        "created_at": when,
        "updated_at": when,
        "ended_at": f"{began + timedelta(minutes=35):%Y-%m-%dT%H:%M:%SZ}",
    }
    return {"run": run, "trials": trials, "measurements": measurements, "loans": []}


def _trial(
    run_id: str,
    number: int,
    tp: int,
    host: str,
    gpu: str,
    version: str,
    workload: dict[str, Any],
    began: datetime,
    failed: bool,
) -> dict[str, Any]:
    failure = {
        "failure_kind": "oom.no_kv",
        "failure_cause": "no memory is left for the KV cache",
        "failure_evidence": "ValueError: No available memory for the cache blocks.",
        "failure_advice": "more tp, or a shorter context",
        "failure_retryable": False,
    }
    return {
        "run_id": run_id,
        "number": number,
        "host": host,
        "gpus": ",".join(map(str, range(tp))),
        "port": 8101,
        "config": {"tp": tp, "dp": 1, "max_model_len": 8192, "serve_args": ["--kv-cache-dtype", "fp8"]},
        "workloads": [workload],
        "repeats": REPEATS,
        "state": "failed" if failed else "measured",
        **(failure if failed else {}),
        "unit_name": "vllm-sweep-8101.service",
        "unit_text": UNIT,
        "spec_hash": f"{tp:064x}",
        "vllm_version": version,
        "ready_s": 61.5,
        "effective": {"max_model_len": 8192, "kv_cache_tokens": 812_000, "attention": "FLASH_ATTN"},
        "started_at": f"{began:%Y-%m-%dT%H:%M:%SZ}",
        "ended_at": f"{began + timedelta(minutes=8):%Y-%m-%dT%H:%M:%SZ}",
        "predicted": {"verdict": "fits", "weights_gib": 60.1, "kv_tokens": 800_000},
        "gpu_name": gpu,
    }


def _measurement(
    run_id: str,
    trial: int,
    kind: str,
    repeat: int,
    tokens_s: float,
    workload: dict[str, Any],
    began: datetime,
    chance: random.Random,
) -> dict[str, Any]:
    prompts, concurrency = workload["num_prompts"], workload["max_concurrency"]
    verdict = chance.choices(("valid", "suspect", "invalid"), (94, 5, 1))[0]
    text = "the client took 91 % of a processor, so a TTFT is partly its own"
    finding = {"rule": "client-is-the-limit", "verdict": verdict, "text": text, "numbers": {"cores": 0.91}}
    tpot = 1000 * concurrency / tokens_s
    base = {"ttft": 80.0 * concurrency / 8, "tpot": tpot, "itl": tpot, "e2el": 128 * tpot}
    statistics_of = {"mean": 1.02, "median": 1.0, "p90": 1.3, "p95": 1.6, "p99": 2.4}
    latencies = {
        f"{name}_{key}_ms": value * factor
        for key, value in base.items()
        for name, factor in statistics_of.items()
    }
    return {
        "run_id": run_id,
        "trial": trial,
        "workload_index": 0,
        "repeat": repeat,
        "kind": kind,
        "seed": 1000 + repeat,
        "unit_name": f"fleetbench-bench-{trial}-{repeat}",
        "client": "jump-01",
        "state": "finished",
        "attempt": 1,
        "started_at": f"{began:%Y-%m-%dT%H:%M:%SZ}",
        "ended_at": f"{began + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}",
        "exit_status": 0,
        "directory": f"trial-{trial:02d}/workload-0/{kind}-{repeat}",
        "verdict": verdict,
        "reasons": [] if verdict == "valid" else [text],
        "completed": prompts,
        "failed": 0,
        "num_prompts": prompts,
        "max_concurrency": concurrency,
        "total_input_tokens": 128 * prompts,
        "total_output_tokens": 128 * prompts,
        "request_rate": "inf",
        "duration": 128 * prompts / tokens_s,
        "request_throughput": tokens_s / 128,
        "output_throughput": tokens_s,
        "total_token_throughput": 2 * tokens_s,
        "model_id": "m",
        "backend": "vllm",
        "date": f"{began:%Y%m%d-%H%M%S}",
        **latencies,
        "latencies": {f"std_{key}_ms": value / 9 for key, value in base.items()},
        "extra": {"max_output_tokens_per_s": tokens_s * 1.2},
        "client_program": "rust",
        "client_version": "0.33.0",
        "findings": [] if verdict == "valid" else [finding],
        "telemetry": {f"figure_{place}": chance.uniform(0, 1000) for place in range(40)},
        "ceiling": {"of_ceiling_percent": 61.2, "binds": "bandwidth", "why": "w" * 120, "gpu": "H200"},
    }


def fill(directory: Path, count: int) -> tuple[str, str]:
    """Fill a new store with so many runs; return the ids of one in the middle and of the last."""
    ids = []
    with open_store(f"sqlite:///{directory}/fleetbench.sqlite", directory) as store:
        for document in documents(count):
            records: RunRecords = read_records(json.dumps(document).encode(), "made up")
            with store.adding(records, "benchmarks/ten_thousand_runs.py"):
                pass
            ids.append(records.run_id)
        store.directory(ids[-1]).mkdir()
        store.directory(ids[count // 2]).mkdir()
    return ids[count // 2], ids[-1]


def main() -> int:
    """Fill stores, time the commands, print the page; 1 when one takes longer than promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help="where the store is made, and stays")
    asked = parser.parse_args()
    if asked.fill:
        sys.stdout.write(" ".join(fill(asked.fill, asked.runs)))
        return 0
    checkouts = [path for path in (asked.before, ROOT) if path]
    with tempfile.TemporaryDirectory(prefix="fleetbench-store-") as place:
        stores = {path: (asked.keep or Path(place)) / f"{n}" for n, path in enumerate(checkouts)}
        for path, directory in stores.items():
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / "fleetbench.sqlite").exists():
                began = time.monotonic()
                _python(path, directory, __file__, "--fill", str(directory), "--runs", str(asked.runs))
                sys.stderr.write(f"{directory}: filled in {time.monotonic() - began:.0f} s\n")
        middle, last = _ids(asked.runs)
        rows = {}
        for name, words in COMMANDS.items():
            named = [word.replace("MIDDLE", middle).replace("LAST", last) for word in words]
            rows[name] = _timed(stores, named, asked.times)
            sys.stderr.write(f"{name}: {rows[name]}\n")
        size = max(directory.joinpath("fleetbench.sqlite").stat().st_size for directory in stores.values())
    sys.stdout.write(_page(rows, asked, size))
    return 0 if all(_kept(name, times[-1]) for name, times in rows.items()) else 1


def _ids(count: int) -> tuple[str, str]:
    ids = [document["run"]["id"] for document in documents(count)]
    return ids[count // 2], ids[-1]


def _timed(stores: dict[Path, Path], words: Sequence[str], times: int) -> list[list[Took]]:
    """Return what a command took by checkout; of one that a checkout does not have, nothing."""
    found: list[list[Took]] = [[] for _ in stores]
    for turn in range(times + 1):
        for place, (path, directory) in enumerate(stores.items()):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            done = _python(path, directory, "-m", "fleetbench", *words, check=False)
            wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if turn and done.returncode == 0:
                found[place].append(Took(wall, cpu))
    return found


def _python(
    checkout: Path, runs: Path, *words: str, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    environment = dict(os.environ) | {"PYTHONPATH": str(checkout), "FLEETBENCH_RUNS": str(runs)}
    environment.pop("FLEETBENCH_DB", None)
    return subprocess.run(
        [sys.executable, *words], cwd=runs, env=environment, check=check, capture_output=True
    )


def _kept(name: str, found: Sequence[Took]) -> bool:
    limit = _limit(name)
    return limit is None or (bool(found) and min(found).wall_s <= limit)


def _limit(name: str) -> float | None:
    return LIMITS_S.get(name.partition(":")[0].partition(",")[0])


def _page(rows: dict[str, list[list[Took]]], asked: argparse.Namespace, size: int) -> str:
    lines = [
        f"# The commands on a store of {asked.runs:,} runs",
        "",
        f"{asked.runs * TRIALS:,} trials, of which 5 % failed, with a warm-up and {REPEATS} repeats each; "
        f"{size / 1e6:,.0f} MB of SQLite; {os.cpu_count()} processors, the least of {asked.times}, "
        "every command a process of its own.",
        "",
        "| command | before, s | now, s | of it processor, s | before ÷ now | promised |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, times in rows.items():
        now = min(times[-1]) if times[-1] else None
        before = min(times[0]) if len(times) > 1 and times[0] else None
        limit = _limit(name)
        ratio = f"{before.wall_s / now.wall_s:.1f}" if before and now else "–"
        shown = [f"{took.wall_s:.2f}" if took else "–" for took in (before, now)]
        processor = f"{now.cpu_s:.2f}" if now else "–"
        promised = f"{limit:g} s" if limit else "–"
        lines.append(f"| {name} | {shown[0]} | {shown[1]} | {processor} | {ratio} | {promised} |")
    if asked.before:
        lines += ["", f"Before: commit {_commit(asked.before)}; a dash is a command that it does not have."]
    return "\n".join(lines) + "\n"


def _commit(checkout: Path) -> str:
    words = ("git", "-C", str(checkout), "rev-parse", "--short", "HEAD")
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
