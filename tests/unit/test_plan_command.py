"""`fleetbench plan`: what it reads, what it prints, and how it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from plan_cases import HOSTS, MODELS

from fleetbench.commands.plan import plan
from fleetbench.errors import FleetbenchError, InventoryError, Unreadable, UsageError
from fleetbench.facts.document import to_json
from fleetbench.facts.values import HostFacts, Missing

CONFIG = str(MODELS / "qwen3-coder-30b-a3b.json")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "hosts.toml").write_text(
        '[builds.cuda]\nversion = "0.10.1.1"\n[builds.new]\nversion = "0.25.1"\n'
        '[defaults]\nbuild = "cuda"\n[hosts.h]\n[hosts."8xh100"]\nbuild = "new"\n'
    )
    (tmp_path / "models.toml").write_text(
        '[models.coder]\nrepo = "o/coder"\nmax_model_len = 65536\nsweep = "all"\nhosts = "h"\n'
        '[models.local]\nrepo = "/srv/nowhere"\n'
    )
    (tmp_path / "sweeps.toml").write_text("[sweeps.all]\n[sweeps.two]\nparallel = [{ tp = 2 }, { tp = 3 }]\n")
    return tmp_path


def run(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(plan, [*arguments, "--inventory", str(directory)])


def error(directory: Path, *arguments: str) -> FleetbenchError:
    """The error that the command line would print in three lines."""
    caught = run(directory, *arguments).exception
    assert isinstance(caught, FleetbenchError)
    assert len(str(caught).splitlines()) <= 3
    return caught


def test_json_has_each_candidate_with_verdict_reasons_and_numbers(directory: Path) -> None:
    result = run(directory, "coder", "--gpus", "8x H100 80GB", "--config", CONFIG, "--format", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["sweep"], found["vllm"], found["gpu_count"]) == ("all", "0.10.1.1", 8)
    assert len(found["candidates"]) == 10
    first = found["candidates"][0]
    assert (first["tp"], first["dp"], first["pp"], first["ep"], first["units"]) == (1, 1, 1, False, 1)
    assert first["weights_gib"] == pytest.approx(56.87)


def test_each_version_of_a_sweep_is_judged_by_its_own_rules(directory: Path) -> None:
    (directory / "sweeps.toml").write_text(
        '[sweeps.all]\nparallel = [{ tp = 2, dp = 2 }]\nbuilds = ["cuda", "new"]\n'
    )
    words = ("coder", "--gpus", "8x H100", "--config", str(MODELS / "gpt-oss-120b.json"), "--format", "json")
    found = json.loads(run(directory, *words).output)["candidates"]
    assert [(one["build"], one["vllm"], one["verdict"]) for one in found] == [
        ("cuda", "0.10.1.1", "impossible"),
        ("new", "0.25.1", "fits"),
    ]
    assert [one["run"] for one in found] == [False, True]
    (one,) = json.loads(run(directory, *words, "--vllm", "0.11.2").output)["candidates"]
    assert (one["build"], one["vllm"], one["verdict"]) == ("", "0.11.2", "fits")


def test_facts_of_a_known_host_bring_its_vllm(directory: Path) -> None:
    facts = ("--facts", str(HOSTS / "8xh100.json"), "--config", CONFIG, "--format", "json")
    found = json.loads(run(directory, "coder", *facts).output)
    assert (found["host"], found["vllm"]) == ("8xh100", "0.25.1")
    assert json.loads(run(directory, "coder", *facts, "--vllm", "0.20.0").output)["vllm"] == "0.20.0"


def test_the_table_says_why_and_how_many_are_tried(directory: Path) -> None:
    options = ("--sweep", "two", "--gpus", "8x H100", "--config", CONFIG)
    result = run(directory, "coder", *options)
    assert "heads: 32 attention heads are not divisible by tp=3" in result.output
    assert "impossible, skipped" in result.output
    assert "1 of 2 configurations are tried" in result.output
    assert "2 of 2 configurations are tried" in run(directory, "coder", *options, "--try-all").output


def test_csv_has_one_row_a_candidate(directory: Path) -> None:
    result = run(
        directory, "coder", "--sweep", "two", "--gpus", "8x H100", "--config", CONFIG, "--format", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(result.output)))
    assert [(one["tp"], one["verdict"], one["run"]) for one in rows] == [
        ("2", "fits", "True"),
        ("3", "impossible", "False"),
    ]
    assert rows[1]["weights_gib"] == ""


def test_every_split_can_be_asked_for(directory: Path) -> None:
    result = run(directory, "coder", "--gpus", "2x H100", "--config", CONFIG, "--every", "--format", "json")
    splits = [
        (c["tp"], c["dp"], c["pp"], c["ep"], c["units"]) for c in json.loads(result.output)["candidates"]
    ]
    assert (1, 2, 1, True, 1) in splits
    assert (1, 1, 2, False, 1) in splits


def test_the_config_is_found_in_the_cache_and_the_index_beside_it(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--o--coder" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(Path(CONFIG).read_text())
    size = 80 * 10**9
    (snapshot / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}}))
    result = run(directory, "coder", "--sweep", "two", "--gpus", "8x H200", "--format", "json")
    assert json.loads(result.output)["candidates"][0]["weights_gib"] == pytest.approx(
        size / 2 / 2**30, rel=0.01
    )


def test_a_model_that_is_not_on_this_machine_is_asked_for(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    caught = error(directory, "coder", "--gpus", "8x H100")
    assert isinstance(caught, Unreadable)
    assert "--config FILE" in caught.next_step


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("nobody", "--gpus", "8x H100", "--config", CONFIG), InventoryError),
        (("coder", "--sweep", "nothing", "--gpus", "8x H100", "--config", CONFIG), InventoryError),
        (("coder", "--gpus", "8x H99", "--config", CONFIG), UsageError),
        (("coder", "--gpus", "8x H100", "--config", CONFIG, "--vllm", "new"), UsageError),
        (("coder", "--gpus", "8x H100", "--config", "/nowhere/config.json"), Unreadable),
        (("coder", "--facts", "/nowhere/facts.json", "--config", CONFIG), Unreadable),
        (("coder", "--facts", CONFIG, "--config", CONFIG), Unreadable),
        (("coder", "--gpus", "8x H100", "--config", str(HOSTS / "8xh100.json")), Unreadable),
        (("local", "--gpus", "8x H100", "--config", CONFIG), UsageError),
    ],
)
def test_what_cannot_be_used_is_refused_in_three_lines(
    directory: Path, arguments: tuple[str, ...], kind: type[FleetbenchError]
) -> None:
    assert isinstance(error(directory, *arguments), kind)


def test_either_facts_or_gpus_are_needed(directory: Path) -> None:
    for arguments in ((), ("--facts", "a", "--gpus", "8x H100")):
        result = run(directory, "coder", "--config", CONFIG, *arguments)
        assert (result.exit_code, "either --facts or --gpus" in result.output) == (2, True)


def test_without_a_known_host_the_version_is_asked_for(directory: Path) -> None:
    caught = error(directory, "local", "--sweep", "two", "--gpus", "8x H100", "--config", CONFIG)
    assert "--vllm VERSION" in caught.next_step


def test_facts_of_a_host_without_gpus_are_judged_by_the_split(directory: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(to_json(HostFacts(host="cpu", gpus=Missing("nvidia-smi: not found"))))
    result = run(
        *(directory, "coder", "--sweep", "two", "--facts", str(facts), "--config", CONFIG),
        *("--vllm", "0.32.0", "--format", "json"),
    )
    found = json.loads(result.output)
    assert [one["verdict"] for one in found["candidates"]] == ["valid", "impossible"]
    assert found["notes"] == ["memory is not predicted: nvidia-smi: not found"]
