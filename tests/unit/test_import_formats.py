"""Files of other tools as rows under vLLM's names: each value where it belongs, in its unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_text import VALUES, report
from shared_material import names, shared

from fleetbench.errors import Unreadable, UsageError
from fleetbench.results.imports.fields import FIELDS
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.mapping import read_mapping
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.reports import swept_parameters
from fleetbench.results.imports.values import ForeignRow, ImportedRow
from fleetbench.results.rows import Verdict

FIXTURES = Path(__file__).parents[1] / "fixtures" / "imports"
RESULT = {
    "date": "20261130-120000",
    "model_id": "Qwen/Qwen3-8B",
    "num_prompts": 640,
    "completed": 640,
    "max_concurrency": 64,
    "request_rate": "inf",
    "duration": 40.0,
    "total_input_tokens": 81_920,
    "total_output_tokens": 81_920,
    "request_throughput": 16.0,
    "output_throughput": 2048.0,
    "total_token_throughput": 4096.0,
    "mean_ttft_ms": 120.0,
    "mean_tpot_ms": 29.0,
    "mean_e2el_ms": 3803.0,
}


def _text(name: str) -> str:
    return (FIXTURES / name).read_text("utf-8")


def _rows(name: str, text: str, mapping: str | None = None) -> tuple[ForeignRow, ...]:
    given = None if mapping is None else ("mapping.toml", mapping)
    return read_source(name, [(name, text)], given).rows


def _judged(name: str, text: str, mapping: str | None = None) -> tuple[ImportedRow, ...]:
    given = None if mapping is None else ("mapping.toml", mapping)
    return judged(read_source(name, [(name, text)], given))


# ---------------------------------------------------------------- vLLM and SGLang


def test_a_result_file_and_a_file_of_appended_results_are_rows() -> None:
    (one,) = _judged("result.json", json.dumps(RESULT))
    assert (one.row.form, one.row.result.output_throughput, one.verdict) == (
        "vllm-json",
        2048.0,
        Verdict.VALID,
    )
    lines = "\n".join(json.dumps(RESULT | {"output_throughput": 2048.0 + n}) for n in range(3))
    rows = _rows("results.jsonl", lines)
    assert [row.result.output_throughput for row in rows] == [2048.0, 2049.0, 2050.0]
    assert [row.place for row in rows] == [f"results.jsonl line {n}" for n in (1, 2, 3)]


def test_metadata_of_a_result_says_how_the_model_was_split() -> None:
    (row,) = _rows("result.json", json.dumps(RESULT | {"tensor_parallel_size": "2", "max_model_len": 8192}))
    assert (row.conditions.tp, row.conditions.max_model_len, row.conditions.dp) == (2, 8192, None)
    several = [json.dumps(RESULT | {"tensor_parallel_size": str(size)}) for size in (1, 2)]
    assert [row.conditions.tp for row in _rows("results.jsonl", "\n".join(several))] == [None, None]


def test_a_pasted_report_is_a_row_and_knows_its_client() -> None:
    (row,) = _rows("paste.txt", f"some words before\n{report()}\nand after\n")
    assert (row.form, row.result.completed) == ("vllm-text", VALUES["completed"])
    assert row.place.startswith("paste.txt line ")


@pytest.mark.parametrize("name", names("captures/cpu/bench_versions/results/*.json"))
def test_the_result_file_of_every_version_is_one_row(name: str) -> None:
    document = json.loads(shared(name).read_text("utf-8"))
    (row,) = _rows("r.json", json.dumps(document))
    assert row.result.output_throughput == document["output_throughput"]
    assert row.result.completed == document["completed"]
    assert row.problems == ()


def test_a_directory_of_a_sweep_says_what_it_varied() -> None:
    folder = "SERVE--tensor_parallel_size=2-max_num_seqs=32-BENCH--max_concurrency=16-random_input_len=128"
    assert swept_parameters(folder) == {
        "tensor_parallel_size": "2",
        "max_num_seqs": "32",
        "max_concurrency": "16",
        "random_input_len": "128",
    }
    assert swept_parameters("SERVE--dtype=half-BENCH--request_rate=1e-2") == {
        "dtype": "half",
        "request_rate": "1e-2",
    }
    assert swept_parameters("results") == {}
    source = read_source("exp", [(f"exp/{folder}/run=0.json", json.dumps(RESULT))])
    (row,) = source.rows
    assert (row.conditions.tp, row.conditions.input_len, row.table) == (2, 128, folder)


def test_repeats_of_a_sweep_do_not_contradict_each_other() -> None:
    folder = "SERVE--tensor_parallel_size=2-BENCH--max_concurrency=64"
    files = [
        (f"exp/{folder}/run={n}.json", json.dumps(RESULT | {"output_throughput": 2048.0, "label": None}))
        for n in range(3)
    ]
    rows = judged(read_source("exp", files))
    assert [found.verdict for found in rows] == [Verdict.VALID] * 3


@pytest.mark.parametrize("folder", ["exp2x2", "workload1"])
def test_a_real_sweep_is_imported(folder: str) -> None:
    directory = shared("captures", "cpu", "sweep", "results", folder)
    files = [(f"{folder}/{p.relative_to(directory)}", p.read_text()) for p in directory.rglob("run=*.json")]
    source = read_source(folder, files)
    assert len(source.rows) == len(files) >= 4
    assert all("max_num_seqs" in row.table or "max_concurrency" in row.table for row in source.rows)


SGLANG = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 64
Successful requests:                     640
Benchmark duration (s):                  40.00
Total input tokens:                      81920
Total generated tokens:                  81920
Total generated tokens (retokenized):    81800
Request throughput (req/s):              16.00
Input token throughput (tok/s):          2048.00
Output token throughput (tok/s):         2048.00
Total token throughput (tok/s):          4096.00
Concurrency:                             60.85
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   3803.00
Median E2E Latency (ms):                 3799.10
---------------Time to First Token----------------
Mean TTFT (ms):                          120.00
==================================================
"""


def test_a_report_of_sglang_is_a_row() -> None:
    (found,) = _judged("sglang.txt", SGLANG)
    assert (found.row.form, found.row.conditions.engine) == ("sglang-text", "sglang")
    assert found.row.result.max_concurrency == 64
    assert found.row.result.latencies["mean_e2el_ms"] == 3803.0
    assert found.verdict is Verdict.VALID


# ---------------------------------------------------------------- GuideLLM and AIPerf


# Both files are what the tools wrote about a server that sends one token each 10 ms, without its requests.


def test_guidellm_s_names_become_vllm_s_by_their_meaning() -> None:
    (found,) = _judged("benchmarks.json", _text("guidellm.json"))
    result, conditions = found.row.result, found.row.conditions
    assert (result.completed, result.failed, result.num_prompts, result.max_concurrency) == (200, 0, 200, 8)
    assert (result.total_input_tokens, result.total_output_tokens) == (25_600, 10_000)
    assert result.request_throughput == pytest.approx(15.543, abs=0.001)
    assert result.output_throughput == pytest.approx(50 * 15.543, abs=0.1)
    assert result.total_token_throughput == pytest.approx(178 * 15.543, abs=0.1)
    # Its inter-token latency is vLLM's TPOT: (E2EL − TTFT) / 49 tokens.
    assert result.latencies["mean_tpot_ms"] == pytest.approx(9.969, abs=0.001)
    assert result.latencies["mean_ttft_ms"] == pytest.approx(9.753, abs=0.001)
    assert result.latencies["mean_e2el_ms"] == pytest.approx(499.569, abs=0.001)
    assert result.latencies["p99_e2el_ms"] == pytest.approx(516.318, abs=0.001)
    assert "mean_itl_ms" not in result.latencies
    assert (conditions.client, conditions.model) == ("guidellm 0.8.1", "Qwen/Qwen3-8B")
    assert (conditions.input_len, conditions.output_len) == (128, 50)
    assert (found.row.label, found.verdict) == ("concurrent 8", Verdict.VALID)
    assert found.row.problems[0].startswith("guidellm warns: mean generation delay was 85%")


def test_guidellm_s_errors_count_as_failures_and_requests_cut_off_by_the_clock_do_not() -> None:
    document = json.loads(_text("guidellm.json"))
    totals = document["benchmarks"][0]["metrics"]["request_totals"]
    totals |= {"incomplete": 7, "total": 207}
    (closed,) = _judged("benchmarks.json", json.dumps(document))
    assert (closed.verdict, closed.row.result.num_prompts) == (Verdict.VALID, 200)
    assert closed.row.result.extra["incomplete"] == 7
    totals |= {"errored": 10, "total": 217}
    document["benchmarks"][0]["config"]["strategy"] = {"type_": "constant", "rate": 16.0}
    (failing,) = _judged("benchmarks.json", json.dumps(document))
    assert failing.findings[0].text == "10 of 210 requests failed"
    assert (failing.row.label, failing.row.result.request_rate) == ("constant 16", 16.0)
    assert failing.row.result.max_concurrency is None


def test_guidellm_s_rows_obey_little_s_law_or_are_flagged() -> None:
    document = json.loads(_text("guidellm.json"))
    document["benchmarks"][0]["metrics"]["requests_per_second"]["successful"]["mean"] *= 2
    (flagged,) = _judged("benchmarks.json", json.dumps(document))
    assert "concurrency-exceeded" in [finding.rule for finding in flagged.findings]


def test_aiperf_s_names_become_vllm_s_by_their_meaning() -> None:
    (found,) = _judged("profile_export_aiperf.json", _text("aiperf.json"))
    result, conditions = found.row.result, found.row.conditions
    assert (result.completed, result.failed, result.num_prompts, result.max_concurrency) == (400, 0, 400, 8)
    assert (result.total_input_tokens, result.total_output_tokens) == (51_200, 20_000)
    assert result.duration == pytest.approx(26.1605, abs=0.0001)
    assert result.request_throughput == pytest.approx(15.284, abs=0.001)
    assert result.output_throughput == pytest.approx(764.218, abs=0.001)
    assert result.total_token_throughput == pytest.approx(2720.615, abs=0.001)
    assert result.latencies["mean_tpot_ms"] == pytest.approx(10.077, abs=0.001)
    assert result.latencies["mean_ttft_ms"] == pytest.approx(10.228, abs=0.001)
    assert result.latencies["mean_e2el_ms"] == pytest.approx(503.988, abs=0.001)
    assert "mean_itl_ms" not in result.latencies
    assert (conditions.model, conditions.client) == ("Qwen/Qwen3-8B", "aiperf 0.13.0")
    assert (conditions.input_len, conditions.output_len) == (128, 50)
    assert found.verdict is Verdict.VALID


def test_aiperf_s_units_are_read_and_an_unknown_one_makes_the_value_unknown() -> None:
    document = json.loads(_text("aiperf.json"))
    document["time_to_first_token"] = {"unit": "us", "avg": 50_000.0}
    document["request_latency"] = {"unit": "fortnights", "avg": 1.0}
    (row,) = _rows("p.json", json.dumps(document))
    assert row.result.latencies["mean_ttft_ms"] == pytest.approx(50.0)
    # Unknown, and then made from TTFT and TPOT: 50 + 49 × 10.077.
    assert row.result.latencies["mean_e2el_ms"] == pytest.approx(543.76, abs=0.01)
    assert row.derived["mean_e2el_ms"].startswith("mean_ttft_ms + ")


def test_an_aiperf_run_that_was_cut_off_is_no_whole_report() -> None:
    document = json.loads(_text("aiperf.json")) | {"is_complete": False, "incomplete_reason": "timeout"}
    (found,) = _judged("p.json", json.dumps(document))
    assert (found.verdict, found.row.result.failed) == (Verdict.INVALID, None)
    assert found.findings[0].text == "the report is incomplete: timeout"


# ---------------------------------------------------------------- tables


def test_a_sheet_is_read_through_its_mapping() -> None:
    first, second, third = _rows("bench-table.csv", _text("bench-table.csv"), _text("bench-table.toml"))
    assert (first.label, first.conditions.tp, first.conditions.gpu) == ("a", 2, "NVIDIA H100 80GB HBM3")
    assert first.result.output_throughput == 4100.5
    assert first.result.latencies["mean_ttft_ms"] == 250.0
    assert first.result.latencies["mean_tpot_ms"] == 13.2
    assert (first.result.num_prompts, first.result.completed) == (640, 640)
    assert first.derived["completed"] == "num_prompts − failed"
    # 250 + 127 × 13.2 ms, from the length asked for.
    assert first.result.latencies["mean_e2el_ms"] == pytest.approx(1926.4)
    assert second.place == "bench-table.csv line 3"
    assert third.conditions.gpu == "A100"
    assert "mean_tpot_ms" not in third.result.latencies


def test_output_and_total_mixed_up_in_a_sheet_is_told() -> None:
    sheet = "name,out,clients,ttft,tpot,isl,osl\nx,9000,64,400,20,512,128\n"
    mapping = (
        '[columns]\nname = "label"\nout = "output_throughput"\nclients = "max_concurrency"\n'
        'ttft = "mean_ttft_ms"\ntpot = "mean_tpot_ms"\nisl = "input_len"\nosl = "output_len"\n'
    )
    (found,) = _judged("sheet.csv", sheet, mapping)
    assert found.verdict is Verdict.INVALID
    (finding,) = [f for f in found.findings if f.rule == "concurrency-exceeded"]
    assert "read as total tokens" in finding.text
    (right,) = _judged("sheet.csv", sheet, mapping.replace("output_thr", "total_token_thr"))
    assert right.verdict is Verdict.VALID


def test_a_csv_with_vllm_s_own_names_needs_no_mapping() -> None:
    names_ = ("model_id", "completed", "output_throughput", "mean_ttft_ms", "p99_itl_ms", "remark")
    text = ",".join(names_) + '\nm,10,100.125,5,"",x\nm,10,abc,5,7,y\n'
    first, second = _rows("rows.csv", text)
    assert (first.result.output_throughput, first.result.latencies["mean_ttft_ms"]) == (100.125, 5.0)
    assert "p99_itl_ms" not in first.result.latencies
    assert second.result.output_throughput is None
    assert second.problems == ("output_throughput: 'abc' is not a plain number with decimal mark '.'",)


def test_a_refused_cell_is_unknown_also_where_there_is_a_default() -> None:
    mapping = '[constants]\nmax_concurrency = 8\n[columns]\nc = "max_concurrency"\no = "output_throughput"\n'
    rows = _rows("t.csv", "c,o\n4,1\n,1\n-1,1\n", mapping)
    assert [row.result.max_concurrency for row in rows] == [4, 8, None]


def test_a_csv_without_a_known_name_asks_for_a_mapping() -> None:
    with pytest.raises(Unreadable, match="none of its columns") as caught:
        _rows("t.csv", "a,b\n1,2\n")
    assert "--mapping" in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[columns]\na = 'output_throughputs'\n", "did you mean output_throughput?"),
        ("[columns]\na = { field = 'completed', factor = 0 }\n", "a number above 0"),
        ("[columns]\na = { field = 'completed', unit = 'x' }\n", "unknown; known: field, factor"),
        ("[constants]\ntp = 'two'\n", "is not a plain number"),
        ("[lookup.GPU.A]\ngpu = 'x'\n", "there is no such heading"),
        ("[source]\nautor = 'x'\n", "unknown; known: title, author"),
        ("[tables]\n", "unknown; known: source"),
        ("decimal = ';'\n", '"." or "," is expected'),
        ("[[table]]\ncolumns = ['x']\nrows = []\n", "x is not in"),
        ("[columns]\nx = 'label'\n[[table]]\ncolumns = ['x']\nrows = [[1, 2]]\n", "row 1 has 2 cells, not 1"),
        ("[columns\n", "not TOML"),
    ],
)
def test_a_mapping_that_is_wrong_says_where(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_mapping(text, "m.toml")
    assert complaint in f"{caught.value}"
    assert "m.toml" in f"{caught.value}"


def test_a_mapping_for_another_sheet_says_which_column_is_missing() -> None:
    with pytest.raises(UsageError, match="no column is called 'b'"):
        _rows("t.csv", "a\n1\n", '[columns]\nb = "output_throughput"\n')


def test_the_page_on_importing_names_every_field_that_is_not_vllm_s_own() -> None:
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text("utf-8")
    own = {field.name for field in FIELDS.values() if field.home != "result"}
    assert sorted(name for name in own if f"`{name}`" not in page) == []


def test_the_same_content_has_the_same_id_and_another_mapping_another() -> None:
    text = "c,o\n4,1\n"
    mapping = '[columns]\nc = "max_concurrency"\no = "output_throughput"\n'
    ids = {
        read_source("t.csv", [("t.csv", text)], ("m", mapping)).id,
        read_source("t.csv", [("t.csv", text)], ("other name", mapping)).id,
    }
    assert len(ids) == 1
    assert read_source("t.csv", [("t.csv", text)], ("m", mapping + "\n")).id not in ids
