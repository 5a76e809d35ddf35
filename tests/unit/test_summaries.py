"""A summary is what the report makes of the same repeats, whatever changed them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from report_rows import CLOSED, SMALL, result
from sqlalchemy import delete, select, text

from fleetbench.model import Config, GpuSet, Trial
from fleetbench.report.files import read_report
from fleetbench.report.metrics import METRICS
from fleetbench.results.database import reading, writing
from fleetbench.results.migrations import MIGRATIONS
from fleetbench.results.rows import MeasurementKind, RunKind, Verdict
from fleetbench.results.schema import SUMMARIES, SUMMARY_METRICS
from fleetbench.results.store import Store, open_store
from fleetbench.results.values import BenchResult

VALID, SUSPECT, INVALID = Verdict.VALID, Verdict.SUSPECT, Verdict.INVALID


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(database_url, tmp_path / "runs") as opened:
        yield opened


def new_run(store: Store) -> str:
    trials = [
        Trial(
            number=number,
            host="h",
            gpus=GpuSet((0,)),
            port=8101,
            config=Config(tp=number),
            workloads=(CLOSED, SMALL),
            repeats=4,
        )
        for number in (1, 2)
    ]
    return store.create_run(kind=RunKind.SWEEP, model="m", hosts=["h"], trials=trials).id


def measure(
    store: Store,
    run_id: str,
    repeat: int,
    found: BenchResult | None,
    verdict: Verdict = VALID,
    *,
    trial: int = 1,
    index: int = 0,
    kind: MeasurementKind = MeasurementKind.MEASURE,
) -> None:
    key = (run_id, trial, index, repeat, kind)
    store.start_measurement(*key, seed=repeat, unit_name="u", client="h")
    store.finish_measurement(*key, result=found, verdict=verdict)


def agree(store: Store, run_id: str) -> dict[tuple[int, int], str]:
    """Compare every summary with the report's row, and return the verdicts."""
    with reading(store._engine, "look") as connection:
        there = {
            (row["trial"], row["workload_index"]): row
            for row in connection.execute(select(SUMMARIES).where(SUMMARIES.c.run_id == run_id)).mappings()
        }
    report = read_report(store, run_id)
    measured = {(row.trial.number, row.workload_index): row for row in report.rows if row.verdict is not None}
    assert set(there) == set(measured)
    for key, row in measured.items():
        assert there[key]["verdict"] == row.verdict
        assert there[key]["repeats_counted"] == row.counted
        for metric in METRICS:
            spread = row.spreads.get(metric.key)
            assert there[key][metric.key] == (spread.median if spread else None), metric.key
        spread = row.spreads.get("output_throughput")
        assert there[key]["output_throughput_min"] == (spread.minimum if spread else None)
        assert there[key]["output_throughput_max"] == (spread.maximum if spread else None)
    return {key: row["verdict"] for key, row in there.items()}


def several(store: Store) -> str:
    run_id = new_run(store)
    measure(store, run_id, 1, result(50), kind=MeasurementKind.WARMUP)
    for repeat, output in enumerate((103, 100, 107, 101), start=1):
        measure(store, run_id, repeat, result(output))
    measure(store, run_id, 1, result(900), SUSPECT, index=1)
    measure(store, run_id, 2, result(800), INVALID, index=1)
    measure(store, run_id, 3, result(850), SUSPECT, index=1)
    measure(store, run_id, 1, None, INVALID, trial=2)
    return run_id


def test_the_metrics_are_the_report_s() -> None:
    assert tuple(metric.key for metric in METRICS) == SUMMARY_METRICS


def test_a_summary_is_what_the_report_says(store: Store) -> None:
    run_id = several(store)
    assert agree(store, run_id) == {(1, 0): "valid", (1, 1): "suspect", (2, 0): "invalid"}


def test_a_p50_stands_for_a_median(store: Store) -> None:
    run_id = new_run(store)
    measure(store, run_id, 1, replace(result(100), latencies={"p50_ttft_ms": 7.5, "p99_ttft_ms": 9.0}))
    agree(store, run_id)
    with reading(store._engine, "look") as connection:
        assert connection.scalar(select(SUMMARIES.c.median_ttft_ms)) == 7.5


def test_a_repeat_that_is_done_again_takes_its_numbers_back(store: Store) -> None:
    run_id = several(store)
    key = (run_id, 1, 0, 1, MeasurementKind.MEASURE)
    store.start_measurement(*key, seed=9, unit_name="v", client="h", again=True)
    agree(store, run_id)
    store.finish_measurement(*key, result=result(500), verdict=VALID)
    agree(store, run_id)


def test_a_trial_that_moves_has_no_summary_until_it_is_measured_again(store: Store) -> None:
    run_id = several(store)
    store.begin_elsewhere(run_id, 1, host="other", gpus=GpuSet((0,)), port=8101, client="other")
    assert agree(store, run_id) == {(2, 0): "invalid"}


def test_a_run_from_an_archive_has_them_too(store: Store, tmp_path: Path) -> None:
    records = store.records(several(store))
    assert records is not None
    with open_store(f"sqlite:///{tmp_path}/second.sqlite", tmp_path / "second") as second:
        with second.adding(records, "a test"):
            pass
        assert len(agree(second, records.run_id)) == 3


def test_the_migration_makes_the_same_of_rows_that_were_there(store: Store) -> None:
    run_id = several(store)
    with reading(store._engine, "look") as connection:
        before = connection.execute(select(SUMMARIES).order_by(*SUMMARIES.primary_key)).all()
    migration = next(found for found in MIGRATIONS if found.version == 10)
    with writing(store._engine, "make them again") as connection:
        connection.execute(delete(SUMMARIES))
        for statement in migration.statements:
            if "summaries" in statement and "CREATE" not in statement:
                connection.execute(text(statement))
    with reading(store._engine, "look") as connection:
        assert connection.execute(select(SUMMARIES).order_by(*SUMMARIES.primary_key)).all() == before
    agree(store, run_id)
