"""vLLM's own plot tools on what `fleetbench export --format vllm` writes.

They need vLLM itself beside pandas, matplotlib and seaborn: FLEETBENCH_PLOT_VENV names a venv that has them.
No host is needed, and so no lab.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from exported_runs import CONFIGS, WORKLOADS, filled, output_tps  # noqa: E402

VENV = Path(os.environ.get("FLEETBENCH_PLOT_VENV", "/nonexistent"))
pytestmark = pytest.mark.skipif(
    not (VENV / "bin" / "vllm").exists(),
    reason="FLEETBENCH_PLOT_VENV names no venv with vLLM, pandas, matplotlib and seaborn",
)
# What the tools make of a directory before they draw it, by their own functions.
READ = """
import json, sys
from pathlib import Path
from vllm.benchmarks.sweep import plot, plot_pareto
rows = [row for path in Path(sys.argv[1]).rglob("**/summary.json") for row in plot._json_load_bytes(path)]
prepared, skipped = plot_pareto._prepare_records(
    rows, user_count_var="max_concurrency", gpu_count_var="gpu_count"
)
print("READ " + json.dumps([skipped, prepared]))
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported run."""
    place = tmp_path_factory.mktemp("plots")
    filled(place / "runs")
    environment = dict(os.environ) | {"FLEETBENCH_RUNS": str(place / "runs"), "PYTHONPATH": str(ROOT)}
    environment.pop("FLEETBENCH_DB", None)
    words = ("export", "--format", "vllm", "-o", str(place / "sweep"))
    subprocess.run([sys.executable, "-m", "fleetbench", *words], env=environment, check=True)
    return place / "sweep"


def vllm(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def width_of(path: Path) -> int:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    found: int = struct.unpack(">I", head[16:20])[0]
    return found


def test_sweep_plot_draws_our_measurements(sweep: Path) -> None:
    axes = ("--var-x", "max_concurrency", "--var-y", "output_throughput")
    curves = ("--curve-by", "fleetbench_configuration", "--filter-by", "max_concurrency>=1")
    vllm(str(VENV / "bin" / "vllm"), "bench", "sweep", "plot", str(sweep), *axes, *curves)
    assert width_of(sweep / "FIGURE.png") > 800


def test_plot_pareto_counts_gpus_and_users_as_we_do(sweep: Path) -> None:
    said = vllm(
        *(str(VENV / "bin" / "vllm"), "bench", "sweep", "plot_pareto", str(sweep)),
        *("--gpu-count-var", "gpu_count"),
    )
    assert "Plotted 35 points" in said
    assert width_of(sweep / "pareto" / "PARETO.png") > 400
    line = next(
        line
        for line in vllm(str(VENV / "bin" / "python"), "-c", READ, str(sweep)).splitlines()
        if line.startswith("READ ")
    )
    skipped, records = json.loads(line.removeprefix("READ "))
    assert (skipped, len(records)) == (0, 3 * len(WORKLOADS) * 3 - 1)
    for record in records:
        config = CONFIGS[record["fleetbench_trial"] - 1]
        expected = output_tps(config, record["max_concurrency"], record["run_number"] + 1)
        assert record["output_throughput"] == expected
        assert record["tokens_per_gpu"] == pytest.approx(expected / config.gpus)
        assert record["tokens_per_user"] == pytest.approx(expected / record["max_concurrency"])
