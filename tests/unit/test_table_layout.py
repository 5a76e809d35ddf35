"""A table on a terminal of any width: no number, no id and no other word is broken."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbench import console
from fleetbench.report.terminal import Marked, Uncertain

WIDTHS = (80, 100, 120)
RUN = "20261201-112006-qwen3-coder-30b-924d"
CAUSE = " ".join(f"word{number}" for number in range(60))
REPORT = (
    *("configuration", "workload", "status", "out tok/s", "95 % interval", "±%", "steady", "warm-up"),
    *("of ceiling %", "binds", "total tok/s", "req/s", "TTFT p50 ms", "TTFT p99 ms", "TPOT p50 ms"),
)
ROWS = [
    (
        *("tp=1 dp=1 len=8192", f"random 128/128 n=640 c={c}", "valid 3/3", tokens, "11,986–12,487", 10.7),
        *(None, 684.69, 43.0, "client; bandwidth", 24_563, 95.95, 228.44, late, 5.94),
    )
    for c, tokens, late in ((1, 8281, Uncertain(30.56)), (64, 12_281, 503.84), (128, 9_123, Marked(985.37)))
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(width: int, *table: object, **more: object) -> list[str]:
    """What `print_table` writes on a terminal of that width, without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", screen := Terminal())
        console.print_table(*table, **more)  # type: ignore[arg-type]
    return re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue()).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_s_numbers_are_whole_and_all_there(width: int) -> None:
    lines = printed(width, REPORT, ROWS)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for number in ("8,281", "12,281", "9,123", "24,563", "(30.56)", "503.84", "11,986–12,487", "128/128"):
        assert number in words, number
    assert any("985.37 ?" in line for line in lines)
    for heading in " ".join(REPORT).split():
        assert heading in words, heading


@pytest.mark.parametrize("width", WIDTHS)
def test_a_list_of_runs_leaves_out_what_it_can_spare_and_says_so(width: int) -> None:
    columns = ("run", "kind", "state", "model", "trials", "started", "ended", "note")
    rows = [(RUN, "sweep", "interrupted", "qwen3-coder-30b", 5, "2026-12-01T11:20:06Z", None, CAUSE)]
    spare = ("ended", "started", "kind", "model", "note")
    lines = printed(width, columns, rows, spare=spare)
    assert max(map(len, lines)) <= width
    assert sum(line.startswith(RUN) for line in lines) == 1  # whole, and in one panel
    left_out = re.fullmatch(r"(\d) columns? ha(?:s|ve) no room here: (.+)", lines[-1])
    assert left_out is not None
    names = left_out[2].split(", ")
    assert set(names) == set(spare[: int(left_out[1])])
    assert not set(names) & set(lines[0].split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_cause_is_shortened_to_a_few_lines_of_words(width: int) -> None:
    columns = ("trial", "host", "configuration", "gpus", "state", "ready_s", "measurements", "cause")
    rows = [(1, "gpu-01", "tp=1 dp=1 len=8192", "gpu0", "failed", 1.63, 16, CAUSE)]
    lines = printed(width, columns, rows)
    assert max(map(len, lines)) <= width
    assert len(lines) < 14
    shown = " ".join(lines)
    assert "…" in shown
    assert set(re.findall(r"word\d+", shown)) <= set(CAUSE.split())
    assert "word10" in shown


def test_each_further_panel_begins_with_what_tells_the_rows_apart() -> None:
    lines = printed(80, REPORT, ROWS)
    headings = [line for line in lines if line.startswith("configuration")]
    assert len(headings) > 1
    assert all(heading.split()[:2] == ["configuration", "workload"] for heading in headings)
    name = "a-name-of-a-model-that-is-rather-long"
    for other, times in (("b" * 40, 4), ("b" * 64, 2)):  # 64 digits of a hash have a panel for themselves
        lines = printed(80, ("x", "n", "y"), [(name, 1, other), (name, 2, other)])
        assert sum(name in line for line in lines) == times
        assert sum(other in line for line in lines) == 2


def test_a_pipe_has_room_for_everything(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("a", "b"), [(CAUSE, RUN * 20)], spare=("b",))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert CAUSE in lines[1]
    assert RUN * 20 in lines[1]


def test_numbers_of_a_column_are_written_alike() -> None:
    words = " ".join(printed(80, ("tok/s", "port"), [(8281, 8001), (12_281, 8002)])).split()
    assert words == ["tok/s", "port", "8,281", "8001", "12,281", "8002"]


CELLS = st.one_of(
    st.none(),
    st.integers(-(10**12), 10**12),
    st.floats(-1e9, 1e9),
    st.lists(st.text("abc/=-05…漢\x1b", max_size=30), max_size=12).map(" ".join),
)


@settings(max_examples=100, deadline=None)
@given(
    width=st.sampled_from((*WIDTHS, 40)),
    rows=st.integers(1, 9).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=4)),
)
def test_no_table_is_wider_than_its_terminal_or_breaks_a_number(
    width: int, rows: list[tuple[object, ...]]
) -> None:
    from rich.cells import cell_len

    columns = [f"column {number}" for number in range(len(rows[0]))]
    lines = printed(width, columns, rows, spare=("column 3",))
    assert max(map(cell_len, lines)) <= width
    words = set(" ".join(lines).split())
    gone = 3 if "no room here: column 3" in lines[-1] else None
    for row in rows:
        for place, cell in enumerate(row):
            if isinstance(cell, int | float) and place != gone:
                assert f"{cell:,.2f}" in words or f"{cell:,}" in words or str(cell) in words
