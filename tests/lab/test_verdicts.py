"""A server that fails is a verdict with its cause, and it comes from the failure, not from a time limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standin_host import Fleet
from verdicts import KINDS, Kind, outcome_of


@pytest.fixture
def swept(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A host without production, clean afterwards."""
    yield booted_fleet
    booted_fleet.clean()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_way_to_fail_has_its_class_its_cause_and_comes_from_the_failure(
    swept: Fleet, kind: Kind
) -> None:
    outcome = outcome_of(swept, kind)

    assert outcome.failure == kind.failure
    assert kind.words in f"{outcome.cause} {outcome.evidence}"
    assert outcome.timed_out is (kind.failure == "timeout.ready")
    assert (outcome.seconds is not None) is kind.exits
    assert swept.left("lab-01") == ""


def test_a_service_that_crashes_again_and_again_is_a_verdict_of_its_first_end(swept: Fleet) -> None:
    deploy = ("deploy", "--hosts", "lab-01", "--model", "exit-late", "--gpus", "0", "--tp", "1")
    done = swept.invoke(*deploy)
    assert done.status == 1
    assert "GPU memory ran out" in done.err
    assert "no answer within" not in done.err
    restarts = swept.on("lab-01", "systemctl show vllm-8001 -P NRestarts")
    assert restarts in ("", "0", "1"), "the verdict did not wait for the limit of restarts"


def test_the_unit_of_a_sweep_is_never_started_again_by_systemd(swept: Fleet) -> None:
    def starts() -> int:
        return int(swept.on("lab-01", "journalctl -u vllm-sweep-8101 -b | grep -c 'INFO stand-in vLLM'"))

    before = starts()
    done = swept.invoke("sweep", "--model", "exit", "--hosts", "lab-01", "--sweep", "watched")
    assert done.status == 0, done.err
    assert starts() == before + 1
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    assert "Restart=no" in trial["unit_text"]
