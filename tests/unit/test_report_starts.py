"""Several starts of a configuration, of which some have no valid number: tables and sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, TrialState
from fleetbench.report.entry import Entry, Status
from fleetbench.report.finding import finding
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.observations import every_observation
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.report.tables.strategies import pairs
from fleetbench.results.rows import MeasurementRow, TrialRow, Verdict

H100 = "NVIDIA H100 80GB HBM3"


def report(trials: list[TrialRow], rows: list[MeasurementRow]) -> Report:
    return summarise(run(), [replace(each, gpu_name=H100) for each in trials], rows)


def table(kind: str, found: Report) -> EntryTable:
    (only,) = (each for each in tables_of(entries_of_run(found)) if each.kind == kind)
    return only


def column(found: EntryTable, heading: str) -> list[object]:
    place = found.table.columns.index(heading)
    return [row[place] for row in found.table.rows]


def failed(number: int, config: Config) -> TrialRow:
    return trial(number, config, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)


# ---------------------------------------------------------------- tensor against pipeline


@pytest.mark.parametrize("first", [Config(tp=2), Config(pp=2)])
def test_a_start_that_failed_first_does_not_hide_the_valid_one(first: Config) -> None:
    other = Config(pp=2) if first.tp == 2 else Config(tp=2)
    found = report(
        [failed(1, first), trial(2, first), trial(3, other)],
        [*repeats(2, 2000.0, 2010.0, 1990.0), *repeats(3, 1500.0, 1510.0, 1490.0)],
    )
    shown = table("strategies", found)
    assert column(shown, "verdicts") == ["both valid"]
    values = column(shown, "Tensor (Gen TPS)") + column(shown, "Pipeline (Gen TPS)")
    assert values == ([2000, 1500] if first.tp == 2 else [1500, 2000])


def test_of_starts_without_a_valid_one_the_suspect_is_shown_before_the_failed() -> None:
    suspect = [measurement(2, 1, result(1900.0), Verdict.SUSPECT, "few waves")]
    found = report(
        [failed(1, Config(tp=2)), trial(2, Config(tp=2)), trial(3, Config(pp=2))],
        [*suspect, *repeats(3, 1500.0)],
    )
    assert column(table("strategies", found), "verdicts") == ["pipeline valid; tensor suspect: few waves"]


def test_two_pipelines_of_a_source_on_the_same_gpus_stay_two_rows() -> None:
    def row(name: str, config: Config, status: Status = Status.VALID) -> Entry:
        return Entry(source="sheet", imported=True, name=name, config=config, gpus=2, status=status)

    rows = [row("a", Config(pp=2)), row("b", Config(pp=2)), row("c", Config(tp=2))]
    ((one, two),) = pairs(rows)
    assert [one.pipeline.name, two.pipeline.name] == ["a", "b"]


# ---------------------------------------------------------------- concurrency, context lengths


def two_loads(*, second_at_64: list[MeasurementRow]) -> Report:
    """Two starts of tp=1 at c=8 and c=64; the second one's rows at c=64 are given."""
    starts = [trial(number, Config(), workloads=(SMALL, CLOSED)) for number in (1, 2)]
    rows = [*repeats(1, 200.0, 202.0, 198.0), *repeats(1, 900.0, 905.0, 895.0, workload_index=1)]
    return report(starts, [*rows, *repeats(2, 204.0, 206.0, 202.0), *second_at_64])


def test_a_ladder_of_concurrencies_outlives_a_start_that_lacks_one() -> None:
    found = two_loads(second_at_64=[])
    shown = table("concurrency", found)
    assert column(shown, "Concurrency") == [8, 64, 64]
    assert column(shown, "out tok/s") == [202, 900, None]
    assert column(shown, "verdict") == ["valid", "valid", "not measured"]
    (said,) = [each.text for each in every_observation(entries_of_run(found)) if each.topic == "concurrency"]
    assert "from 8 to 64 requests at a time: 4.46 times the generation TPS" in said


def test_from_one_concurrency_to_the_same_is_no_sentence() -> None:
    """At c=8 there are valid rows of 100 and of 640 prompts, at c=64 nothing."""
    few = replace(SMALL, num_prompts=100)
    found = report(
        [trial(1, Config(), workloads=(few, SMALL, CLOSED))],
        [*repeats(1, 190.0), *repeats(1, 200.0, workload_index=1)],
    )
    assert column(table("concurrency", found), "Concurrency") == [8, 8, 64]
    assert [each for each in every_observation(entries_of_run(found)) if each.topic == "concurrency"] == []


def test_a_load_is_named_where_a_start_changes_the_name() -> None:
    """The client held tp=1 back at c=64 only, where the second start was not measured."""
    found = two_loads(second_at_64=[])
    held = [
        replace(entry, ceiling={"binds": "client"} if entry.workload == CLOSED and entry.valid else {})
        for entry in entries_of_run(found)
    ]
    (said,) = [each.text for each in every_observation(held) if each.topic == "bound"]
    assert said.startswith("#1 tp=1 dp=1 at c=64 is held back by the bench client")


def test_the_lengths_of_a_configuration_are_one_row_whatever_its_starts_came_to() -> None:
    short, long = Config(tp=2, max_model_len=2048), Config(tp=2, max_model_len=8192)
    found = report(
        [trial(1, short), failed(2, long), trial(3, short), trial(4, long)],
        [*repeats(1, 500.0), *repeats(3, 510.0), *repeats(4, 400.0)],
    )
    shown = table("lengths", found)
    assert shown.table.rows == (("tp=2 dp=1", f"2× {H100}", 505, 400),)


# ---------------------------------------------------------------- the finding


def test_one_configuration_alone_is_no_unclear_ranking() -> None:
    assert finding(two_loads(second_at_64=[]), OUTPUT) == (
        "Best output throughput: tp=1 dp=1 alone at c=8 (202.0 tok/s); "
        "#1 tp=1 dp=1 alone at c=64 (900.0 tok/s)"
    )


def test_a_load_with_a_single_valid_row_is_not_among_those_without_a_clear_best() -> None:
    trials = [trial(number, Config(tp=number), workloads=(SMALL, CLOSED)) for number in (1, 2)]
    rows = [*repeats(1, 200.0, 202.0, 198.0), *repeats(2, 201.0, 203.0, 199.0)]
    found = report(trials, [*rows, *repeats(2, 900.0, workload_index=1)])
    assert finding(found, OUTPUT) == (
        "Best output throughput: no clear best at c=8 (201.0 tok/s); tp=2 dp=1 alone at c=64 (900.0 tok/s)"
    )
