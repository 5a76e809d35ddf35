"""`fleetbench ceiling`: the figures that it prints, where it gets the model from, and how it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from plan_cases import MODELS

from fleetbench.commands.ceiling import ceiling
from fleetbench.errors import FleetbenchError, Unreadable, UsageError


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hosts.toml").write_text(
        '[builds.cuda]\nversion = "0.25.1"\n[defaults]\nbuild = "cuda"\n[hosts.h]\n'
    )
    (tmp_path / "models.toml").write_text(
        '[models.coder]\nrepo = "Qwen/Qwen3-Coder-30B-A3B-Instruct"\nserve_args = ["--max-num-seqs", "32"]\n'
    )
    (tmp_path / "sweeps.toml").write_text("")
    return tmp_path


def run(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(ceiling, [*arguments, "--inventory", str(directory)])


def document(directory: Path, *arguments: str) -> dict[str, Any]:
    done = run(directory, *arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def error(directory: Path, *arguments: str) -> FleetbenchError:
    caught = run(directory, *arguments).exception
    assert isinstance(caught, FleetbenchError)
    assert len(str(caught).splitlines()) <= 3
    return caught


def test_json_has_the_figures_of_each_concurrency(directory: Path) -> None:
    found = document(directory, "Llama-3.1-8B", "--gpus", "H200", "--concurrency", "1,64")
    assert (found["gpu"], found["configuration"]) == ("NVIDIA H200", "tp=1 dp=1")
    assert found["not_strict_because"] == []
    one, many = found["rows"]
    assert one["serial_output_tps"] == pytest.approx(294, abs=1)
    assert many["serial_output_tps"] == pytest.approx(9031, abs=2)
    assert many["serial_output_tps"] < many["ceiling_output_tps"] < many["strict_output_tps"]
    assert many["binds"] == "bandwidth"
    assert many["prefill_input_tps"] == pytest.approx(60_567, abs=10)


def test_a_card_that_is_short_of_memory_is_bound_by_its_kv_room(directory: Path) -> None:
    words = (
        "Qwen3-Coder-30B-A3B-Instruct",
        "--concurrency",
        "1000",
        "--input-len",
        "128",
        "--output-len",
        "128",
    )
    (one,) = document(directory, *words, "--gpus", "8x H100 80GB")["rows"]
    (two,) = document(directory, *words, "--gpus", "8x H100 80GB", "--tp", "2")["rows"]
    assert (one["binds"], two["binds"]) == ("kv-room", "bandwidth")
    assert one["in_flight"] == pytest.approx(one["room"])
    assert 350 < one["room"] < 600
    # More than twice as fast on twice the GPUs: the gain is room, not arithmetic.
    assert two["ceiling_output_tps"] > 2 * one["ceiling_output_tps"]


def test_a_model_of_the_inventory_brings_its_arguments(directory: Path) -> None:
    (row,) = document(directory, "coder", "--gpus", "1x H200", "--concurrency", "64")["rows"]
    assert (row["in_flight"], row["binds"]) == (32, "scheduler")
    (row,) = document(
        directory, "coder", "--gpus", "1x H200", "--concurrency", "64", "--serve-args", "--max-num-seqs 64"
    )["rows"]
    assert row["in_flight"] == 64


def test_weights_that_leave_no_room_have_no_rate(directory: Path) -> None:
    done = run(directory, "gpt-oss-120b", "--gpus", "RTX 4090")
    assert done.exit_code == 0
    assert "the weights leave no room" in done.output
    (row,) = document(directory, "gpt-oss-120b", "--gpus", "RTX 4090", "--concurrency", "8")["rows"]
    assert row["ceiling_output_tps"] is None


def test_a_saved_config_is_read_and_the_cache_of_this_machine_is_looked_at(directory: Path) -> None:
    config = MODELS / "llama-3.2-3b.json"
    named = document(directory, "mine", "--gpus", "H200", "--config", str(config))
    place = directory / "hub" / "models--org--mine" / "snapshots" / "abc"
    place.mkdir(parents=True)
    (place / "config.json").write_text(config.read_text("utf-8"))
    cached = document(directory, "org/mine", "--gpus", "H200")
    assert named["rows"] == cached["rows"]


def test_what_is_not_strict_is_said(directory: Path) -> None:
    words = ("Llama-3.1-8B", "--gpus", "H200", "--serve-args", "--speculative-config '{}'")
    found = document(directory, *words)
    assert found["not_strict_because"] == ["--speculative-config changes what a token costs"]
    assert {row["strict_output_tps"] for row in found["rows"]} == {None}
    assert "no strict ceiling: --speculative-config" in run(directory, *words).output


def test_csv_has_one_line_for_each_concurrency(directory: Path) -> None:
    done = run(directory, "Llama-3.1-8B", "--gpus", "H200", "--concurrency", "1,2,4", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.output)))
    assert [row["concurrency"] for row in rows] == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Llama-3.1-8B", "--gpus", "2x H200", "--tp", "4"), "needs 4 GPUs"),
        (("Llama-3.1-8B", "--gpus", "Voodoo 2"), "names no GPUs"),
        (("Llama-3.1-8B", "--gpus", "H200", "--concurrency", "1,x"), "no list of numbers"),
        (("Llama-3.1-8B", "--gpus", "H200", "--concurrency", ""), "no list of numbers"),
        (("Llama-3.1-8B", "--gpus", "H200", "--concurrency", "0"), "no list of numbers"),
        (("Llama-3.1-8B", "--gpus", "H200", "--serve-args", "--max-num-seqs much"), "no number"),
        (("Llama-3.1-8B", "--gpus", "H200", "--serve-args", "'"), "split into words"),
    ],
)
def test_what_makes_no_sense_is_refused(directory: Path, arguments: tuple[str, ...], said: str) -> None:
    caught = error(directory, *arguments)
    assert isinstance(caught, UsageError)
    assert said in str(caught)


def test_a_model_that_nobody_knows_is_named_with_those_that_are(directory: Path) -> None:
    caught = error(directory, "nobody/knows-it", "--gpus", "H200")
    assert isinstance(caught, Unreadable)
    assert "gpt-oss-120b" in str(caught)
    assert "--config" in str(caught)
