"""What is put into the page as markup or read from a run: chart SVGs, journals, files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fleetbench.report.html.kept import Kept, excerpt
from fleetbench.report.html.svg import inlined, lines_of, tooltip_titles

SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="x()">
<defs><clipPath id="clip0"><rect width="5" height="5"/></clipPath></defs>
<script>alert(1)</script><foreignObject><p>x</p></foreignObject><style>@import url(http://x.test/)</style>
<a xlink:href="http://x.test/"><text>linked</text></a><image href="http://x.test/a.png"/>
<g clip-path="url(#clip0)" fill="url(http://x.test/#a)" style="fill:red" stroke="url('javascript:x')">
<path d="M0,8.840000001h284.61706599411514v1e-7" aria-roledescription="bar"
 aria-label="tok/s: 101; label: tp=1; configuration: tp=1 dp=1; value: 101 tok/s; cause: a; b"/>
<path d="M0,0" aria-roledescription="axis" aria-label="X-axis titled 'value: 3'"/>
<text>&lt;script&gt;</text></g></svg>"""


def test_an_svg_keeps_shapes_and_text_and_nothing_that_acts_or_asks() -> None:
    text = inlined(SVG, "chart-a", 'a "chart" <b>')
    for word in (
        "script>alert",
        "foreignObject",
        "@import",
        "x.test",
        "onload",
        "style",
        "javascript",
        "href",
    ):
        assert word not in text
    assert "&lt;script&gt;" in text
    assert 'aria-label="a &quot;chart&quot; &lt;b&gt;"' in text
    assert 'role="img"' in text


def test_ids_of_two_charts_do_not_meet() -> None:
    text = inlined(SVG, "chart-a", "a")
    assert 'id="chart-a-clip0"' in text
    assert 'clip-path="url(#chart-a-clip0)"' in text


def test_coordinates_lose_digits_that_nobody_sees() -> None:
    assert 'd="M0,8.84h284.62v1e-7"' in inlined(SVG, "a", "a")


def test_a_mark_says_the_fields_of_its_tooltip_in_their_order() -> None:
    titles = ("configuration", "value", "cause")
    text = inlined(SVG, "a", "a", titles)
    assert 'data-says="configuration: tp=1 dp=1&#10;value: 101 tok/s&#10;cause: a; b"' in text
    assert text.count("data-says") == 1  # the axis says nothing
    assert lines_of("low: 1; high: 2", titles) == []
    assert lines_of("low: 1; high: 2") == ["low: 1", "high: 2"]
    assert lines_of("value: 1; configuration: x; value: forged", titles) == ["configuration: x", "value: 1"]


def test_tooltip_titles_are_found_wherever_a_layer_has_them() -> None:
    layer = {"encoding": {"tooltip": [{"field": "name", "title": "configuration"}, {"field": "load"}]}}
    specification = {"vconcat": [{"layer": [layer]}], "datasets": {"tooltip": [{"field": "x"}]}}
    assert list(tooltip_titles(specification)) == ["configuration", "load"]


def test_an_excerpt_is_around_the_decisive_line() -> None:
    lines = [f"line {number}" for number in range(40)]
    lines[20] = "ERROR   out of\tmemory here"
    text, found = excerpt("\n".join(lines), "out of memory")
    assert found
    assert text.splitlines()[0] == "line 14"
    assert text.splitlines()[-1] == "line 24"


def test_an_excerpt_without_that_line_is_the_end_without_answered_requests() -> None:
    lines = [f"line {number}" for number in range(40)]
    lines += ['INFO: 127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK'] * 50
    text, found = excerpt("\n".join(lines), "")
    assert not found
    assert text.splitlines() == [f"line {number}" for number in range(30, 40)]


def test_an_excerpt_moves_no_cursor_and_tells_no_secret() -> None:
    text, _ = excerpt("a\x1b[2Jb HF_TOKEN=hf_AbCdEfGh12345678 \u202e" + "x" * 5000, "")
    assert "\x1b" not in text
    assert "hf_AbC" not in text
    assert len(text) <= 400


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_what_is_broken_is_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "client.json").write_bytes(content)
    kept = Kept(directory=tmp_path)
    assert kept.document(".", "client.json") == {}
    assert kept.document("missing", "client.json") == {}
    assert kept.journal("missing", "x") == ("", "")
    assert Kept().files("trial-01") == ()
    assert Kept().journal("trial-01", "") == ("", "")


def test_of_several_journals_the_one_with_the_decisive_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "vllm-sweep-8102.journal").write_text("all is well\n")
    (tmp_path / "vllm-sweep-8103.journal.gz").write_bytes(gzip.compress(b"boom at last\n"))
    kept = Kept(directory=tmp_path)
    assert kept.journal(".", "boom") == ("vllm-sweep-8103.journal", "boom at last")
    assert kept.journal(".", "unknown") == ("vllm-sweep-8102.journal", "all is well")


def test_only_plain_names_of_real_files_become_links(tmp_path: Path) -> None:
    place = tmp_path / "trial-01"
    place.mkdir()
    for name in ("unit.service", "a b.txt", "x'y", 'q"><script>'):
        (place / name).write_text("x")
    (place / "outside").symlink_to("/etc/hostname")
    (tmp_path / "report").mkdir()
    files = {
        link.path: link.href for link in Kept(directory=tmp_path, page=tmp_path / "report").files("trial-01")
    }
    assert files.pop("trial-01/unit.service") == "../trial-01/unit.service"
    assert len(files) == 3
    assert set(files.values()) == {""}


def test_documents_are_read_plain_and_packed(tmp_path: Path) -> None:
    (tmp_path / "versions.json.gz").write_bytes(gzip.compress(json.dumps({"a": 1}).encode()))
    assert Kept(directory=tmp_path).document(".", "versions.json") == {"a": 1}
