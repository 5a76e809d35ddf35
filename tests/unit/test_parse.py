"""Reports in the states in which people find them: each mess gives the right values or says why not."""

from __future__ import annotations

import html
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_text import HEADER, VALUES, line, report

from fleetbench.errors import Unreadable
from fleetbench.results.parse import parse
from fleetbench.results.parse.numbers import read_number
from fleetbench.results.render import as_rows


def _row(text: str) -> dict[str, object]:
    (row,) = as_rows(parse(text))
    return row


def _assert_whole(row: dict[str, object], *, scale: int = 1) -> None:
    counts = ("completed", "failed", "total_input_tokens", "total_output_tokens")
    expected = {key: value * scale if key in counts else value for key, value in VALUES.items()}
    assert {key: row[key] for key in expected} == expected
    assert row["complete"] is True
    assert row["problems"] == []


def _prefixed(text: str, prefix: str) -> list[str]:
    return [prefix + part for part in text.splitlines()]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "      ",
        "\t",
        "> ",
        "# ",
        "// ",
        "E   ",
        "Nov 30 18:20:07 h100-01 vllm-bench[4711]: ",
        "2026-11-30T18:20:07+0100 h100-01 python3.12[4711]: ",
        "Mon 2026-11-30 18:20:07 UTC h100-01 vllm[9]: ",
        "[ 8123.456789] h100-01 vllm[4711]: ",
        "2026-11-30T18:20:07.123456789Z stdout F ",
        "2026-11-30T18:20:07.1234567Z ",
        "[2026-11-30 18:20:07,123] ",
        "18:20:07 ",
        "[h100-01] ",
        "[pod/bench-7f9c/client] ",
        "(Bench pid=29107) ",
        "bench-1  | ",
        "h100-01: ",
        "INFO:bench:",
        "INFO 11-30 18:20:07 [serve.py:88] ",
        "[h100-01] Nov 30 18:20:07 h100-01 vllm[4711]: (Bench pid=12) ",
        "job 17 / rank 0 >> ",  # no program that we know
    ],
)
def test_a_prefix_on_each_line_changes_nothing(prefix: str) -> None:
    _assert_whole(_row("\n".join(_prefixed(report(), prefix)) + "\n"))


def test_lines_of_other_units_inside_a_report_belong_to_nobody() -> None:
    lines = []
    for number, part in enumerate(report().splitlines()):
        lines.append(f"Nov 30 18:20:{number:02} h100-01 vllm-bench[4711]: {part}")
        lines.append(f"Nov 30 18:20:{number:02} h100-01 vllm-8001[99]: Mean TTFT (ms): {number}.00")
    _assert_whole(_row("\n".join(lines) + "\n"))


def test_two_hosts_that_print_at_the_same_time_give_two_reports() -> None:
    mixed = [
        part
        for pair in zip(
            _prefixed(report(), "[h100-01] "), _prefixed(report(scale=3), "[h100-02] "), strict=True
        )
        for part in pair
    ]
    first, second = as_rows(parse("\n".join(mixed) + "\n"))
    _assert_whole(first)
    _assert_whole(second, scale=3)


def test_lines_without_the_unknown_prefix_of_the_header_belong_to_nobody() -> None:
    lines = []
    for part in report().splitlines():
        lines += [
            f"job 17 / rank 0 >> {part}",
            "job 17 / rank 1 >> Mean TTFT (ms): 5.00",
            "Failed requests: 9",
        ]
    _assert_whole(_row("\n".join(lines) + "\n"))


def test_server_log_lines_between_the_lines_of_a_report_are_passed_over() -> None:
    noise = "(EngineCore pid=7) INFO 11-30 18:20:07 [loggers.py:12] Avg prompt throughput: 12.5 tokens/s"
    text = "\n".join(f"{part}\n{noise}\nsome words: 17" for part in report().splitlines()) + "\n"
    _assert_whole(_row(text))


@pytest.mark.parametrize("escape", ["\x1b", "^[", "#033", "\\x1b"])
def test_colours_and_cursor_codes_are_no_part_of_a_value(escape: str) -> None:
    def coloured_value(found: re.Match[str]) -> str:
        return f"{found[1]}{escape}[36m {found[2]} {escape}[0m"

    coloured = re.sub(r"(?m)^(.{39}:?) +(\S+) *$", coloured_value, report())
    coloured = coloured.replace("=" * 12, f"{escape}[1m" + "=" * 12, 1)
    _assert_whole(_row(coloured.replace("\n", "\r\n")))


def test_a_progress_bar_glued_to_the_header_gives_the_number_of_requests() -> None:
    bar = "".join(
        f"\r {p:3}%|{'#' * (p // 10):<10}| {p * 7}/735 [00:{p // 2:02}<00:01, 9.8it/s]" for p in (0, 40)
    )
    text = bar + "\r100%|##########| 735/735 [01:01<00:00, 11.97it/s]" + report()
    row = _row(text)
    _assert_whole(row)
    assert row["num_prompts"] == 735


def test_parameters_printed_before_the_report_are_kept() -> None:
    before = (
        "Namespace(seed=3, num_prompts=735, backend='vllm', model='acme/tiny, 2B', request_rate=12.5, "
        "max_concurrency=None)\nTraffic request rate: 12.5\nMaximum request concurrency: None\n"
    )
    row = _row(before + report())
    assert (row["num_prompts"], row["model_id"], row["backend"]) == (735, "acme/tiny, 2B", "vllm")
    assert row["request_rate"] == 12.5
    assert row["max_concurrency"] == 48  # the report's own line counts


def test_parameters_of_one_run_do_not_reach_the_next() -> None:
    text = (
        "Traffic request rate: 12.5\n100%|##| 735/735 [01:01<00:00, 11.97it/s]\n" + report() + report(scale=2)
    )
    first, second = as_rows(parse(text))
    assert (first["request_rate"], first["num_prompts"]) == (12.5, 735)
    assert (second["request_rate"], second["num_prompts"]) == (None, None)


def test_a_bar_that_counts_less_than_the_report_belongs_to_something_else() -> None:
    assert _row("100%|##| 4/4 [00:01<00:00, 4.0it/s]\n" + report())["num_prompts"] is None


def test_a_missing_failed_line_is_unknown_and_not_zero() -> None:
    assert _row(report(failed=False))["failed"] is None


def test_several_reports_come_in_order_with_their_lines() -> None:
    text = "warm-up\n" + report() + "\nmeasured\n" + report(scale=2) + report(scale=5)
    blocks = parse(text)
    assert [block.result.completed for block in blocks] == [731, 1462, 3655]
    lines = text.splitlines()
    assert all("Benchmark Result" in lines[block.first_line - 1] for block in blocks)
    assert all(set(lines[block.last_line - 1]) == {"="} for block in blocks)
    assert all(block.complete for block in blocks)


def test_two_reports_in_the_cells_of_an_html_table_are_two() -> None:
    cells = "</td>\n<td>\n\n".join(f"<pre>{html.escape(report(scale=n))}</pre>" for n in (1, 2))
    first, second = as_rows(parse(f"<table><tr><td>\n\n{cells}</td></tr></table>\n"))
    _assert_whole(first)
    _assert_whole(second, scale=2)


def test_rows_of_an_html_table_are_read_as_lines() -> None:
    rows = "".join(
        f"<tr><td>{part.partition(':')[0]}:</td><td>{part.partition(':')[2].strip()}</td></tr>"
        if ":" in part
        else f"<tr><td colspan='2'>{part}</td></tr>"
        for part in report().splitlines()
    )
    _assert_whole(_row(f"<table>{rows}</table>"))


def test_a_markdown_table_of_the_lines_is_read() -> None:
    rows = [
        "| " + part.partition(":")[0] + ": | " + part.partition(":")[2].strip() + " |"
        if ":" in part
        else part
        for part in report().splitlines()
    ]
    _assert_whole(_row("\n".join(rows) + "\n"))


def test_a_report_on_one_line_is_taken_apart() -> None:
    _assert_whole(_row("config 7 " + " ".join(report().split()) + "\n"))


def test_a_report_inside_a_repr_is_taken_apart() -> None:
    _assert_whole(_row(repr(report()) + "\n"))


def test_two_reports_side_by_side_give_no_value_at_all() -> None:
    text = "\n".join(f"{a:<60}{b}" for a, b in zip(*[report().splitlines()] * 2, strict=True)) + "\n"
    try:
        rows = as_rows(parse(text))
    except Unreadable:
        return
    for row in rows:
        assert all(row[key] is None for key in VALUES), row


@pytest.mark.parametrize("newline_kept", [True, False])
def test_a_report_cut_anywhere_gives_true_values_or_none(newline_kept: bool) -> None:
    whole = report()
    for length in range(len(whole)):
        text = whole[:length] + ("\n" if newline_kept and whole[length - 1] == "\n" else "")
        try:
            (row,) = as_rows(parse(text))
        except Unreadable:
            continue
        for key, value in VALUES.items():
            assert row[key] in (None, value), (length, key, row[key])
        assert row["complete"] is False or length >= len(whole) - 31
        assert row["problems"] or row["complete"]


def test_a_cut_report_before_a_new_run_stays_incomplete_and_alone() -> None:
    cut = report()[:600]
    text = cut + "\nNamespace(num_prompts=1462, model='m')\nStarting initial single prompt test run...\n"
    first, second = parse(text + report(scale=2))
    assert not first.complete
    assert first.result.total_output_tokens == 46783
    assert second.complete
    assert second.result.completed == 1462


@pytest.mark.parametrize("between", ["\n", "```\n\nand later:\n\n```\n"])
def test_a_fragment_after_a_report_without_end_is_not_merged_into_it(between: str) -> None:
    whole = report()
    fragment = whole[whole.index("-----Time per Output") :].replace("33.", "77.")
    block, *rest = parse(report(end=False) + between + fragment)
    assert not rest
    assert block.result.latencies["mean_tpot_ms"] == 33.71
    assert not block.complete


def test_a_fragment_without_header_is_no_result() -> None:
    whole = report()
    with pytest.raises(Unreadable, match="no result") as refusal:
        parse(whole[whole.index("-----Time per Output") :])
    assert "line 2" in refusal.value.cause
    assert "fragment" in refusal.value.cause


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("nan", "not a finite number"),
        ("inf", "not a finite number"),
        ("1.000", "ambiguous"),
        ("1.234.567", "ambiguous"),
        ("61,07", "ambiguous"),
        ("1,234.50", "ambiguous"),
        ("xx", "placeholder"),
        ("...", "placeholder"),
        ("<value>", "placeholder"),
        ("-1", "negative"),
        ("61.07 k", "change its meaning"),
        ("1 061.07", "change its meaning"),
        ("61.07 (est.)", "change its meaning"),
        ("about 61", "not a number"),
        ("1e999", "not a finite number"),
        ("", "cut off"),
    ],
)
def test_a_value_that_cannot_be_read_is_unknown_and_says_why(shown: str, reason: str) -> None:
    row = _row(re.sub(r"(?m)^(Benchmark duration \(s\):\s+)\S+.*$", lambda m: m[1] + shown, report()))
    assert row["duration"] is None
    assert row["complete"] is False
    (problem,) = row["problems"]  # type: ignore[misc]
    assert problem.startswith("line 5: Benchmark duration (s)")
    assert reason in problem
    assert row["mean_ttft_ms"] == 301.12


@pytest.mark.parametrize("remark", ["<<<<<<< New line", "# warm", "| 17 others", "← look"])
def test_a_remark_beside_a_value_does_not_change_it(remark: str) -> None:
    text = report().replace(line("Failed requests", 4), line("Failed requests", 4) + remark)
    _assert_whole(_row(text))


def test_a_count_with_a_fraction_is_refused() -> None:
    assert read_number("12.5", whole=True).value is None
    assert read_number("12.00", whole=True).value == 12


def test_a_template_full_of_placeholders_is_no_result() -> None:
    text = re.sub(r"(?m)^((?!Succ|Failed).{8,}?:\s+)\S+\s*$", r"\1xxx", report())
    with pytest.raises(Unreadable, match="holds no duration, throughput or latency") as refusal:
        parse(text, "readme.md")
    assert "placeholder" in refusal.value.cause


def test_a_template_beside_a_result_is_reported_with_its_problems() -> None:
    template = re.sub(r"(?m)^(.{8,}?:\s+)\S+\s*$", r"\1xx", report())
    empty, good = parse(template + report())
    assert empty.result.duration is None
    assert empty.problems
    assert good.complete


def test_a_label_that_stands_twice_with_different_values_is_unknown() -> None:
    doubled = report().replace(
        line("Benchmark duration (s)", 61.07),
        line("Benchmark duration (s)", 61.07) + "\n" + line("Benchmark duration (s)", 62.5),
    )
    row = _row(doubled)
    assert row["duration"] is None
    assert "61.07 in line 5" in str(row["problems"])


def test_latencies_of_an_unknown_section_do_not_replace_the_run_s_own() -> None:
    extra = f"{'Per-User Metrics':-^50}\n" + line("Mean TTFT (ms)", 5.55) + "\n"
    row = _row(report().replace("=" * 50, extra + "=" * 50))
    assert row["mean_ttft_ms"] == 301.12
    assert row["per_user_mean_ttft_ms"] == 5.55


def test_an_unknown_line_of_the_report_s_shape_is_kept_under_its_own_name() -> None:
    row = _row(report().replace("=" * 50, line("Gold coins (per hour)", 8.5) + "\n" + "=" * 50))
    assert row["other_gold_coins_per_hour"] == 8.5


def test_fractional_percentiles_and_probes_keep_their_names() -> None:
    more = "\n".join([line("P99.9 TTFT (ms)", 999.99), line("Median probe E2EL (ms)", 70.25)]) + "\n"
    row = _row(report().replace("=" * 50, f"{'Probe Requests':-^50}\n{more}" + "=" * 50))
    assert row["p99.9_ttft_ms"] == 999.99
    assert row["probe_median_e2el_ms"] == 70.25
    assert row["median_e2el_ms"] is None


def test_the_speculative_decoding_section_is_read_with_its_positions() -> None:
    section = "\n".join(
        [
            f"{'Speculative Decoding':-^50}",
            line("Acceptance rate (%)", 41.5),
            line("Acceptance length", 2.25),
            line("Drafts", 321),
            "Per-position acceptance (%):",
            line("  Position 0", 66.67),
            line("  Position 1", 16.33),
        ]
    )
    row = _row(report().replace("\n" + "=" * 50, f"\n{section}\n" + "=" * 50))
    assert row["spec_decode_acceptance_rate"] == 41.5
    assert row["spec_decode_num_drafts"] == 321
    assert row["spec_decode_position_1_acceptance_pct"] == 16.33
    assert row["problems"] == []


def test_seconds_beside_milliseconds_stay_seconds() -> None:
    section = f"{'Latency':-^50}\nMean Latency(s):                          12.75\n"
    row = _row(report().replace("---------------Time", section + "---------------Time"))
    assert row["dialect"] == "gpustack"
    assert row["mean_latency_s"] == 12.75
    assert not any(value == 12.75 for key, value in row.items() if key.endswith("_ms"))


def test_sglang_is_told_apart_by_its_labels_and_its_words_are_understood() -> None:
    text = report(failed=False).replace(
        line("Maximum request concurrency", 48),
        "\n".join(
            [
                line("Backend", "vllm"),
                line("Traffic request rate", "inf"),
                line("Max reqeuest concurrency", "not set"),
                line("Total generated tokens (retokenized)", 46001),
            ]
        ),
    )
    text = text.replace("Inter-token", "Inter-Token").replace(
        line("P99 ITL (ms)", 120.83), line("P99 ITL (ms)", 120.83) + "\n" + line("Max ITL (ms)", 500.5)
    )
    row = _row("Traffic request rate: 3.0\nMaximum request concurrency: 9\n" + text)
    assert row["dialect"] == "sglang"
    assert row["request_rate"] == "inf"
    assert row["max_concurrency"] is None
    assert row["backend"] == "vllm"
    assert row["total_output_tokens"] == 46783
    assert row["total_output_tokens_retokenized"] == 46001
    assert row["max_itl_ms"] == 500.5
    assert row["problems"] == []


def test_a_steady_state_table_never_replaces_the_run_s_own_values() -> None:
    text = report().replace("=" * 50, "=" * 60)
    text = text.replace(" Serving Benchmark Result ", "===== Serving Benchmark Result =====")
    text += "Warning: steady-state window is 2.0s (3.3% of run)\n"
    text += "============ Steady-State Metrics =============\n"
    text += (
        "Window:                             0.0s -> 2.0s  (2.0s)\nObserved peak concurrency:          48\n"
    )
    text += (
        "Request throughput (req/s):         99.99\nMean TTFT (ms):                     1.11\n"
        + "=" * 47
        + "\n"
    )
    row = _row(text)
    _assert_whole(row)
    assert row["dialect"] == "vllm-rust"
    assert row["steady_state_request_throughput"] == 99.99
    assert row["steady_state_mean_ttft_ms"] == 1.11


def test_a_pooling_report_is_complete_without_generated_tokens() -> None:
    dropped = ("Total generated", "Output token", "Peak output")
    text = "\n".join(part for part in report().splitlines() if not part.startswith(dropped)) + "\n"
    text = text.replace(f"{HEADER:=^50}", f"{' Embedding/Pooling Benchmark Result ':=^50}")
    (block,) = parse(text)
    assert block.dialect == "vllm-pooling"
    assert block.complete
    assert block.result.total_output_tokens is None


def test_a_text_without_result_says_what_the_client_died_of() -> None:
    text = "100%|##| 9/9 [00:01<00:00]\nTraceback (most recent call last):\n  File 'x'\n"
    text += "IndexError: index -1 is out\n"
    with pytest.raises(Unreadable) as refusal:
        parse(text)
    assert "IndexError: index -1 is out" in refusal.value.cause


@pytest.mark.parametrize("text", ["", "\n \n", "hello", "[h100-01] hello", "42", '"text"', "[]", "{}"])
def test_a_text_without_result_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.parametrize(
    "character", ["=", "-", ":", " ", "{", "[", "\\n", "<", "\r", "\x1b[", "1", "P99 TTFT (ms)"]
)
def test_two_megabytes_of_anything_take_seconds_at_most(character: str) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable):
        parse(f"{' Serving Benchmark Result ':=^50} " + character * (2_000_000 // len(character)))
    assert time.process_time() - started < 10


_NOISE = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="=-:. \r\x1b[<>|`{}0123456789PTFmsan(", max_size=80),
    st.sampled_from(
        ["```", "=" * 50, "-" * 50, "100%|##| 9/9 [00:01<00:00]", "Traceback (most recent call last):"]
    ),
)


@settings(max_examples=400, deadline=None)
@given(_NOISE, st.integers(min_value=0, max_value=30))
def test_a_line_of_noise_anywhere_never_makes_a_wrong_number_or_a_crash(noise: str, place: int) -> None:
    lines = report().splitlines(keepends=True)
    at = place % len(lines)
    try:
        rows = as_rows(parse("".join([*lines[:at], noise + "\n", *lines[at:]])))
    except Unreadable:
        return
    for row in rows:
        for key, value in VALUES.items():
            assert row[key] in (None, value)
    json.dumps(rows, allow_nan=False)
