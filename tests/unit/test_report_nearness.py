"""What a report says of ceilings: columns, a table of its own, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace

from report_rows import measurement, result, run, trial

from fleetbench.model import Config
from fleetbench.report.columns import measurement_table, summary_table
from fleetbench.report.markdown import markdown
from fleetbench.report.nearness import KEYS, column
from fleetbench.report.summary import Report, summarise
from fleetbench.report.terminal import nearness_table, terminal_table
from fleetbench.results.rows import Json, MeasurementRow


def near(percent: float, binds: str = "bandwidth", **more: Json) -> dict[str, Json]:
    return {
        "of_ceiling_percent": percent,
        "of_strict_percent": percent / 2,
        "decode_percent": percent - 5,
        "prefill_percent": 3.25,
        "binds": binds,
        "why": "62% of the serial estimate; a request takes its engine reading 90.0 ms",
        "gpu": "NVIDIA H200",
        **more,
    }


def report(*ceilings: dict[str, Json]) -> Report:
    rows: list[MeasurementRow] = [
        replace(measurement(1, repeat, result(1000.0 + repeat)), ceiling=ceiling)
        for repeat, ceiling in enumerate(ceilings, 1)
    ]
    return summarise(run(), [trial(1, Config())], rows)


def test_a_row_shows_the_median_of_its_repeats_and_what_binds() -> None:
    shown = terminal_table(report(near(60), near(62.34), near(70))).objects()[0]
    assert (shown["of ceiling %"], shown["binds"]) == (62.3, "bandwidth")
    assert list(shown).index("of ceiling %") < list(shown).index("total tok/s")


def test_repeats_that_were_held_back_by_different_things_name_both() -> None:
    shown = terminal_table(report(near(60), near(20, "kv-room"), near(61))).objects()[0]
    assert shown["binds"] == "bandwidth; kv-room"


def test_the_wide_tables_have_every_key_under_a_name_that_says_what_it_is() -> None:
    made = report(near(60), near(62), near(64))
    summary, single = summary_table(made).objects()[0], measurement_table(made).objects()[0]
    for key in KEYS:
        assert column(key) in summary
        assert column(key) in single
    assert (summary["of_ceiling_percent"], single["of_ceiling_percent"]) == (62, 60)
    assert (summary["ceiling_binds"], summary["ceiling_gpu"]) == ("bandwidth", "NVIDIA H200")
    assert summary["strict_output_tps"] is None


def test_the_text_has_a_table_with_the_reason() -> None:
    text = markdown(report(near(60), near(62), near(64)))
    part = text.partition("## How near it came to what the hardware can do")[2].partition("\n## ")[0]
    assert "reading 90.0 ms" in part
    assert "| 62" in part


def test_repeats_that_differ_by_noise_have_one_reason_and_different_ones_each_theirs() -> None:
    made = report(
        near(60, why="62% of the serial estimate"),
        near(61, why="63% of the serial estimate"),
        near(20, "kv-room", why="the KV cache was 99% full"),
    )
    assert nearness_table(made).rows[0][-1] == "62% of the serial estimate; the KV cache was 99% full"


def test_without_a_ceiling_nothing_is_shown() -> None:
    made = report({}, {}, {})
    assert "binds" not in terminal_table(made).columns
    assert nearness_table(made).rows == ()
    assert "How near it came" not in markdown(made)


def test_what_a_store_from_elsewhere_holds_breaks_no_report() -> None:
    made = report(near(60, of_ceiling_percent=10**400, why="a\n\x1b[31m| b"), {"binds": 7}, {"gpu": None})
    shown = terminal_table(made).objects()[0]
    assert shown["binds"] == "bandwidth"
    text = markdown(made)
    assert "\x1b" not in text
