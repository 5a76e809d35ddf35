"""Tables of own runs, from entries: the right cells, what is left out, and where there is no table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import CLOSED, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, TrialState, Workload
from fleetbench.report.entry import Entry, Status
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import summarise
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.report.tables.scaling import ladders
from fleetbench.report.tables.shown import OneDigit, Quoted, Times, section
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import Finding, MeasurementRow, TrialRow, Verdict

H100 = "NVIDIA H100 80GB HBM3"


def of_kind(kind: str, entries: tuple[Entry, ...]) -> tuple[EntryTable, ...]:
    return tuple(table for table in tables_of(entries) if table.kind == kind)


def own(trials: list[TrialRow], rows: list[MeasurementRow]) -> tuple[Entry, ...]:
    return entries_of_run(summarise(run(), trials, rows))


def foreign(name: str, output: float | None = None, **changes: object) -> Entry:
    """An imported entry with one figure."""
    values = {} if output is None else {"output_throughput": output, "gen_tps": output}
    given = Entry(
        source="sheet-1",
        imported=True,
        name=name,
        table="a sheet",
        model="org/tiny",
        gpu=H100,
        gpus=1,
        load="requests c=8",
        workload=Workload(max_concurrency=8),
        status=Status.VALID,
        values=values,
        observations={key: (Observation(value=value),) for key, value in values.items()},
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def measured(row: MeasurementRow, prompt: float, generation: float) -> MeasurementRow:
    """A measurement whose server was sampled, with a mean latency of 2 s."""
    assert row.result is not None
    latencies = {**row.result.latencies, "mean_e2el_ms": 2000.0}
    return replace(
        row,
        result=replace(row.result, latencies=latencies),
        telemetry={
            "prompt_tps": prompt,
            "generation_tps": generation,
            "request_generation_tps": 50.0,
            "request_prompt_tps": 5.0,
        },
    )


# ---------------------------------------------------------------- on a single GPU


def test_three_repeats_stand_side_by_side_with_the_warm_up() -> None:
    trials = [
        trial(1, Config(), gpu_name=H100),
        trial(2, Config(), gpu_name="NVIDIA H200"),
        trial(3, Config(tp=2)),
    ]
    rows = [*repeats(1, 1000.0, 1010.0, 990.0), *repeats(2, 1500.0, 1530.0), *repeats(3, 1800.0)]
    (found,) = of_kind("single-gpu", own(trials, rows))
    heads = (
        "model",
        "GPU",
        "configuration",
        "warm-up",
        "repeat 1",
        "repeat 2",
        "repeat 3",
        "median out tok/s",
        "±%",
    )
    assert found.table.columns == (*heads, "TTFT p50 ms", "status")
    first, second = found.table.rows
    assert first[:2] == ("org/tiny", H100)
    assert first[3:8] == (500, 1000, 1010, 990, 1000)
    assert second[3:8] == (750, 1500, 1530, None, 1515)
    assert (first[-1], second[-1]) == ("valid", "valid")
    assert "never counts" in found.notes[0]


def test_a_single_gpu_that_failed_has_a_row_with_its_cause() -> None:
    trials = [
        trial(1, Config(), gpu_name=H100, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        trial(2, Config(), gpu_name="NVIDIA H200"),
    ]
    (found,) = of_kind("single-gpu", own(trials, repeats(2, 1500.0, 1530.0)))
    assert found.table.rows[0][-1] == "failed: CUDA out of memory"
    assert set(found.table.rows[0][3:-1]) == {None}


def test_devices_without_a_name_are_not_called_gpus() -> None:
    rows = [*repeats(1, 100.0, 101.0, 99.0), *repeats(2, 150.0, 151.0, 149.0)]
    entries = own([trial(1, Config()), trial(2, Config(tp=2))], rows)
    texts = [
        text
        for table in tables_of(entries)
        for text in (table.title, *table.table.columns, *table.notes, *map(str, sum(table.table.rows, ())))
    ]
    assert not [text for text in texts if "GPU" in text]
    assert "On a single device" in texts


def test_rows_of_one_imported_table_with_one_name_are_repeats_of_it() -> None:
    entries = tuple(foreign("gemma", value) for value in (90.0, 100.0, 101.0))
    (found,) = of_kind("single-gpu", entries)
    assert found.table.columns[3:7] == ("repeat 1", "repeat 2", "repeat 3", "median out tok/s")
    assert found.table.rows[0][3:7] == (90, 100, 101, 100)
    assert of_kind("single-gpu", entries[:1]) == ()


def test_repeats_of_a_source_stand_as_its_worst_one_does() -> None:
    stalled = Finding(rule="stalled", verdict=Verdict.SUSPECT, text="stood still")
    bad = foreign("gemma", 9.0, status=Status.SUSPECT, findings=(stalled,))
    (found,) = of_kind("single-gpu", (foreign("gemma", 90.0), bad))
    assert found.table.rows[0][-1] == "suspect: stalled"


# ---------------------------------------------------------------- tensor against pipeline


def test_tensor_against_pipeline_pairs_the_same_gpus_and_nothing_else() -> None:
    trials = [
        trial(1, Config(tp=2), gpu_name=H100),
        trial(2, Config(pp=2), gpu_name=H100),
        trial(3, Config(tp=4), gpu_name=H100),
        trial(4, Config(tp=2, pp=2), gpu_name=H100),
        trial(5, Config(tp=2, max_model_len=8192), gpu_name=H100),
    ]
    rows = [
        row
        for number in range(1, 6)
        for row in repeats(number, 1000.0 + number, 1010.0 + number, 990.0 + number)
    ]
    rows += repeats(2, 800.0, 808.0, 792.0)
    rows = [
        row
        for row in rows
        if not (row.trial == 2 and row.result and (row.result.output_throughput or 0) > 900)
    ]
    (found,) = of_kind("strategies", own(trials, rows))
    assert found.table.columns == (
        *("GPUs", "Pipeline (Gen TPS)", "Tensor (Gen TPS)", "Gen Speedup (%)"),
        *("tensor against pipeline", "verdicts"),
    )
    (row,) = found.table.rows
    assert row[:3] == (f"2× {H100}", 800, 1001)
    assert f"{row[3]:,}" == "25.1"
    assert str(row[4]).startswith("faster by ")
    assert row[5] == "both valid"


def test_a_pair_of_which_one_failed_has_no_speed_up_and_says_why() -> None:
    trials = [
        trial(1, Config(tp=2)),
        trial(2, Config(pp=2), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        trial(3, Config(tp=4)),
        trial(4, Config(pp=4)),
    ]
    rows = [
        *repeats(1, 1000.0),
        measurement(3, 1, result(2000.0), Verdict.VALID),
        measurement(4, 1, result(9000.0), Verdict.INVALID, "3 of 640 requests failed"),
    ]
    (found,) = of_kind("strategies", own(trials, rows))
    assert found.table.columns == ("devices", "Tensor (Gen TPS)", "verdicts")
    assert [row[-1] for row in found.table.rows] == [
        "pipeline failed: CUDA out of memory; tensor valid",
        "pipeline invalid: 3 of 640 requests failed; tensor valid",
    ]


def test_no_pipeline_no_table() -> None:
    assert of_kind("strategies", own([trial(1, Config(tp=2))], repeats(1, 10.0))) == ()


# ---------------------------------------------------------------- context lengths, concurrency


def test_each_context_length_has_the_second_source_s_measures() -> None:
    trials = [
        trial(1, Config(tp=2, max_model_len=2048), gpu_name=H100),
        trial(2, Config(tp=2, max_model_len=8192), gpu_name=H100),
        trial(3, Config(pp=2, max_model_len=8192), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
    ]
    rows = [measured(row, 40.5, 500.25) for row in repeats(1, 500.0, 510.0)[1:]]
    rows += [measured(row, 30.5, 400.25) for row in repeats(2, 400.0, 410.0)[1:]]
    first, second = of_kind("context", own(trials, rows))
    assert first.title == "2,048 tokens of context"
    assert second.table.columns == (
        *("configuration", "GPUs", "Prompt TPS", "Gen TPS", "out tok/s", "Avg Latency (s)"),
        *("Request Generation Level TPS", "Request Prompt Level TPS", "Errors", "verdict"),
    )
    valid, failed = second.table.rows
    assert valid[2:] == (30.5, 400.25, 405, 2, 50, 5, 0, "valid")
    assert failed[2:] == (None,) * 7 + ("failed: CUDA out of memory",)
    (lengths,) = of_kind("lengths", own(trials, rows))
    assert lengths.table.columns[2:] == ("2,048", "8,192")
    assert [row[2:] for row in lengths.table.rows] == [(505, 405), ("·", "failed")]


def test_without_samples_there_is_no_table_of_measures() -> None:
    trials = [trial(1, Config(max_model_len=2048))]
    assert of_kind("context", own(trials, repeats(1, 10.0))) == ()


def test_concurrency_is_a_ladder_of_each_configuration() -> None:
    loads = tuple(Workload(num_prompts=10 * c, max_concurrency=c) for c in (64, 8))
    trials = [replace(trial(1, Config(), gpu_name=H100), workloads=loads), trial(2, Config(tp=2))]
    rows = [*repeats(1, 900.0), *repeats(1, 200.0, workload_index=1), *repeats(2, 50.0)]
    (found,) = of_kind("concurrency", own(trials, rows))
    place = found.table.columns.index("Concurrency")
    assert [(row[0], row[2], row[place]) for row in found.table.rows] == [
        ("tp=1 dp=1", 200, 8),
        ("tp=1 dp=1", 900, 64),
    ]
    assert "TTFT p50 ms" in found.table.columns


# ---------------------------------------------------------------- scaling


def test_scaling_is_against_the_fewest_gpus_of_the_same_kind() -> None:
    trials = [
        trial(1, Config(), gpu_name=H100),
        trial(2, Config(tp=2), gpu_name=H100),
        trial(3, Config(dp=2), gpu_name=H100),
        trial(4, Config(tp=2), gpu_name="NVIDIA H200"),
    ]
    rows = [
        row
        for number, output in enumerate((1000.0, 1510.0, 1900.0, 5000.0), 1)
        for row in repeats(number, output)
    ]
    (found,) = of_kind("scaling", own(trials, rows))
    assert [(row[0], *(f"{cell:,}" for cell in row[3:5])) for row in found.table.rows] == [  # type: ignore[str-bytes-safe]
        ("tp=1 dp=1", "1.00", "100.0"),
        ("#2 tp=2 dp=1", "1.51", "75.5"),
        ("tp=1 dp=2", "1.90", "95.0"),
    ]


def test_a_stalled_import_is_no_base_and_a_misread_column_is_one_among_its_like() -> None:
    stalled = Finding(rule="stalled", verdict=Verdict.SUSPECT, text="stood still")
    total = Finding(
        rule="concurrency-exceeded", verdict=Verdict.INVALID, text="", numbers={"in_flight_as_total": 9.0}
    )
    failing = Finding(rule="failed-requests", verdict=Verdict.INVALID, text="", numbers={"failed": 9.0})
    one, two = foreign("one", 100.0), foreign("two", 150.0, gpus=2)
    assert len(ladders((one, two))) == 1
    for finding in (stalled, failing):
        assert ladders((replace(one, findings=(finding,)), two)) == ()
    ((_, step),) = ladders((replace(one, status=Status.INVALID, findings=(total,)), two))
    assert (step.speed_up, step.efficiency_percent) == (1.5, 75)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_no_throughput_is_no_base(value: float) -> None:
    assert ladders((foreign("one", value), foreign("two", 150.0, gpus=2))) == ()
    assert ladders((foreign("one", None), foreign("two", 150.0, gpus=None))) == ()


# ---------------------------------------------------------------- cells


def test_a_quoted_number_keeps_the_digits_of_its_source() -> None:
    assert [f"{Quoted(value):,}" for value in (676.1, 10.2027, 5.0, 17349.0, 1234.5)] == [
        *("676.10", "10.2027", "5.00", "17,349", "1,234.50"),
    ]
    assert [f"{OneDigit(value):,}" for value in (-0.04, -0.609, 25.93, 1234.0)] == [
        "0.0",
        "-0.6",
        "25.9",
        "1,234.0",
    ]
    assert f"{Times(1.514):,}" == "1.51"


def test_the_section_of_a_table_is_its_number() -> None:
    titles = ("4.1.1 Qwen, 2048", "3 pipeline", "8xH100 and more", "a sheet", "")
    assert [section(foreign("x", table=title)) for title in titles] == [
        "4.1.1",
        "3",
        "8xH100 and more",
        "a sheet",
        "",
    ]


@given(
    st.lists(
        st.builds(
            foreign,
            st.text(max_size=20),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            table=st.sampled_from(("", "1 a", "1 b", "sheet")),
            gpus=st.none() | st.integers(0, 16),
            config=st.builds(
                Config, tp=st.sampled_from((1, 2)), pp=st.sampled_from((1, 2)), dp=st.sampled_from((1, 2))
            ),
            status=st.sampled_from((Status.VALID, Status.SUSPECT, Status.INVALID)),
        ),
        max_size=8,
    )
)
def test_whatever_is_imported_makes_tables_of_one_width(entries: list[Entry]) -> None:
    for table in tables_of(entries):
        assert {len(row) for row in table.table.rows} <= {len(table.table.columns)}
        assert table.entries


def test_the_load_decides_which_entries_are_of_one_matrix() -> None:
    trials = [
        replace(trial(1, Config()), workloads=(CLOSED,)),
        trial(2, Config(dp=2)),
        trial(3, Config(tp=2)),
    ]
    rows = [*repeats(1, 1.0), *repeats(2, 2.0), *repeats(3, 3.0)]
    (found,) = of_kind("matrix", own(trials, rows))
    assert [row[0] for row in found.table.rows] == ["tp=1", "tp=2"]
    assert of_kind("matrix", own(trials[:2], rows)) == ()
