"""Charts: the right values and sentences in their specifications, and nothing left out."""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import altair
import pytest
import vl_convert
from chart_runs import eight_gpus
from imported_figures import published
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial
from sampled_run import GPU_HEAD, RAMP, clock, exposition, gpu, metrics, packed
from sampled_run import result as sampled_result
from test_report_files import HOSTILE, example, hostile

from fleetbench.drawing.smaller import smaller
from fleetbench.drawing.vega import png_of, svg_of
from fleetbench.model import Config, TrialState
from fleetbench.report.charts import Chart, charts_of_entries
from fleetbench.report.charts.placement import Box, apart, placed
from fleetbench.report.charts.series import series_chart
from fleetbench.report.charts.written import LIST, write_charts
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import Verdict
from fleetbench.telemetry.samples import GPUS, HOST, METRICS
from fleetbench.telemetry.summary import RESULT


def png_size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def by_key(report: Report) -> dict[str, Chart]:
    return {chart.key: chart for chart in charts_of_entries(entries_of_run(report))}


def all_values(specification: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every row of every layer."""
    for rows in specification["datasets"].values():
        yield from rows


def drawn_values(report: Report, key: str = "output-throughput") -> list[dict[str, Any]]:
    """What a chart draws, each once."""
    found: list[dict[str, Any]] = []
    for value in all_values(by_key(report)[key].specification):
        if value not in found:
            found.append(value)
    return found


def test_each_metric_with_a_valid_number_has_a_chart_that_can_be_read_at_800_pixels() -> None:
    unnamed = example()
    named = tuple(replace(one, gpu_name="NVIDIA H200") for one in unnamed.trials)
    drawn = by_key(summarise(unnamed.run, named, unnamed.measurements))
    assert set(by_key(unnamed)) == set(drawn) - {"throughput-against-speed"}  # which is one of GPUs
    assert set(drawn) == {
        "splits",
        "scaling",
        "throughput-against-speed",
        "output-throughput",
        "total-token-throughput",
        "request-throughput",
        "median-ttft-ms",
        "p99-ttft-ms",
        "median-tpot-ms",
        "p99-tpot-ms",
    }
    width, height = png_size(png_of(drawn["output-throughput"].specification))
    assert 1400 <= width <= 1700
    assert 300 <= height <= 1200
    assert drawn["output-throughput"].finding.startswith("tp=1 dp=2 has the highest output throughput")
    assert "tp=4 dp=1 failed: CUDA out of memory" in drawn["output-throughput"].alt


def test_a_bar_chart_draws_medians_repeats_and_the_failed_trial_as_a_labelled_gap() -> None:
    values = drawn_values(example())
    bars = [value for value in values if "low" in value]
    assert [(bar["label"], bar["value"], bar["low"], bar["high"], bar["best"]) for bar in bars] == [
        ("tp=1 dp=1", 101, 100, 102, False),
        ("tp=1 dp=2", 192, 190, 195, True),
    ]
    dots = [value["value"] for value in values if set(value) == {"label", "value"}]
    assert sorted(dots) == [100, 101, 102, 190, 192, 195]
    (gap,) = [value for value in values if value.get("status") == "failed"]
    assert (gap["label"], gap["text"]) == ("tp=4 dp=1", "failed: CUDA out of memory")
    assert gap["cause"] == "CUDA out of memory"


def test_a_suspect_bar_is_hollow_and_says_why_and_is_never_the_best() -> None:
    rows = [
        *repeats(1, 100, 101),
        measurement(2, 1, result(900), Verdict.SUSPECT, "5.0 waves of 64 requests"),
    ]
    report = summarise(run(), [trial(1, Config()), trial(2, Config(tp=2), repeats=1)], rows)
    values = [value for value in drawn_values(report) if value.get("label") == "tp=2 dp=1"]
    assert [value["text"] for value in values] == ["900.0", "suspect: 5.0 waves of 64 requests"]
    assert (values[0]["suspect"], values[0]["best"]) == (True, False)
    assert "tp=2" not in by_key(report)["output-throughput"].finding
    assert "1 suspect" in json.dumps(by_key(report)["output-throughput"].specification)


def test_an_invalid_number_is_not_drawn() -> None:
    rows = [*repeats(1, 100, 101), measurement(2, 1, result(900), Verdict.INVALID, "all requests failed")]
    report = summarise(run(), [trial(1, Config()), trial(2, Config(tp=2), repeats=1)], rows)
    values = drawn_values(report)
    assert not [value for value in values if value.get("value") == 900]
    assert "invalid: all requests failed" in [value.get("text") for value in values]


def test_long_configurations_stay_apart_on_the_axis() -> None:
    same = " ".join(["--a-rather-long-argument"] * 6)
    trials = [trial(number, Config(serve_args=(same, f"--last={number}"))) for number in (1, 2)]
    report = summarise(run(), trials, [*repeats(1, 100), *repeats(2, 200)])
    bars = [value["label"] for value in drawn_values(report) if "low" in value]
    assert len(set(bars)) == 2


def test_hostile_names_are_drawn_as_text() -> None:
    drawn = by_key(hostile())
    assert drawn
    for chart in drawn.values():
        svg = svg_of(chart.specification)
        assert b"<script" not in svg
        assert not any(ord(character) < 32 for character in chart.alt + chart.finding)
    assert HOSTILE not in json.dumps(chart.specification)


def test_sixty_configurations_are_two_charts_that_say_so_and_leave_none_out() -> None:
    trials = [trial(n, Config(max_model_len=n)) for n in range(1, 61)]
    report = summarise(run(), trials, [row for n in range(1, 61) for row in repeats(n, 100 + n, 101 + n)])
    drawn = by_key(report)
    first, second = (drawn[key].specification for key in ("output-throughput", "output-throughput-2"))
    assert "Part 1 of 2." in first["title"]["subtitle"]
    labels = [
        {str(value["label"]) for value in all_values(page) if "low" in value} for page in (first, second)
    ]
    assert [len(page) for page in labels] == [32, 28]
    assert len(labels[0] | labels[1]) == 60
    assert png_size(png_of(first))[1] < 4000


def test_a_single_row_has_one_bar_chart() -> None:
    alone = summarise(run(), [trial(1, Config())], repeats(1, 100, 102, 101))
    assert [key for key in by_key(alone) if key.endswith(("throughput", "-ms"))] == ["output-throughput"]


def test_a_failed_trial_alone_has_no_bar_chart() -> None:
    failed = [trial(1, Config(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)]
    assert not by_key(summarise(run(), failed, []))


def test_two_loads_are_two_panels() -> None:
    trials = [
        trial(1, Config(), workloads=(CLOSED, SMALL)),
        trial(2, Config(tp=2), workloads=(CLOSED, SMALL)),
    ]
    rows = [row for n in (1, 2) for index in (0, 1) for row in repeats(n, 100 * n, workload_index=index)]
    chart = by_key(summarise(run(), trials, rows))["output-throughput"]
    titles = [panel["title"]["text"] for panel in chart.specification["vconcat"]]
    assert titles == [CLOSED.label, SMALL.label]


def test_the_list_of_charts_has_alternative_text_and_specifications(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text(
        json.dumps([{"files": ["gone.png", "../outside.png", 7]}, {"files": 3}, "x"])
    )
    (tmp_path / "gone.png").write_text("of an earlier report")
    written = write_charts(by_key(example()).values(), tmp_path)
    listed = json.loads((tmp_path / LIST).read_text())
    assert [entry["files"] for entry in listed] == [[each.png.name, each.svg.name] for each in written]
    assert all(entry["alt"] and entry["specification"]["$schema"] for entry in listed)
    assert not (tmp_path / "gone.png").exists()
    assert write_charts([], tmp_path) == ()
    assert not list(tmp_path.iterdir())


def test_every_specification_fits_the_schema_of_vega_lite() -> None:
    source, rows = published("multi-gpu-report.toml")
    several = [*entries_of_run(eight_gpus((1, 64, 1024))), *entries_of_import(source, rows)]
    limits = {"p99_ttft_ms": 2000.0, "p95_e2el_ms": 30_000.0}
    seen = set()
    for chart in charts_of_entries(several, slo=limits):
        kind = chart.key.partition("-")[0]
        if kind not in seen:
            seen.add(kind)
            altair.Chart.from_dict(dict(chart.specification), validate=True)
    assert {"splits", "scaling", "throughput", "concurrency", "context", "roofline", "output"} <= seen


def test_keys_are_unique_and_safe_as_names_of_files() -> None:
    source, rows = published("multi-gpu-report.toml")
    several = [*entries_of_import(source, rows), *entries_of_run(hostile())]
    keys = [chart.key for chart in charts_of_entries(several)]
    assert len(keys) == len(set(keys))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,150}", key) for key in keys)


def test_the_map_of_splits_has_a_cell_for_each_split_and_says_what_failed() -> None:
    chart = by_key(eight_gpus((64,)))["splits"]
    cells = {(cell["row"], cell["column"]): cell for cell in all_values(chart.specification)}
    assert len(cells) == 13
    assert cells["tp=2", "dp=4"]["text"].replace("\n", " ").startswith("failed: a worker of tensor rank 3")
    assert (cells["tp=2", "dp=4"]["kind"], cells["tp=2", "dp=4"]["status"]) == ("gap", "failed")
    assert cells["tp=2 pp=4", "dp=1"]["text"].replace("\n", " ").startswith("implied: trial 6")
    assert cells["tp=1", "units=8"]["kind"] == "suspect"
    assert cells["tp=1", "units=8"]["text"].split("\n")[1].startswith("suspect:")
    best = [cell for cell in cells.values() if cell["kind"] == "number" and cell["edge_px"]]
    assert [(cell["row"], cell["column"]) for cell in best] == [("tp=8", "dp=1")]
    assert chart.finding.startswith("tp=8 dp=1 has the highest output throughput")
    assert "2 failed, 1 implied" in " ".join(chart.specification["title"]["subtitle"])


def test_the_black_line_joins_only_valid_points_that_none_beats() -> None:
    report = eight_gpus((1, 64, 1024))
    chart = by_key(report)["throughput-against-speed"]
    edge = [(row["user"], row["gpu"]) for row in all_values(chart.specification) if "place" in row]
    points = [row for row in all_values(chart.specification) if "status" in row]
    valid = [(row["user"], row["gpu"]) for row in points if row["status"] == "valid"]
    assert edge == sorted(edge, reverse=True)
    for user, per_gpu in edge:
        assert not [other for other in valid if other[0] > user and other[1] > per_gpu]
    assert [(row["name"], row["hollow"]) for row in points if row["status"] == "suspect"] == [
        ("tp=1 dp=1 units=8", True)
    ]
    subtitle = " ".join(chart.specification["title"]["subtitle"])
    assert "tp=2 dp=4: failed: a worker of tensor rank 3 died (SIGSEGV in NCCL) (3 loads)" in subtitle


def test_curves_have_the_line_of_the_slo_and_a_strip_of_what_has_no_number() -> None:
    report = eight_gpus((1, 64, 1024))
    drawn = {
        chart.key: chart for chart in charts_of_entries(entries_of_run(report), slo={"p99_ttft_ms": 2000.0})
    }
    chart = drawn["concurrency"]
    assert chart.finding == (
        "Most measured within p99 time to first token ≤ 2,000 ms: tp=2 dp=1 units=4 at c=1024, 45,701 tok/s"
    )
    values = list(all_values(chart.specification))
    assert {"value": 2000.0, "text": "SLO 2,000 ms"} in values
    strip = {(row["row"], row["place"], row["status"]) for row in values if "shape" in row}
    assert ("tp=2 dp=4", 64.0, "failed") in strip
    assert ("tp=2 dp=1 pp=4", 1.0, "implied") in strip
    assert ("tp=1 dp=1 units=8", 1024.0, "suspect") in strip
    ticks = [
        layer["encoding"]["x"]["axis"]["values"]
        for layer in chart.specification["vconcat"][0]["layer"]
        if "axis" in layer["encoding"].get("x", {})
    ]
    assert ticks[0] == [1.0, 64.0, 1024.0]
    lines = [row for row in values if set(row) == {"line", "dash", "place", "value"}]
    assert not [row for row in lines if row["line"] == "tp=1 dp=1 units=8" and row["place"] == 1024.0]
    assert "1 more" not in chart.finding


def test_of_more_lines_than_colours_the_highest_are_drawn_and_the_others_named() -> None:
    text = " ".join(by_key(eight_gpus((1, 64)))["concurrency"].specification["title"]["subtitle"])
    assert "The 8 highest are drawn; in the tables only: tp=1 dp=2, tp=1 dp=1." in text


def test_scaling_is_told_against_the_ideal_with_its_interval() -> None:
    report = eight_gpus((1024,))
    chart = by_key(report)["scaling"]
    outputs = {entry.name: entry.values.get("output_throughput", 0) for entry in entries_of_run(report)}
    rows = [row for row in all_values(chart.specification) if "times" in row]
    last = {row["name"]: row for row in rows if row["gpu_count"] == 8}
    assert last["tp=8 dp=1"]["line"] == "tensor (tp)"
    assert last["tp=8 dp=1"]["speedup"] == pytest.approx(outputs["tp=8 dp=1"] / outputs["tp=1 dp=1"])
    assert last["tp=8 dp=1"]["low"] < last["tp=8 dp=1"]["speedup"] < last["tp=8 dp=1"]["high"]
    assert last["tp=1 dp=1 units=8"]["hollow"] is True
    assert chart.finding == (
        "8 GPUs give 5.6 times the output throughput of 1 (70 % of ideal) as tp=2 dp=1 units=4; "
        "as tp=1 dp=8 5.2, as tp=8 dp=1 4.6"
    )


def test_scaling_starts_where_the_table_does_and_says_it_of_devices_without_a_name() -> None:
    """The quoted column can only be total tokens: its first row is invalid, and the base all the same."""
    source, rows = published("tensor-vs-data-parallel.toml")
    (chart,) = [c for c in charts_of_entries(entries_of_import(source, rows)) if c.key == "scaling"]
    assert chart.finding == (
        "Suspect figures only: 8 GPUs give 1.7 times the output throughput of 1 (21 % of ideal) as TP8"
    )
    base = next(row for row in all_values(chart.specification) if row.get("name") == "TP1")
    assert (base["speedup"], base["hollow"], base["status"]) == (1.0, True, "invalid")
    trials = [trial(1, Config()), trial(2, Config(units=2)), trial(3, Config(dp=2))]
    outputs = (*repeats(1, 1000, 1000), *repeats(2, 142, 142), *repeats(3, 96, 96))
    text = by_key(summarise(run(), trials, outputs))["scaling"]
    assert text.finding == (
        "2 devices give 0.14 times the output throughput of 1 (7 % of ideal) as tp=1 dp=1 units=2; "
        "as tp=1 dp=2 0.096"
    )
    assert "GPU" not in json.dumps(text.specification)


def test_the_roofline_says_in_words_what_holds_a_row_back() -> None:
    chart = by_key(eight_gpus((64,)))["roofline"]
    bars = {row["name"]: row for row in all_values(chart.specification) if "share" in row}
    assert bars["tp=8 dp=1"]["binds"] == "the link between GPUs"
    assert bars["tp=1 dp=1"]["text"].startswith("Held back by arithmetic: 61 % of the serial estimate")
    gaps = [row["name"] for row in all_values(chart.specification) if row.get("status") == "failed"]
    assert gaps == ["tp=2 dp=4", "tp=4 dp=2"]


def test_figures_of_others_that_are_all_suspect_are_drawn_hollow_and_called_so() -> None:
    drawn = {
        chart.key: chart
        for chart in charts_of_entries(entries_of_import(*published("multi-gpu-report.toml")))
    }
    chart = drawn["output-throughput-llama-3-1-8b-instruct"]
    assert chart.finding.startswith("Suspect figures only: highest output throughput 503.9 tok/s, gpu-medium")
    bars = [row for row in all_values(chart.specification) if "low" in row]
    assert {bar["status"] for bar in bars} == {"suspect"}
    assert not any(bar["best"] for bar in bars)
    texts = [row["text"] for row in all_values(chart.specification) if row.get("status") == "invalid"]
    assert "invalid: 20 of 100 requests failed (66.26 was published)" in texts
    lines = drawn["context-length-llama-3-2-3b-instruct"]
    places = {row["place"] for row in all_values(lines.specification) if "place" in row}
    assert places == {2048, 8192, 65536, 131072}
    assert "prompt-tps-llama-3-1-8b-instruct" in drawn
    assert not [key for key in drawn if key.startswith("throughput-against-speed")]


def test_a_time_series_has_gaps_where_nothing_was_sampled_and_names_a_stall() -> None:
    ramp: dict[int, str | None] = {**RAMP, 13: None, 14: None}
    content = {METRICS: packed(metrics(ramp)), HOST: packed([clock()]), RESULT: sampled_result(10.0, 10.0)}
    chart = series_chart(content, duration_s=10.0, name="tp=1", about="run x", key="time-best")
    assert chart is not None
    generated = {
        row["at"]: row["value"]
        for row in all_values(chart.specification)
        if "at" in row and row["line"] == "generated"
    }
    assert generated[1.5] == 50.0
    assert [generated[at] for at in (2.5, 3.5, 4.5)] == [None, None, None]
    assert 0 not in [value for at, value in generated.items() if 0 < at < 10]
    assert chart.finding.startswith("tp=1: 50 tok/s on average, up to 2 requests waited")
    flat = {tick: exposition(prompt=1, generated=1, running=4) for tick in range(25)}
    content = {
        METRICS: packed(metrics(dict(flat))),
        HOST: packed([clock()]),
        RESULT: sampled_result(10.0, 10.0),
    }
    stalled = series_chart(content, duration_s=10.0, name="tp=1", about="", key="t")
    assert stalled is not None
    assert "stood still for 10 s" in stalled.finding
    assert series_chart({METRICS: b"\x1f\x8bjunk"}, duration_s=1, name="x", about="", key="t") is None
    assert series_chart({}, duration_s=None, name="x", about="", key="t") is None


def test_a_time_series_without_the_clients_times_says_its_rate_and_draws_all_its_work_inside() -> None:
    """From small archives: counters tell the window to a sample, the client's report the rate."""
    counted = {tick: exposition(prompt=0, generated=0, running=0) for tick in range(10)}
    counted |= {
        tick: exposition(prompt=1000, generated=300 * (tick - 9), running=2) for tick in range(10, 14)
    }
    counted |= {tick: exposition(prompt=1000, generated=1200, running=0) for tick in range(14, 24)}
    content = {METRICS: packed(metrics(dict(counted))), HOST: packed([clock()])}
    chart = series_chart(content, duration_s=3.2, output_tps=375.0, name="tp=1", about="", key="t")
    assert chart is not None
    assert chart.finding.startswith("tp=1: 375.0 tok/s on average")
    drawn = {
        name: [
            row["at"]
            for row in all_values(chart.specification)
            if "at" in row and row["line"] == name and row["value"]
        ]
        for name in ("prompt", "generated")
    }
    assert all(0 < at < 4 for line in drawn.values() for at in line), drawn


def test_power_is_a_gap_where_one_of_several_gpus_was_not_read() -> None:
    lines = [
        GPU_HEAD,
        *(gpu(at, index, 99) for at in range(8, 23) for index in (0, 1) if (at, index) != (15, 1)),
    ]
    content = {
        METRICS: packed(metrics(dict(RAMP))),
        HOST: packed([clock()]),
        GPUS: gzip.compress(("\n".join(lines) + "\n").encode()),
        RESULT: sampled_result(10.0, 10.0),
    }
    chart = series_chart(content, duration_s=10.0, name="tp=1", about="", key="t")
    assert chart is not None
    watts = {
        row["at"]: row["value"]
        for row in all_values(chart.specification)
        if "at" in row and row["line"] == "GPUs"
    }
    assert (watts[4.5], watts[5.5], watts[6.5]) == (1001.0, None, 1001.0)


def test_labels_are_placed_where_none_covers_another() -> None:
    room = Box(0, 0, 400, 300)
    points = [(100.0, 100.0), (104.0, 103.0), (110.0, 99.0), (395.0, 150.0)]
    boxes = [box for box in placed(points, [60] * 4, 12, around=points, room=room) if box is not None]
    assert len(boxes) >= 3
    assert all(box.inside(room) for box in boxes)
    assert not [1 for one, two in combinations(boxes, 2) if one.meets(two)]
    assert apart([10, 11, 12], 15, lowest=0, highest=100) == [10, 25, 40]
    assert apart([99, 98], 15, lowest=0, highest=100) == [100, 85]


def test_a_png_is_made_smaller_and_keeps_its_pixels() -> None:
    def parts(png: bytes) -> tuple[bytes, bytes, bytes]:
        kinds, pixels, place = [], b"", 8
        while place < len(png):
            (size,) = struct.unpack_from(">I", png, place)
            body = png[place + 8 : place + 8 + size]
            kind = png[place + 4 : place + 8]
            assert struct.unpack_from(">I", png, place + 8 + size)[0] == zlib.crc32(kind + body)
            kinds.append(kind)
            pixels += body if kind == b"IDAT" else b""
            place += size + 12
        return kinds[0], kinds[-1], zlib.decompress(pixels)

    svg = svg_of(by_key(example())["output-throughput"].specification).decode()
    large = bytes(vl_convert.svg_to_png(svg, scale=2))
    small = smaller(large)
    assert parts(small) == parts(large)
    assert len(small) < len(large) / 2
    assert smaller(small) == small
