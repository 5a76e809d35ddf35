"""The second source's observations against what is made of its rows: digit by digit, differences named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest
from imported_figures import published
from shared_material import shared

from fleetbench.report.columns import Cell
from fleetbench.report.entry import Entry
from fleetbench.report.imported import heading, imported_markdown, imported_tables
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.observations import observations, table_observations
from fleetbench.report.tables import EntryTable

REPORT, POST = "multi-gpu-report.toml", "tensor-vs-data-parallel.toml"
PRESET = r"(?:H100X[12]|gpu-(?:small|medium|large|xlarge)|mi210x[12])"
HEADINGS = "PresetPrompt TPSGen TPSAvg Latency (s)Request Generation Level TPSRequest Prompt Level TPS"
# Where the source does not follow its own tables; docs/reports.md says so, too.
ORDER_OF_ERRORS_DIFFERS = {"4.1.3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the source says under a table: preset and figure as printed, presets with errors in its order."""

    prompt: tuple[str, str]
    generation: tuple[str, str]
    errors: tuple[tuple[str, int], ...]


@cache
def source() -> str:
    return shared("sources", "multi-gpu-benchmarks-report.txt").read_text("utf-8")


@cache
def observed() -> dict[str, Observed]:
    """The source's observations of section 4, by table."""
    text = source()
    starts = [(found[1], found.start()) for found in re.finditer(r"(?:\*\*|#### )(4\.\d\.\d) ", text)]
    ends = [start for _, start in starts[1:]] + [text.index("### 5. Overview of concurrency")]
    return {number: _observed(text[start:end]) for (number, start), end in zip(starts, ends, strict=True)}


def _observed(part: str) -> Observed:
    said = part[part.index("**Observations") :]
    rates = [
        re.search(rf"Highest \*\*{rate} TPS\*\*: `({PRESET})` with ([\d.]+) tokens/s", said)
        for rate in ("Prompt", "Gen")
    ]
    errors = re.search(rf"Notable errors on: ((?:{PRESET} \(\d+ errs\)(?:, )?)+)", said)
    listed = re.findall(rf"({PRESET}) \((\d+) errs\)", errors[1] if errors else "")
    prompt, generation = ((found[1], found[2]) for found in rates if found)
    return Observed(
        prompt=prompt, generation=generation, errors=tuple((name, int(count)) for name, count in listed)
    )


@cache
def entries(name: str = REPORT) -> tuple[Entry, ...]:
    return entries_of_import(*published(name))


@cache
def tables(name: str = REPORT) -> tuple[EntryTable, ...]:
    return imported_tables(entries(name))


def table(section: str) -> EntryTable:
    """The one table of a section of the source."""
    kinds = ("strategies", "context", "concurrency")
    (found,) = (
        each for each in tables() if each.kind in kinds and f"{each.source_table} ".startswith(f"{section} ")
    )
    return found


def said(found: EntryTable, topic: str) -> list[str]:
    return [each.text for each in table_observations(found) if each.topic == topic]


def shown(cell: Cell) -> str:
    """A cell as Markdown shows it."""
    return f"{cell:,}" if isinstance(cell, int | float) else str(cell)


# ---------------------------------------------------------------- section 4


def test_the_source_has_sixteen_tables_with_observations() -> None:
    assert list(observed()) == [f"4.{length}.{model}" for length in "1234" for model in "1234"]
    assert sum(len(found.errors) for found in observed().values()) == 17
    assert [each.source_table.split()[0] for each in tables() if each.kind == "context"] == list(observed())


@pytest.mark.parametrize("section", [f"4.{length}.{model}" for length in "1234" for model in "1234"])
def test_highest_and_errors_are_those_that_the_source_names(section: str) -> None:
    theirs, found = observed()[section], table(section)
    assert said(found, "highest") == [
        f"Highest {rate} TPS, as the source ranks: {preset} with {figure} tokens/s"
        for rate, (preset, figure) in (("prompt", theirs.prompt), ("generation", theirs.generation))
    ]
    ours = [
        (name, int(count))
        for text in said(found, "errors")
        for name, count in re.findall(rf"({PRESET}) \((\d+)\)", text)
    ]
    assert sorted(ours) == sorted(theirs.errors)
    assert (ours != list(theirs.errors)) is (section in ORDER_OF_ERRORS_DIFFERS)
    assert len(said(found, "errors")) == bool(theirs.errors)


@pytest.mark.parametrize("section", [f"4.{length}.{model}" for length in "1234" for model in "1234"])
def test_each_row_is_printed_as_the_source_prints_it(section: str) -> None:
    found = table(section)
    headings = f"{HEADINGS}Errors"
    assert "".join(("Preset", *found.table.columns[2:-1])) == headings
    assert headings in source()
    lines = source().splitlines()
    for row in found.table.rows:
        assert "".join((str(row[0]), *map(shown, row[2:-1]))) in lines


# ---------------------------------------------------------------- section 3


def test_every_speed_up_is_the_source_s_to_its_digit() -> None:
    line = re.compile(rf"({PRESET})((?:\d+\.\d\d){{4}})(-?\d+\.\d)%(-?\d+\.\d)%")
    theirs = {
        found[1]: (found[2], found[3], found[4])
        for found in map(line.fullmatch, source().splitlines())
        if found
    }
    assert len(theirs) == 6
    found = table("3")
    assert "".join(("GPU Preset", *found.table.columns[2:-1])) in source()
    ours = {
        str(row[0]): ("".join(map(shown, row[2:6])), shown(row[6]), shown(row[7])) for row in found.table.rows
    }
    assert ours == theirs


def test_every_sentence_on_speed_ups_is_the_source_s() -> None:
    theirs = re.findall(
        rf"\*\*({PRESET})\*\*: \\~(-?[\d.]+)% prompt speedup, \\~(-?[\d.]+)% gen speedup", source()
    )
    assert len(theirs) == 6
    assert said(table("3"), "speed-up")[:6] == [
        f"Tensor against pipeline on {preset}: {prompt} % prompt, {generation} % generation speed-up"
        for preset, prompt, generation in theirs
    ]


def test_what_was_measured_twice_on_one_gpu_is_told_as_noise() -> None:
    (noise,) = said(table("3"), "speed-up")[6:]
    assert "H100X1, gpu-small, mi210x1" in noise
    assert "up to 3.1 %" in noise


# ---------------------------------------------------------------- section 5


def test_the_concurrency_table_is_the_source_s() -> None:
    found = table("5")
    headings = f"{HEADINGS}ConcurrencyErrors"
    assert "".join(("Preset", *found.table.columns[2:-1])) == headings
    after = source().partition(headings)[2]
    ours = ["".join((str(row[0]), *map(shown, row[2:-1]))) for row in found.table.rows]
    assert ours == re.findall(rf"^{PRESET}[\d.]+$", after, re.MULTILINE)[::-1]
    assert [row[-3] for row in found.table.rows] == [1, 10]


def test_what_concurrency_gave_and_cost_is_computed() -> None:
    (text,) = said(table("5"), "concurrency")
    assert text == (
        "H100X2, from 1 to 10 requests at a time: 5.72 times the generation TPS; "
        "a request gets 64% of its rate, latency is 1.57 times as long"
    )
    assert "request-level tokens per second (TPS) decreases as concurrency rises" in source()


# ---------------------------------------------------------------- what the verdicts object to


def test_where_another_row_leads_once_rows_with_an_objection_are_left_out() -> None:
    moved = {
        each.source_table.split()[0]: text.partition("), highest")[2]
        for each in tables()
        for text in said(each, "objections")
        if "), highest" in text
    }
    assert moved == {
        "4.1.3": " prompt TPS: gpu-xlarge with 34.27 tokens/s",
        "4.2.2": " generation TPS: gpu-medium with 531.07 tokens/s",
    }


def test_no_rank_stands_where_every_row_has_failed_requests() -> None:
    assert [
        each.source_table.split()[0]
        for each in tables()
        if any("No rank" in t for t in said(each, "objections"))
    ] == [
        "4.3.4",
        "4.4.4",
    ]


def test_each_table_of_contexts_says_what_is_held_against_its_rows() -> None:
    for each in tables():
        if each.kind == "context":
            (text,) = said(each, "objections")
            assert "eager-mode" in text or "No rank stands" in text


def test_what_holds_for_the_whole_source_is_said_once() -> None:
    texts = [each.text for each in observations(entries())]
    assert len([text for text in texts if "given once" in text]) == 1
    assert any(text.startswith("Measured in eager mode") and "all 88 rows" in text for text in texts)
    assert any("varied but not exercised (context-unused, 59 of 88 rows)" in text for text in texts)
    (stalls,) = (text for text in texts if "stalled" in text and "The work stood still" in text)
    for where in (
        "mi210x2 in 4.1.1",
        "H100X1 in 4.1.2",
        "H100X2 in 4.1.3",
        "gpu-xlarge in 4.1.4",
        "H100X2 in 4.3.1",
    ):
        assert where in stalls


def test_no_sentence_on_imported_figures_claims_that_something_is_faster() -> None:
    for name in (REPORT, POST):
        texts = [each.text for found in tables(name) for each in table_observations(found)]
        texts += [each.text for each in observations(entries(name))]
        assert not [text for text in texts if re.search(r"\bfaster\b|\bslower\b|wins\b|clear best", text)]


def test_stalled_rows_and_failed_requests_make_no_ratio() -> None:
    scaled = [entry for found in tables() if found.kind == "scaling" for entry in found.entries]
    assert scaled
    assert not [entry for entry in scaled if entry.failed]


# ---------------------------------------------------------------- the first source, and the whole text


def test_the_tensor_parallel_figures_scale_as_quoted() -> None:
    (found,) = tables(POST)
    rows = [(str(row[0]), *map(shown, row[2:5])) for row in found.table.rows]
    assert rows == [
        ("TP1", "17,349", "1.00", "100.0"),
        ("TP2", "26,266", "1.51", "75.7"),
        ("TP4", "25,804", "1.49", "37.2"),
        ("TP8", "29,226", "1.68", "21.1"),
    ]
    first, second = said(found, "scaling")
    for part in (
        "TP2 gives 1.51× on 2 GPUs (76 %",
        "TP4 gives 1.49× on 4 GPUs (37 %",
        "TP8 gives 1.68× on 8 GPUs (21 %",
    ):
        assert part in first
    assert "4 GPUs with TP4 no more than 2" in second
    assert any("only be total tokens" in note for note in found.notes)


def test_the_report_has_the_tables_in_the_order_of_the_source() -> None:
    text = imported_markdown([published(REPORT)])
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert headings[0] == "What the figures say"
    assert [line.split()[0] for line in headings[1:19]] == ["3", *observed(), "5"]
    assert headings[-1] == "Every row with its verdict"
    assert heading(table("4.1.1")) == "4.1.1 Qwen-1.5B, 2048 tokens of context"
    for each in tables():
        for sentence in table_observations(each):
            assert (
                sentence.text.replace("*", "\\*").replace("|", "\\|").replace("_", "\\_").replace("#", "\\#")
                in text
            )
