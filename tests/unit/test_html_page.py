"""The report as one HTML file: everything is on it, nothing on it can be misread, nothing in it runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from imported_figures import published
from report_rows import CLOSED, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial
from sample_report import INVALID, OUT_OF_MEMORY, SUSPECT, everything

from fleetbench.choice.recommend import recommendations
from fleetbench.model import Config, Failure, TrialState
from fleetbench.report.charts import Chart, Section
from fleetbench.report.files import write_files
from fleetbench.report.html.galleries import LEAST_BYTES, MOST_BYTES, with_charts
from fleetbench.report.html.imported_page import page_of_imported
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.render import html
from fleetbench.report.html.run_page import page_of_run
from fleetbench.report.html.values import Row
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.results.rows import Verdict

HOSTILE = (
    "</script><script>alert(1)</script> \"q\" 'q' <img src=x onerror=alert(1)> &amp;\u2028\x1b[31m {{ 7*7 }}"
)
VOID = {"meta", "input", "img", "link", "br", "hr"}


class Reader(HTMLParser):
    """Every element with its attributes, and the text of each row of the results."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[tuple[dict[str, str | None], str]]] = {}
        self._open: list[str] = []
        self._entry = ""
        self.feed(text)
        assert self._open == [], "elements that are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tbody":
            self._entry = dict(attrs).get("id") or ""
        elif tag == "tr" and dict(attrs).get("class") == "evidence":
            self._entry = ""
        elif tag in ("td", "th") and self._entry:
            self.rows.setdefault(self._entry, []).append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._entry and self.rows.get(self._entry):
            attributes, text = self.rows[self._entry][-1]
            self.rows[self._entry][-1] = attributes, text + data

    def text(self, entry: str) -> str:
        """The text of a row, without its evidence."""
        return " ".join(" ".join(text.split()) for _, text in self.rows[entry])


def page_text(report: Report) -> str:
    return html(page_of_run(report, Kept()))


def rows_of(report: Report) -> dict[str, Row]:
    return {row.name: row for row in page_of_run(report, Kept()).results.rows}


def hostile() -> Report:
    failure = Failure(kind="x", cause=HOSTILE, evidence=HOSTILE, advice=HOSTILE)
    trials = [
        trial(1, Config(serve_args=(HOSTILE, "--x")), host=HOSTILE, unit_text=HOSTILE, gpu_name=HOSTILE),
        trial(2, Config(), state=TrialState.FAILED, failure=failure),
    ]
    rows = [measurement(1, 1, result(100), Verdict.SUSPECT, HOSTILE)]
    return summarise(run(model=HOSTILE, note=HOSTILE, hosts=(HOSTILE,)), trials, rows)


def test_every_configuration_is_a_row_whatever_became_of_it() -> None:
    found = rows_of(everything())
    assert len(found) == 12
    counts = page_of_run(everything(), Kept()).results.counts
    assert {status.value: count for status, count in counts.items()} == {
        **{"valid": 7, "suspect": 1, "invalid": 1, "failed": 1, "implied": 1, "not run": 1}
    }


@pytest.mark.parametrize("status", ["invalid", "failed", "implied", "not run"])
def test_a_row_without_a_result_shows_no_number_that_could_be_taken_for_one(status: str) -> None:
    report = everything()
    reader = Reader(page_text(report))
    rows = [row for row in page_of_run(report, Kept()).results.rows if row.status.value == status]
    assert rows
    for row in rows:
        cells = reader.rows[row.id]
        metrics = [attributes for attributes, _ in cells if attributes.get("data-key") == "output_throughput"]
        assert metrics == []
        assert [attributes.get("class") for attributes, _ in cells][-1] == "gap"
        assert row.gap
        assert row.gap in reader.text(row.id)
        assert not row.best


def test_numbers_of_a_suspect_row_are_marked_one_by_one_and_rank_behind_the_others() -> None:
    row = next(row for row in rows_of(everything()).values() if row.status.value == "suspect")
    assert all(
        value.doubtful
        for key, value in row.cells.items()
        if key in ("output_throughput", "interval", "noise")
    )
    assert row.cells["output_throughput"].share is None
    reader = Reader(page_text(everything()))
    numbers = [
        text.strip()
        for attributes, text in reader.rows[row.id]
        if "doubtful" in (attributes.get("class") or "")
    ]
    assert len(numbers) >= 7
    assert all(text.endswith("?") for text in numbers)


def test_what_an_invalid_row_reported_is_in_its_evidence_as_no_result() -> None:
    row = next(row for row in rows_of(everything()).values() if row.status.value == "invalid")
    assert row.gap.startswith("Invalid, no result: ")
    assert INVALID[:40] in row.gap
    reported = {pair.name: pair.value for pair in row.evidence.reported}
    assert reported["output throughput"].endswith(" tok/s")
    assert "What was reported, which is no result" in page_text(everything())


def test_a_failure_is_told_with_its_line_and_what_to_do() -> None:
    found = rows_of(
        summarise(run(), [trial(1, Config(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)], [])
    )
    evidence = next(iter(found.values())).evidence
    assert evidence.cause == "CUDA out of memory"
    assert "Tried to allocate 3.20 GiB" in evidence.decisive
    assert evidence.advice == "use tp=2"


def test_the_best_comes_first_and_only_a_clear_one_is_called_the_best() -> None:
    rows = page_of_run(everything(), Kept()).results.rows
    assert rows[0].best
    assert [row.best for row in rows].count(True) == 1
    values = [row.cells["output_throughput"].sort for row in rows if row.status.value == "valid"]
    assert values == sorted(values, key=float, reverse=True)  # type: ignore[arg-type]
    level = [trial(1, Config()), trial(2, Config(dp=2))]
    same = summarise(run(), level, [*repeats(1, 100, 103, 98), *repeats(2, 101, 99, 102)])
    assert [row.best for row in page_of_run(same, Kept()).results.rows] == [False, False]


def test_the_page_leads_with_the_recommendation_or_else_with_what_the_numbers_say() -> None:
    report = everything()
    advice = recommendations(entries_of_run(report))
    led = page_of_run(report, Kept(), recommendations=advice)
    assert led.advised
    assert led.answers[0].headline == advice[0].sentence
    assert led.answers[0].row in {row.id for row in led.results.rows}
    assert ">Recommendation<" in html(led)
    unled = page_of_run(report, Kept())
    assert "highest output throughput" in unled.answers[0].headline
    assert unled.answers[0].headline not in unled.findings  # once is enough
    assert unled.answers[0].headline in led.findings
    assert ">Recommendation<" not in html(unled)


def test_a_run_without_a_valid_row_recommends_nothing() -> None:
    report = summarise(run(), [trial(1, Config(), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)], [])
    answer = page_of_run(report, Kept()).answers[0]
    assert answer.headline == "Nothing was measured: the only row failed (CUDA out of memory)"
    assert answer.figures == ()


def test_a_run_without_any_row_is_a_page() -> None:
    reader = Reader(page_text(summarise(run(), [], [])))
    assert "table" in [tag for tag, _ in reader.elements]


def test_filters_offer_what_tells_rows_apart_and_nothing_else() -> None:
    filters = {found.key: found.options for found in page_of_run(everything(), Kept()).results.filters}
    assert filters["tp"] == ("1", "2", "4", "8")
    assert filters["gpus"] == ("1", "2", "3", "4", "8")
    assert "model" not in filters
    assert "host" not in filters


def test_text_of_hosts_and_models_stays_text() -> None:
    text = page_text(hostile())
    reader = Reader(text)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)
    assert "{{ 7*7 }}" in text
    assert "\x1b" not in text
    assert "\u2028" not in text


def test_the_page_may_run_its_own_script_only_and_ask_for_nothing() -> None:
    text = page_text(everything())
    policy = next(
        attributes["content"]
        for tag, attributes in Reader(text).elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        content = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def _targets(text: str) -> Iterator[str]:
    for _, attributes in Reader(text).elements:
        yield from (value or "" for name, value in attributes.items() if name in ("src", "href", "action"))


def test_no_attribute_points_anywhere_but_into_the_page_and_the_run(tmp_path: Path) -> None:
    raw = tmp_path / "runs" / "a-run"
    (raw / "report").mkdir(parents=True)
    text = html(page_of_run(everything(raw), Kept(directory=raw, page=raw / "report")))
    targets = set(_targets(text))
    assert "../trial-01/unit.service" in targets
    assert all(re.fullmatch(r"#[\w-]+|\.\./trial-\d+/[\w./-]+", target) for target in targets)
    assert "../trial-01/workload-0/measure-1/" in targets
    assert all((raw / "report" / target).exists() for target in targets if target.startswith(".."))
    ids = [attributes["id"] for _, attributes in Reader(text).elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)


def test_a_page_outside_the_run_has_no_links_to_where_the_runs_are(tmp_path: Path) -> None:
    raw = tmp_path / "runs" / "a-run"
    text = html(page_of_run(everything(raw), Kept(directory=raw, page=tmp_path / "elsewhere")))
    assert "trial-01/unit.service" in text
    assert str(tmp_path) not in text
    assert not any(target.startswith("..") for target in _targets(text))


def test_evidence_is_read_from_the_run(tmp_path: Path) -> None:
    raw = tmp_path / "a-run"
    page = page_of_run(everything(raw), Kept(directory=raw, page=raw / "report"))
    best = page.results.rows[0].evidence
    assert best.command.startswith("/opt/vllm/venvs/vllm-0.11.2/bin/vllm bench serve --model Qwen/")
    assert best.repeats is not None
    assert [row[0] for row in best.repeats.rows] == ["warmup 1", "repeat 1", "repeat 2", "repeat 3"]
    assert best.repeats.rows[0][1].endswith("never counts")
    failed = page.trials[8]
    assert OUT_OF_MEMORY.evidence in failed.journal
    assert "ExecStart=/opt/vllm/venvs/vllm-0.11.2/bin/vllm serve" in failed.unit
    assert failed.versions is not None
    assert ("driver", "570.133.20", "570.133.20") in failed.versions.rows
    assert ("GPUs", "8× NVIDIA H200", "8× NVIDIA H200") in failed.versions.rows
    suspect = next(row for row in page.results.rows if row.status.value == "suspect")
    assert [(found.rule, found.verdict, found.text) for found in suspect.evidence.said] == [
        ("foreign-load", "suspect", SUSPECT)
    ]
    assert suspect.evidence.said[0].numbers == "seconds = 41"


def test_several_starts_of_a_configuration_are_one_row_with_all_their_trials() -> None:
    trials = [trial(1, Config()), trial(2, Config())]
    report = summarise(run(), trials, [*repeats(1, 100, 103, 98), *repeats(2, 101, 99, 102)])
    (row,) = page_of_run(report, Kept()).results.rows
    assert row.trials == (1, 2)
    assert row.evidence.repeats is not None
    assert row.evidence.repeats.rows[1][0] == "trial 1, repeat 1"
    assert len(row.evidence.repeats.rows) == 8


def test_imported_figures_are_a_page_of_their_own_without_a_winner() -> None:
    found = [published("multi-gpu-report.toml"), published("tensor-vs-data-parallel.toml")]
    page = page_of_imported(found)
    assert len(page.results.rows) == sum(len(rows) for _, rows in found)
    assert not page.advised
    assert not any(row.best for row in page.results.rows)
    assert {filter_.key for filter_ in page.results.filters} >= {
        "source",
        "table",
        "model",
        "gpu",
        "tp",
        "pp",
    }
    reader = Reader(html(page))
    assert len(reader.rows) >= len(page.results.rows)
    valid = [row for row in page.results.rows if row.status.value == "valid"]
    assert valid
    assert not any(value.doubtful for row in valid for value in row.cells.values())
    first = page.results.rows[0].evidence
    assert any(pair.name == "where" and "row 1" in pair.value for pair in first.facts)
    assert first.said


def test_a_p99_of_unknown_requests_is_not_said_to_rest_on_few() -> None:
    source, rows = published("multi-gpu-report.toml")
    cells = []
    for completed in (None, 10):
        known = replace(rows[0].row.result, completed=completed, latencies={"p99_ttft_ms": 250.0})
        row = replace(rows[0], row=replace(rows[0].row, result=known))
        (shown,) = page_of_imported([(source, [row])]).results.rows
        cells.append(shown.cells["p99_ttft_ms"].text)
    assert "(" not in cells[0]
    assert "(" in cells[1]


def test_the_same_run_gives_the_same_file_and_it_is_written_with_the_others(tmp_path: Path) -> None:
    report = everything()
    paths = write_files(report, tmp_path / "one")
    again = write_files(report, tmp_path / "two")
    assert paths.page.name == "report.html"
    assert paths.page.read_bytes() == again.page.read_bytes()
    text = paths.page.read_text("utf-8")
    assert text.count("<svg xmlns") == len(paths.charts) > 3
    Reader(text)


def _chart(key: str, section: Section) -> Chart:
    return Chart(key=key, finding=key, alt=f"{key}: a chart", section=section, specification={})


def test_charts_stand_by_section_and_the_first_ones_are_shown_at_once() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><rect width="1"/></svg>'
    drawn = [(_chart(f"m{place}", Section.METRICS), svg) for place in range(9)]
    drawn.append((_chart("split", Section.CHOICE), svg))
    page = with_charts(page_of_run(everything(), Kept()), drawn)
    assert [gallery.title for gallery in page.galleries] == ["Which configuration", "Metric by metric"]
    assert [len(gallery.drawings) for gallery in page.galleries] == [1, 5]
    assert [len(gallery.more) for gallery in page.galleries] == [0, 4]
    text = html(page)
    assert "Metric by metric: 4 more charts" in text
    assert len(re.findall(r'id="chart-[\w-]+"', text)) == 10


def test_large_charts_are_not_shown_at_once_but_the_first() -> None:
    large = f'<svg xmlns="http://www.w3.org/2000/svg"><path d="M{"0,0h1" * 70_000}"/></svg>'
    drawn = [(_chart(f"m{place}", Section.METRICS), large) for place in range(3)]
    (gallery,) = with_charts(page_of_run(everything(), Kept()), drawn).galleries
    assert (len(gallery.drawings), len(gallery.more)) == (1, 2)


def test_a_chart_that_the_page_has_no_room_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetbench.report.html.galleries.MOST_BYTES", 0)
    monkeypatch.setattr("fleetbench.report.html.galleries.LEAST_BYTES", 1000)
    small = '<svg xmlns="http://www.w3.org/2000/svg"><rect width="1"/></svg>'
    large = f'<svg xmlns="http://www.w3.org/2000/svg"><path d="M{"0,0h1" * 1000}"/></svg>'
    drawn = [(_chart("large", Section.CHOICE), large), (_chart("small", Section.METRICS), small)]
    page = with_charts(page_of_run(everything(), Kept()), drawn)
    assert [gallery.left_out for gallery in page.galleries] == [("charts/large.svg",), ()]
    text = html(page)
    assert "1 more lies beside this file, from charts/large.svg on" in text
    assert 'id="chart-small"' in text


def test_a_report_of_200_trials_with_all_their_evidence_is_smaller_than_5_mb(tmp_path: Path) -> None:
    page = page_of_run(everything(tmp_path, 200), Kept(directory=tmp_path, page=tmp_path))
    assert len(page.results.rows) == 200
    assert len(html(page).encode()) < MOST_BYTES - LEAST_BYTES


def test_a_ladder_of_one_configuration_has_bars_of_one_scale_and_says_itself_once() -> None:
    loads = (CLOSED, replace(CLOSED, max_concurrency=8))
    rows = [*repeats(1, 400.0, 400.0), *repeats(1, 100.0, 100.0, workload_index=1)]
    page = page_of_run(summarise(run(), [trial(1, Config(), workloads=loads)], rows), Kept())
    shares = {row.cells["output_throughput"].share for row in page.results.rows}
    assert shares == {100.0, 25.0}
    assert not [text for text in page.findings if text.startswith(CLOSED.label)]
