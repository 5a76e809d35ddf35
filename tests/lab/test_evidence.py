"""Runs on real hosts hold what was stored of them, and say which number a changed file carried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standin_host import Fleet

from fleetbench.results import manifest


@pytest.fixture
def swept(booted_fleet: Fleet) -> Iterator[Fleet]:
    """Hosts without production, clean afterwards."""
    yield booted_fleet
    booted_fleet.clean()


def verified(fleet: Fleet, status: int = 0) -> dict[str, Any]:
    """What `fleetbench verify latest --format json` says; it has to end with that status."""
    argv = [sys.executable, "-c", "from fleetbench.cli import main; main()", "verify", "latest"]
    env = os.environ | {"FLEETBENCH_RUNS": str(fleet.runs)}
    done = subprocess.run(
        [*argv, "--format", "json"], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == status, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def directory_of(fleet: Fleet) -> Path:
    with fleet.store() as store:
        return store.directory(store.run("latest").id)


def alter(path: Path, old: str, new: str) -> None:
    """Change one digit of a file."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_a_sweep_is_sealed_and_every_number_of_it_follows_from_its_files(swept: Fleet) -> None:
    done = swept.invoke("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "three", "--try-all")
    assert done.status == 0, done.err
    found = verified(swept)
    assert found["unchecked"] == []
    assert found["files"]["sealed_at"]
    assert found["files"]["listed"] >= 30
    assert found["checked"] > 200
    directory = directory_of(swept)
    known = manifest.read(directory)
    assert known is not None
    assert {"timeline.json", "trial-01/versions.json", "trial-01/server.journal"} <= set(known.files)
    versions = json.loads((directory / "trial-01" / "versions.json").read_text("utf-8"))
    assert (versions["server"]["packages"]["torch"], versions["server"]["python"]) == ("2.9.0", "3.9.18")
    assert versions["server"]["kernel"] == os.uname().release
    assert versions["server"]["driver"]


def test_one_digit_of_a_file_is_named_with_the_number_that_falls(swept: Fleet) -> None:
    done = swept.invoke("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "one")
    assert done.status == 0, done.err
    directory = directory_of(swept)
    place = "trial-01/workload-0/measure-1"
    result = directory / place / "result.json"
    completed = json.loads(result.read_text("utf-8"))["completed"]
    alter(result, f'"completed": {completed}', f'"completed": {completed - 1}')
    found = verified(swept, status=1)
    assert found["files"]["altered"] == [f"{place}/result.json"]
    named = {(one["place"], one["name"]): (one["stored"], one["found"]) for one in found["broken"]}
    assert named[place, "completed"] == (completed, completed - 1)
    assert named[place, "verdict"] == ("valid", "invalid")


def test_a_service_measured_from_another_host_keeps_what_both_hosts_were(swept: Fleet) -> None:
    swept.deploy("good")
    words = ("--input-len", "8", "--output-len", "8", "--concurrency", "1", "--num-prompts", "10")
    done = swept.invoke("bench", "--hosts", "lab-01", *words, "--repeats", "1", "--client", "lab-02")
    assert done.status == 0, done.err
    found = verified(swept)
    assert found["unchecked"] == []
    versions = json.loads((directory_of(swept) / "trial-01" / "versions.json").read_text("utf-8"))
    assert (versions["server"]["host"], versions["client"]["host"]) == ("lab-01", "lab-02")
    alter(directory_of(swept) / "trial-01" / "facts-client.json", '"python": "3.9.18"', '"python": "3.9.19"')
    (broken,) = verified(swept, status=1)["broken"]
    assert broken["name"] == "versions of the client: python"


def test_several_servers_behind_a_balancer_hold_too(swept: Fleet) -> None:
    installed = swept.enter("lab-01", "dnf -y -q install nginx")
    assert installed.returncode == 0, installed.stderr
    done = swept.invoke("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "units")
    assert done.status == 0, done.err
    assert verified(swept)["unchecked"] == []
