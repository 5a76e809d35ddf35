"""A sweep in which much went wrong: what its report must not be misread as."""

from __future__ import annotations

import re
from dataclasses import replace

from report_rows import CLOSED, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, Failure, TrialState
from fleetbench.report.entry import Entry
from fleetbench.report.markdown import markdown
from fleetbench.report.observations import every_observation
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.results.rows import MeasurementRow, Verdict

LONG = "the KV cache of 3.2 GiB holds 26,214 tokens, and one request of 65,536 needs more than that"
IMPLIED = Failure(kind="oom", cause="less memory than tp=1 dp=1, which failed", advice="use tp=2")
LOST = Failure(kind="host-lost", cause="lab-01 did not answer for 900 s")
GPU = "NVIDIA H100 80GB HBM3"
HOSTILE = "a|b <script>alert(1)</script>\n# head \x1b[31m [x](y)"


def sweep(**changes: object) -> Report:
    """Splits of eight GPUs: two valid, one suspect, one invalid, failed, implied and not run."""

    def tried(number: int, config: Config, **more: object) -> object:
        return trial(number, config, gpu_name=GPU, **more)

    trials = [
        tried(1, Config(tp=1), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        tried(2, Config(tp=1, dp=2), state=TrialState.IMPLIED, failure=IMPLIED),
        tried(3, Config(tp=2)),
        tried(4, Config(tp=2, dp=2)),
        tried(5, Config(tp=2, units=2)),
        tried(6, Config(tp=4)),
        tried(7, Config(tp=2, pp=2), state=TrialState.FAILED, failure=Failure(kind="kv", cause=LONG)),
        tried(8, Config(tp=4, dp=2), state=TrialState.NOT_RUN, failure=LOST),
    ]
    rows = [
        *repeats(3, 1000.0, 1010.0, 990.0),
        measurement(4, 1, result(9000.0, failed=3), Verdict.INVALID, "3 of 640 requests failed"),
        measurement(5, 1, result(8000.0), Verdict.SUSPECT, "the work stood still for 12 s"),
        *repeats(6, 1500.0, 1510.0, 1490.0),
    ]
    return summarise(run(**changes), trials, rows)  # type: ignore[arg-type]


def only(report: Report, kind: str) -> EntryTable:
    """The one table of a kind."""
    (found,) = (table for table in tables_of(entries_of_run(report)) if table.kind == kind)
    return found


def sentences(entries: tuple[Entry, ...]) -> str:
    """Everything that is said."""
    return "\n".join(said.text for said in every_observation(entries))


def test_each_split_has_a_cell_and_no_number_stands_alone_that_does_not_count() -> None:
    found = only(sweep(), "matrix")
    assert found.table.columns == ("out tok/s", "dp=1", "dp=2", "units=2", "pp=2")
    assert found.table.rows == (
        ("tp=1", "failed: CUDA out of memory", "implied (1)", "·", "·"),
        (
            "tp=2",
            1000,
            "invalid: 3 of 640 requests failed",
            "8,000 suspect: the work stood still for 12 s",
            "failed (2)",
        ),
        ("tp=4", 1500, "not run: lab-01 did not answer for 900 s", "·", "·"),
    )
    assert found.notes[1:] == (f"(1) {IMPLIED.cause}", f"(2) {LONG}")
    assert "· is a split that was not planned" in found.notes[0]
    assert GPU in found.title


def test_no_number_of_what_does_not_count_is_in_a_sentence_or_a_ratio() -> None:
    entries = entries_of_run(sweep())
    said = sentences(entries)
    assert "9,000" not in said
    assert "8,000" not in said
    assert "Not ranked: 6 of 8 rows (failed: tp=1 dp=1, tp=2 dp=1 pp=2; " in said
    for word in (
        "implied: tp=1 dp=2",
        "not run: tp=4 dp=2",
        "suspect: tp=2 dp=1 units=2",
        "invalid: tp=2 dp=2",
    ):
        assert word in said
    scaling = only(sweep(), "scaling")
    assert [row[0] for row in scaling.table.rows] == ["tp=2 dp=1", "tp=4 dp=1"]
    assert scaling.notes[-1] == (
        "100 is what each of the 2 GPUs of tp=2 dp=1 gives: "
        "fewer gave nothing that counts (tp=1 dp=1 failed)."
    )
    assert "From tp=2 dp=1 (1,000 tok/s on 2 NVIDIA H100 80GB HBM3): tp=4 dp=1 gives 1.50× on 4 GPUs" in said


def test_the_text_shows_every_cell_with_its_status() -> None:
    text = markdown(sweep())
    section = text.partition(f"## Every split, {GPU}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| tp=")]
    assert len(rows) == 3
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
    words = ("valid", "suspect", "failed", "implied", "not run", "·")
    for cell in cells:
        assert re.fullmatch(r"[\d,]+", cell) or any(word in cell for word in words), cell
    assert [cell for cell in cells if re.fullmatch(r"[\d,]+", cell)] == ["1,000", "1,500"]
    assert LONG in section


def test_text_of_a_host_stays_in_its_cell_and_its_line() -> None:
    failure = Failure(kind="x", cause=HOSTILE, advice=HOSTILE)
    trials = [
        trial(1, Config(tp=1), gpu_name=HOSTILE, state=TrialState.FAILED, failure=failure),
        trial(2, Config(tp=1, dp=2), gpu_name=HOSTILE),
        trial(3, Config(tp=1, pp=2), gpu_name=HOSTILE),
        trial(4, Config(tp=2, serve_args=(HOSTILE,)), gpu_name=HOSTILE),
    ]
    rows = [*repeats(2, 10.0, 11.0), *repeats(3, 10.0, 11.0), *repeats(4, 20.0, 21.0)]
    text = markdown(summarise(run(model=HOSTILE, repo=HOSTILE), trials, rows))
    assert "\x1b" not in text
    assert "\n# head" not in text
    assert "<script>" not in re.sub(r"(`+) .*? \1", "", text).replace("\\<", "")
    assert "[x](y)" not in re.sub(r"(`+) .*? \1", "", text)
    widths = {
        len(re.findall(r"(?<!\\)\|", line))
        for line in text.partition("## Every split")[2].partition("\n## ")[0].splitlines()
        if line.startswith("|")
    }
    assert len(widths) == 1


def test_nothing_measured_and_nothing_planned_have_no_table_and_no_error() -> None:
    assert tables_of(()) == ()
    assert every_observation(()) == ()
    failed = [trial(1, Config(tp=1), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)]
    entries = entries_of_run(summarise(run(), failed, []))
    assert tables_of(entries) == ()
    assert "Nothing was measured: the only row failed (CUDA out of memory)" in sentences(entries)
    assert "Nothing was measured" in markdown(summarise(run(), failed, []))


def test_a_split_that_was_started_twice_with_two_ends_shows_both() -> None:
    trials = [
        trial(1, Config(tp=1), gpu_name=GPU),
        trial(2, Config(tp=1), gpu_name=GPU, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        trial(3, Config(dp=2), gpu_name=GPU),
        trial(4, Config(tp=2), gpu_name=GPU),
    ]
    rows = [*repeats(1, 100.0), *repeats(3, 190.0), *repeats(4, 180.0)]
    found = only(summarise(run(), trials, rows), "matrix")
    assert found.table.rows[0][1] == "100.0; failed: CUDA out of memory"


def test_two_workloads_and_two_gpus_are_matrices_of_their_own() -> None:
    other = replace(CLOSED, max_concurrency=8)
    trials = [
        replace(trial(place, config, gpu_name=gpu), workloads=(CLOSED, other))
        for place, (gpu, config) in enumerate(
            [(gpu, config) for gpu in ("A", "B") for config in (Config(), Config(dp=2), Config(tp=2))], 1
        )
    ]
    rows: list[MeasurementRow] = [
        row
        for each in trials
        for index in (0, 1)
        for row in repeats(each.number, 100.0 * each.number + index, workload_index=index)
    ]
    found = [
        table for table in tables_of(entries_of_run(summarise(run(), trials, rows))) if table.kind == "matrix"
    ]
    assert [table.title for table in found] == [
        f"Every split, {gpu}, {load.label}" for gpu in ("A", "B") for load in (CLOSED, other)
    ]
    assert found[3].table.rows == (("tp=1", 401, 501), ("tp=2", 601, "·"))
