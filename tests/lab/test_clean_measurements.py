"""Fifty measurements with which nothing is wrong raise no alarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from falsified import HOST, REMARKS, clean, known_fleet, measured
from standin_host import Fleet

from fleetbench.results.rows import Verdict

LOAD = ("--num-prompts", "40", "--concurrency", "4", "--input-len", "32", "--output-len", "16")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One host with a service whose server and client are known."""
    with known_fleet(tmp_path_factory.mktemp("known")) as fleet:
        fleet.deploy("clean")
        yield fleet
        clean(fleet)


def test_fifty_clean_runs_give_no_false_alarm(known: Fleet) -> None:
    done = known.invoke("bench", "--hosts", HOST, *LOAD, "--repeats", "50", timeout_s=900)
    assert done.status == 0, done.err
    rows = measured(known)
    assert len(rows) == 50
    said = [
        (row.repeat, one.rule, one.text) for row in rows for one in row.findings if one.rule not in REMARKS
    ]
    assert said == []
    assert {row.verdict for row in rows} == {Verdict.VALID}
