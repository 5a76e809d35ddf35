"""What the server itself says of a trial: what it runs with, its counters, and who else is on its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standin_host import Fleet

from fleetbench.results.rows import MeasurementKind, MeasurementRow, Verdict


@pytest.fixture
def swept(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A host without production, clean afterwards."""
    yield booted_fleet
    booted_fleet.clean()


def sweep_of(fleet: Fleet, model: str, name: str = "one") -> str:
    """Sweep a model on the first host; return what was said."""
    done = fleet.invoke("sweep", "--model", model, "--hosts", "lab-01", "--sweep", name)
    assert done.status == 0, done.err
    return done.err


def measured(fleet: Fleet) -> tuple[MeasurementRow, ...]:
    with fleet.store() as store:
        rows = store.measurements(store.run("latest").id)
    return tuple(row for row in rows if row.kind is MeasurementKind.MEASURE)


def evidence(fleet: Fleet, row: MeasurementRow, name: str) -> str:
    with fleet.store() as store:
        return (store.directory(row.run_id) / row.directory / name).read_text("utf-8")


def test_a_trial_keeps_what_its_server_runs_with_and_its_counters(swept: Fleet) -> None:
    sweep_of(swept, "good")
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    effective = trial["effective"]
    assert (effective["tp"], effective["dp"], effective["max_model_len"]) == (2, 1, 1024)
    assert (effective["kv_cache_tokens"], effective["attention_backend"]) == (100_000, "FLASH_ATTN")
    assert (effective["weights_gib"], effective["prefix_caching"]) == (14.25, True)
    assert effective["invocation"]
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert not any("prefix cache" in reason for reason in row.reasons)
    before, after = (evidence(swept, row, f"metrics-{when}.txt") for when in ("before", "after"))
    assert "vllm:request_success_total" in before
    assert (
        before.splitlines()[0]
        == after.splitlines()[0]
        == (f"# fleetbench: attempt 1, invocation {effective['invocation']}")
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("narrow", "asked for tensor-parallel size 2, it runs with 1"),
        ("short", "asked for max-model-len 1024, it runs with 512"),
    ],
)
def test_a_server_that_runs_with_something_else_measures_nothing(swept: Fleet, model: str, said: str) -> None:
    sweep_of(swept, model)
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    assert (trial["state"], trial["failure"]["kind"]) == ("failed", "effective-configuration-differs")
    assert trial["failure"]["evidence"] == said
    assert trial["failure"]["advice"]
    assert measured(swept) == ()
    assert swept.left("lab-01") == ""


def test_prompts_out_of_the_prefix_cache_make_a_row_suspect(swept: Fleet) -> None:
    sweep_of(swept, "cached")
    (row,) = measured(swept)
    assert row.verdict is Verdict.SUSPECT
    assert row.reasons[0].startswith("75.0% of prompt tokens came from the prefix cache")
    assert "suspect 1/1" in swept.fleetbench("report", "latest")


def test_a_server_without_metrics_is_measured_and_the_row_says_what_is_not_known(swept: Fleet) -> None:
    sweep_of(swept, "mute")
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert any("unknown: /metrics answered 404" in reason for reason in row.reasons)
    assert "# not read: /metrics answered 404" in evidence(swept, row, "metrics-before.txt")
