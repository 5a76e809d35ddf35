"""A lab of two hosts for the whole session, under a name and in a network of its own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_under_test import LabUnderTest, own_settings
from standin_host import Fleet, fleet_of

from fleetbench.lab import lab as labs
from fleetbench.lab import machine, requirements
from fleetbench.lab.settings import Settings, derived_subnet

HERE = Path(__file__).parent
# Minutes each: two processes that take file by file end together when these come first.
LONG = (
    "interruptions",
    "balancer",
    "many_hosts",
    "sweeps",
    "packing",
    "sweep_axes",
    "proof",
    "clean_measurements",
    "promote",
    "loans",
    "falsifiers",
)
GPUS = ("driver=570.172.08 cuda=12.8|4x H100", "2x MI300X")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs the lab: skipped in one line where it cannot run."""
    mine = [item for item in items if HERE in item.path.parents]
    reason = requirements.missing() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.lab)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    ranks = {HERE / f"test_{name}.py": rank for rank, name in enumerate(LONG, -len(LONG))}
    items.sort(key=lambda item: ranks.get(item.path, 0))


def remove_abandoned() -> None:
    """Take down the labs of test processes that died before they could."""
    for name, state in machine.labs().items():
        match = re.fullmatch(r"t[a-z]?(\d+)", name)
        if match is not None and not Path("/proc", match[1]).exists():
            labs.down(settings=Settings(name=name, cache=Path(state).parents[1], subnet=derived_subnet(name)))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    """Two hosts, the first with four H100 and the second with two MI300X."""
    remove_abandoned()
    settings = own_settings("t")
    inventory = tmp_path_factory.mktemp("inventory")
    try:
        hosts = labs.up(2, gpus=GPUS, inventory=inventory, settings=settings)
        yield LabUnderTest(settings, tuple(host.name for host in hosts), inventory)
    finally:
        labs.down(settings=settings)
        shutil.rmtree(inventory)


@pytest.fixture
def fresh_host(tmp_path: Path) -> Iterator[LabUnderTest]:
    """One untouched host without GPUs in a lab of its own, for tests that leave a mess."""
    settings = own_settings("tf")
    try:
        labs.up(1, inventory=tmp_path, settings=settings)
        yield LabUnderTest(settings, ("lab-01",), tmp_path)
    finally:
        labs.down(settings=settings)


@pytest.fixture
def enter(lab: LabUnderTest) -> Callable[..., str]:
    """Run a command on a host of the session's lab out of band; returns its output, expects status 0."""

    def run(name: str, *argv: str) -> str:
        done = labs.enter(name, argv, settings=lab.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def booted_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two alike hosts with four H100 and a stand-in of vLLM, for one file of tests."""
    remove_abandoned()
    with fleet_of(2, tmp_path_factory.mktemp("fleet"), "ts") as fleet:
        yield fleet


@pytest.fixture
def fleet(booted_fleet: Fleet) -> Iterator[Fleet]:
    """The same hosts, as they were before: what a test leaves on them is taken away."""
    yield booted_fleet
    booted_fleet.clean()
