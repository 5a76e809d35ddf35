"""`invoke provision`: which venvs `--build` and `--sweep` add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleetbench.errors import Exit, InventoryError, UsageError
from fleetbench.fleet import Status
from fleetbench.inventory import load
from fleetbench.reconcile import HostResult
from fleetbench.verbs import provisioning
from fleetbench.verbs.common import Options

HOSTS = """
[defaults]
build = "own"
transport = "local"
[builds.own]
version = "0.19.1"
[builds.old]
version = "0.10.1.1"
[hosts.a]
[hosts.b]
"""
SWEEPS = '[sweeps.both]\nbuilds = ["old", "own"]\n[sweeps.plain]\n'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "hosts.toml").write_text(HOSTS)
    (tmp_path / "sweeps.toml").write_text(SWEEPS)
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, bool]]:
    """Host, build and whether the link is switched, of each host that is provisioned."""
    seen: list[tuple[str, str, bool]] = []

    def provision_host(_: Any, host: Any, **options: Any) -> HostResult:
        seen.append((host.name, host.build.name, options["switch"]))
        return HostResult(host=host.name, status=Status.OK)

    monkeypatch.setattr(provisioning, "provision_host", provision_host)
    monkeypatch.setattr(provisioning, "_refuse_locked", lambda host: None)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    return seen


def test_without_names_each_host_gets_its_own_build_and_the_link(
    directory: Path, calls: list[tuple[str, str, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(hosts="a,b", inventory=str(directory), form="csv", parallel=1)
    assert provisioning.provision(options, diff=False) is Exit.OK
    assert calls == [("a", "own", True), ("b", "own", True)]
    assert capsys.readouterr().out.splitlines()[0] == "host,outcome,steps,plan"


def test_the_builds_of_a_sweep_are_added_and_no_link_is_switched(
    directory: Path, calls: list[tuple[str, str, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(hosts="a", inventory=str(directory), form="csv")
    assert provisioning.provision(options, diff=False, sweep="both") is Exit.OK
    assert calls == [("a", "old", False), ("a", "own", False)]
    assert capsys.readouterr().out.splitlines() == [
        "host,build,outcome,steps,plan",
        "a,old,no changes,0,",
        "a,own,no changes,0,",
    ]


def test_names_of_builds_are_read_with_commas_and_blanks(directory: Path) -> None:
    inventory = load(directory)
    found = provisioning.further_builds(inventory, "old, own,old", "")
    assert [build.name for build in found] == ["old", "own"]
    assert provisioning.further_builds(inventory, "", "") == ()


@pytest.mark.parametrize(
    ("build", "sweep", "expected"),
    [
        ("old", "both", "give either --build or --sweep"),
        ("", "plain", "sweep plain names no builds"),
        (",", "", "--build names no build"),
        ("odl", "", "no build is called"),
        ("", "boht", "no sweep is called"),
    ],
)
def test_what_names_no_build_is_refused(directory: Path, build: str, sweep: str, expected: str) -> None:
    with pytest.raises((UsageError, InventoryError), match=expected):
        provisioning.further_builds(load(directory), build, sweep)
