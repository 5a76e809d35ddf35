"""`fleetbench inventory check` and `expand`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetbench.commands.inventory import group
from fleetbench.errors import InventoryError


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "hosts.toml").write_text(
        '[builds.cuda]\nversion = "1"\n[defaults]\nbuild = "cuda"\n'
        '[hosts."h[1-3]"]\ngpu_count = 8\n[groups.g]\nhosts = "h[1-2]"\n'
    )
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_check_counts_what_it_found(directory: Path) -> None:
    result = run("check", directory)
    assert (result.exit_code, result.output) == (0, "3 hosts, 1 group, 0 models, 0 sweeps, 1 build: ok\n")


def test_check_prints_every_problem_and_fails(directory: Path) -> None:
    (directory / "models.toml").write_text("[models.x]\nrepoo = 1\n")
    result = run("check", "--inventory", directory)
    assert result.exit_code == 1
    assert [line.split(": ")[0] for line in result.output.splitlines()] == [
        f"{directory}/models.toml:1",
        f"{directory}/models.toml:2",
        "2 problems",
    ]
    as_json = run("check", directory, "--format", "json")
    assert as_json.exit_code == 1
    assert [problem["key"] for problem in json.loads(as_json.output)] == ["models.x", "models.x.repoo"]


def test_check_finds_a_prompt_file_that_is_not_there(directory: Path) -> None:
    (directory / "sweeps.toml").write_text(
        '[sweeps.s]\nworkload = { dataset = "custom", prompts = "absent.jsonl" }\n'
    )
    result = run("check", directory)
    assert result.exit_code == 1
    assert (
        f"sweeps.toml:1: sweeps.s.workload.prompts: no such file: {directory}/absent.jsonl" in result.output
    )


def test_check_without_an_inventory_raises_what_the_command_line_prints(tmp_path: Path) -> None:
    assert isinstance(run("check", tmp_path).exception, InventoryError)


def test_expand_prints_one_name_a_line_or_all_of_them_short(directory: Path) -> None:
    assert run("expand", "@g", "--inventory", directory).output == "h1\nh2\n"
    assert run("expand", "--inventory", directory, "--fold").output == "h[1-3]\n"


def test_expand_prints_json_and_csv_with_the_same_hosts(directory: Path) -> None:
    rows = json.loads(run("expand", "h1,h3", "--inventory", directory, "--format", "json").output)
    assert [(row["host"], row["groups"], row["gpu_count"]) for row in rows] == [
        ("h1", ["g"], 8),
        ("h3", [], 8),
    ]
    text = run("expand", "h1,h3", "--inventory", directory, "--format", "csv").output
    assert [row["host"] for row in csv.DictReader(io.StringIO(text))] == ["h1", "h3"]
    assert "h3" in run("expand", "h3", "--inventory", directory, "--format", "table").output


def test_the_inventory_directory_comes_from_the_environment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETBENCH_INVENTORY", str(directory))
    assert run("expand", "h2").output == "h2\n"
