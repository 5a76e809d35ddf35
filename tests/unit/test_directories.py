"""Directories made by root below a directory of the service user: links that it plants are never followed."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from pathlib import Path

import pytest
from provision_hosts import rocky

from fleetbench.operations.files import Directory, directories
from fleetbench.steps import Run

OWNER = f"{pwd.getpwuid(os.getuid()).pw_name}:{grp.getgrgid(os.getgid()).gr_name}"


def make(*paths: Path, mode: int = 0o755) -> subprocess.CompletedProcess[str]:
    """Run the step that makes directories, here instead of on a host."""
    wants = [Directory(path=str(path), owner=OWNER, mode=mode) for path in paths]
    (step,) = directories(wants)(rocky()).steps
    assert isinstance(step.action, Run)
    return subprocess.run(step.action.argv, capture_output=True, text=True, check=False)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory that is not to be touched."""
    place = tmp_path / "victim"
    place.mkdir()
    place.chmod(0o700)
    return place


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_directories_are_made_with_their_parents_and_mode(tmp_path: Path) -> None:
    names = (tmp_path / "data" / "it's; here", tmp_path / "data" / "-n")
    done = make(*names, mode=0o750)
    assert (done.returncode, done.stderr) == (0, "")
    assert [mode(name) for name in names] == [0o750, 0o750]


def test_a_directory_that_is_there_gets_exactly_the_mode(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    place.chmod(0o2777)
    assert make(place).returncode == 0
    assert mode(place) == 0o755


def test_a_link_planted_after_the_facts_were_read_is_not_followed(tmp_path: Path, victim: Path) -> None:
    planted = tmp_path / "cache"
    planted.symlink_to(victim)
    done = make(planted)
    assert (done.returncode, done.stderr) == (73, f"{planted} has become a link to {victim}\n")
    assert mode(victim) == 0o700


def test_a_link_to_nothing_makes_nothing(tmp_path: Path) -> None:
    planted = tmp_path / "cache"
    planted.symlink_to(tmp_path / "made-by-root")
    assert make(planted).returncode != 0
    assert not (tmp_path / "made-by-root").exists()


def test_a_prefix_behind_a_link_of_the_operators_works(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "vllm").symlink_to(tmp_path / "disk")
    assert make(tmp_path / "vllm" / "cache", mode=0o711).returncode == 0
    assert mode(tmp_path / "disk" / "cache") == 0o711
