"""Reading weights ahead: which files, when it does not, and that nothing of it is ever an error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from nouns import HOST

from fleetbench.service_log import phase
from fleetbench.sweep.read_ahead import UNIT, ReadAhead
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

SCRIPT = Path(__file__).resolve().parents[2] / "fleetbench" / "sweep" / "read_ahead.sh"
LOADS = "INFO 01-01 00:00:00 [runner.py:1] Starting to load model m..."
IMPORTS = "INFO 01-01 00:00:00 [model.py:1] Resolved architecture: X"


def read(prefix: Path, model: str, *, resident: str = "0", spare_kib: int = 1) -> tuple[str, list[str]]:
    """Run the script with a stand-in of fincore and dd; return its last line and the files that were read."""
    tools = prefix / "tools"
    tools.mkdir(exist_ok=True)
    log = prefix / "read.log"
    for name, text in (("fincore", f"echo '{resident}'"), ("dd", f'echo "${{1#if=}}" >> {log}')):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(SCRIPT), str(prefix), model, str(spare_kib)],
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    files = log.read_text().splitlines() if log.exists() else []
    return done.stdout.splitlines()[-1], sorted(Path(file).name for file in files)


def model_at(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("model-1.safetensors", "model-2.safetensors", "tokenizer.json", "config.json"):
        (directory / name).write_bytes(b"x" * 2**20)
    (directory / "pipe.safetensors").symlink_to("/dev/zero")
    return directory


def test_the_weight_files_of_a_directory_are_read_and_nothing_else(tmp_path: Path) -> None:
    said, files = read(tmp_path, str(model_at(tmp_path / "my model")))

    assert said == "read 2 MiB of weights ahead"
    assert files == ["model-1.safetensors", "model-2.safetensors"]


def test_a_repository_is_read_from_the_snapshot_that_its_head_names(tmp_path: Path) -> None:
    hub = tmp_path / "models" / "huggingface" / "hub" / "models--org--m"
    model_at(hub / "snapshots" / "aaa")
    newer = model_at(hub / "snapshots" / "bbb")
    (newer / "model-3.safetensors").write_bytes(b"x" * 2**20)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("aaa")

    assert read(tmp_path, "org/m")[1] == ["model-1.safetensors", "model-2.safetensors"]


def test_weights_that_are_in_memory_are_not_read_again(tmp_path: Path) -> None:
    said, files = read(tmp_path, str(model_at(tmp_path / "m")), resident=str(2**20))

    assert (said, files) == ("2 MiB of weights are in memory already", [])


def test_weights_that_do_not_fit_are_left_where_they_are(tmp_path: Path) -> None:
    said, files = read(tmp_path, str(model_at(tmp_path / "m")), spare_kib=2**50)

    assert said.startswith("2 MiB of weights do not fit beside what runs")
    assert files == []


@pytest.mark.parametrize("model", ["/nowhere/at all", "org/none", "$(touch x)", "../../etc", "org/m%s"])
def test_a_model_that_is_not_there_is_no_failure(tmp_path: Path, model: str) -> None:
    said, files = read(tmp_path, model)

    assert (said, files) == (f"no weights of {model} here", [])


def ahead(*, starts: bool = True) -> tuple[ReadAhead, FakeSession]:
    answer = CommandResult(command="", exit_status=0 if starts else 1, stdout="", stderr="no")
    fake = FakeSession(HOST, [("systemd-run", answer)])
    return ReadAhead(DurableSession(HOST, lambda: fake), HOST, "org/m"), fake


def stops(fake: FakeSession) -> int:
    return sum("systemd-run" not in line and UNIT in line for line in fake.commands)


def test_it_ends_once_when_the_server_begins_to_load() -> None:
    reading, fake = ahead()
    reading.begin()
    shown = reading.until_loading(phase)

    assert (shown(""), shown(IMPORTS), stops(fake)) == ("", "importing", 0)
    assert (shown(LOADS), shown(LOADS), stops(fake)) == ("loading", "loading", 1)
    reading.end()
    assert stops(fake) == 1


def test_a_host_that_cannot_read_ahead_is_left_alone() -> None:
    reading, fake = ahead(starts=False)
    reading.begin()
    reading.until_loading(phase)(LOADS)
    reading.end()

    assert stops(fake) == 0


def test_it_runs_as_the_service_user_idle_and_bounded() -> None:
    reading, fake = ahead()
    reading.begin()

    (command,) = [line for line in fake.commands if "systemd-run" in line]
    for property_ in ("IOSchedulingClass=idle", "CPUSchedulingPolicy=idle", "RuntimeMaxSec=", "User="):
        assert f"--property={property_}" in command
    assert f" {HOST.user} 1800 " in command
