"""The lab with everything that a real vLLM needs; skipped in one line where it cannot run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from site_under_test import Site

from fleetbench.lab import requirements
from fleetbench.lab.settings import from_environment

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the lab: skipped in one line where it cannot run."""
    mine = [item for item in items if HERE in item.path.parents]
    reason = requirements.missing() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.e2e)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`invoke lab up`, and `invoke lab down` whatever happens."""
    place = tmp_path_factory.mktemp("site")
    inventory = place / "inventory"
    inventory.mkdir()
    environment = dict(os.environ) | {
        "FLEETBENCH_LAB": f"e{os.getpid()}",
        "FLEETBENCH_INVENTORY": str(inventory),
        "FLEETBENCH_RUNS": str(place / "runs"),
    }
    made = Site(place=place, environment=environment, settings=from_environment(environment))
    try:
        made.invoke("lab", "up", "--count", "2", timeout_s=1800)
        yield made
    finally:
        made.invoke("lab", "down")
