"""How large report.html is, and how soon it can be used: `python benchmarks/report_html.py [TRIALS…]`.

Makes a run of so many trials with evidence and its report.html, opens that in the distribution's Chromium
and prints a table as in report_html.md. Times are medians of five openings, from the start of the navigation.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from chromium import browser, opened  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from sample_report import everything  # noqa: E402

from fleetbench.choice.recommend import recommendations  # noqa: E402
from fleetbench.drawing.vega import svg_of  # noqa: E402
from fleetbench.report.charts import charts_of_run  # noqa: E402
from fleetbench.report.html.galleries import with_charts  # noqa: E402
from fleetbench.report.html.kept import Kept  # noqa: E402
from fleetbench.report.html.render import html  # noqa: E402
from fleetbench.report.html.run_page import page_of_run  # noqa: E402
from fleetbench.report.own_entries import entries_of_run  # noqa: E402

TIMES = 5
# What a reader does first, and what shows that it was done. Timed in the page, until it is drawn.
FIRST_SORT = """() => new Promise((done) => {
  document.querySelector('thead th[data-key="output_throughput"] button').click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now())));
})"""
TYPED = """() => new Promise((done) => {
  const began = performance.now();
  const field = document.querySelector("[name=text]");
  field.value = "KV cache";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""
OPENED = """() => new Promise((done) => {
  const began = performance.now();
  document.querySelector("button.more").click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


def rows(trials: int) -> Iterator[tuple[str, str]]:
    """Yield what was measured of a report of so many trials, in words."""
    with tempfile.TemporaryDirectory() as place:
        raw = Path(place)
        report = everything(raw, trials)
        drawing, drawn = _timed(
            lambda: [(chart, svg_of(chart.specification)) for chart in charts_of_run(report, raw)]
        )
        advice = recommendations(entries_of_run(report))
        making, text = _timed(
            lambda: html(
                with_charts(
                    page_of_run(report, Kept(directory=raw, page=raw / "report"), recommendations=advice),
                    [(chart, svg.decode()) for chart, svg in drawn],
                )
            )
        )
        file = raw / "report" / "report.html"
        file.parent.mkdir()
        file.write_text(text)
        yield "rows", f"{len(entries_of_run(report)):,}"
        yield "size", f"{len(text.encode()) / 1e6:.2f} MB"
        yield (
            "of which charts",
            f"{sum(len(svg) for _, svg in drawn) / 1e6:.2f} MB as drawn, {len(drawn)} charts",
        )
        yield "drawing the charts", f"{drawing:.1f} s"
        yield "making the page", f"{making:.2f} s"
        yield from _in_browser(file)


def _in_browser(file: Path) -> Iterator[tuple[str, str]]:
    flat = file.with_name("flat.html")
    flat.write_text(file.read_text().replace("<noscript>", "").replace("</noscript>", ""))
    found: dict[str, list[float]] = {}
    with browser() as started:
        for _, shown in product(range(TIMES), (file, flat)):
            for what, time_ms in _opened_once(started, shown):
                name = what if shown is file else f"{what}, everything in the document"
                found.setdefault(name, []).append(time_ms)
    yield from ((what, f"{statistics.median(times):,.0f} ms") for what, times in found.items())


def _opened_once(started: Browser, file: Path) -> Iterator[tuple[str, float]]:
    with opened(started, file, viewport={"width": 1280, "height": 800}) as shown:
        yield "first sort, from opening", shown.page.evaluate(FIRST_SORT)
        session = shown.page.context.new_cdp_session(shown.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        shown.page.reload()
        shown.page.evaluate(FIRST_SORT)
        metrics = session.send("Performance.getMetrics")["metrics"]
        yield (
            "processor time of that",
            1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration"),
        )
        if file.name != "flat.html":
            yield "a search through all evidence", shown.page.evaluate(TYPED)
            yield "opening a row", shown.page.evaluate(OPENED)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    made = work()
    return time.monotonic() - began, made


def main() -> None:
    """Print a table, a column for each number of trials."""
    wanted = [int(word) for word in sys.argv[1:]] or [12, 200]
    columns = [dict(rows(trials)) for trials in wanted]
    lines = [["", *(f"{trials:,} trials" for trials in wanted)], ["---", *("---:" for _ in wanted)]]
    lines += [[what, *(column.get(what, "") for column in columns)] for what in columns[0]]
    sys.stdout.write("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")


if __name__ == "__main__":
    main()
