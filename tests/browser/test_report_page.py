"""The report in a browser: it asks for nothing, nothing goes wrong in it, and it needs no mouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chromium import Opened, browser, opened
from contrast import too_faint
from playwright.sync_api import Browser, Page, expect
from sample_report import everything
from test_html_page import hostile

from fleetbench.choice.recommend import recommendations
from fleetbench.report.files import write_files
from fleetbench.report.own_entries import entries_of_run

pytestmark = pytest.mark.browser

Open = Callable[..., AbstractContextManager[Opened]]
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """One browser for all tests; each opens a page of its own."""
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with one of everything, in its run's directory."""
    raw = tmp_path_factory.mktemp("run")
    report = everything(raw)
    return write_files(report, raw / "report", raw, recommendations(entries_of_run(report))).page


@pytest.fixture
def show(started: Browser, file: Path) -> Open:
    """What opens the report, as `with show() as found:`; nothing may go wrong in it."""
    return partial(opened, started, file)


def names(page: Page) -> list[str]:
    """The configurations of the rows that can be seen, from the top."""
    return [text.strip() for text in page.locator("tbody:not([hidden]) button.more").all_inner_texts()]


def column(page: Page, key: str) -> list[str]:
    """The cells of a column from the top; `-` for a row that has none."""
    script = """(bodies, key) =>
        bodies.map((body) => body.rows[0].querySelector(`[data-key="${key}"]`)?.innerText ?? "-")"""
    found: list[str] = page.locator("table.results > tbody").evaluate_all(script, key)
    return found


def head(page: Page, key: str) -> Any:
    """The heading of a column."""
    return page.locator(f'table.results > thead th[data-key="{key}"]')


def test_it_asks_for_nothing_and_says_nothing_on_the_console(show: Open, file: Path) -> None:
    with show() as found:
        for button in found.page.locator("button.more").all():
            button.click()
        found.page.locator("[name=columns]").click()
        found.page.locator("details > summary").first.click()
        found.page.mouse.wheel(0, 5000)
        assert found.requests == [file.resolve().as_uri()]
        assert found.errors == []


def test_numbers_are_sorted_as_numbers_both_ways_and_what_is_missing_comes_last(show: Open) -> None:
    with show() as found:
        page = found.page
        assert head(page, "output_throughput").get_attribute("aria-sort") == "none"
        for way, reverse in (("descending", True), ("ascending", False)):
            head(page, "output_throughput").locator("button").click()
            assert head(page, "output_throughput").get_attribute("aria-sort") == way
            cells = column(page, "output_throughput")
            valid = [float(cell.replace(",", "")) for cell in cells if re.fullmatch(r"[\d,.]+", cell)]
            assert len(valid) == 7
            assert valid == sorted(valid, reverse=reverse)
            assert [cell.endswith("?") for cell in cells] == [False] * 7 + [True] + [False] * 4
            assert cells[8:] == ["-"] * 4
        head(page, "p99_ttft_ms").locator("button").click()
        assert head(page, "p99_ttft_ms").get_attribute("aria-sort") == "ascending"
        assert head(page, "output_throughput").get_attribute("aria-sort") == "none"
        cells = column(page, "p99_ttft_ms")
        valid = [float(cell.replace(",", "")) for cell in cells[:7]]
        assert valid == sorted(valid)


def test_rows_are_filtered_by_status_axis_and_text(show: Open) -> None:
    with show() as found:
        page = found.page
        assert len(names(page)) == 12
        page.locator('.chip[data-status="failed"]').click()
        assert page.locator('.chip[data-status="failed"]').get_attribute("aria-pressed") == "true"
        assert names(page) == ["tp=1 dp=2"]
        assert page.locator("p.shown").inner_text() == "1 of 12 rows"
        page.locator('.chip[data-status="implied"]').click()
        assert len(names(page)) == 2
        page.locator("button[type=reset]").click()
        expect(page.locator("tbody[hidden]")).to_have_count(0)
        page.locator("select[name=tp]").select_option("4")
        assert sorted(names(page)) == ["tp=4 dp=1", "tp=4 dp=2"]
        page.locator("[name=text]").fill("dp=2")
        assert names(page) == ["tp=4 dp=2"]
        page.locator("[name=text]").fill("nothing has this")
        assert names(page) == []
        page.locator("button[type=reset]").click()
        expect(page.locator("tbody[hidden]")).to_have_count(0)
        page.locator("[name=text]").fill("no available MEMORY")  # only in the evidence of one row
        assert names(page) == ["tp=1 dp=2"]
        assert found.errors == []


def test_a_row_is_opened_by_keyboard_and_shows_its_unit_command_and_journal(show: Open) -> None:
    with show() as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["y"] >= 0  # type: ignore[index]
        page.keyboard.press("Enter")
        button = page.locator("button.more").first
        for _ in range(60):
            page.keyboard.press("Tab")
            if button.evaluate("button => button === document.activeElement"):
                break
        else:
            pytest.fail("the first row's button cannot be reached by Tab")
        outline = button.evaluate("button => getComputedStyle(button).outlineStyle")
        assert outline == "solid"
        assert button.get_attribute("aria-expanded") == "false"
        evidence = page.locator(f"#{button.get_attribute('aria-controls')}")
        assert not evidence.is_visible()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        assert evidence.is_visible()
        said = evidence.inner_text()
        for word in (
            "ExecStart=",
            "vllm bench serve",
            "Application startup complete",
            "570.133.20",
            "gpu-01",
        ):
            assert word in said
        page.keyboard.press("Enter")
        assert not evidence.is_visible()


def test_the_recommendation_leads_to_its_row(show: Open) -> None:
    with show() as found:
        page = found.page
        assert "Recommendation" in page.locator(".lead .eyebrow").first.inner_text(timeout=1000).title()
        page.locator(".lead .of a").click()
        page.wait_for_selector("tbody.open")
        assert "best output" in page.locator("tbody.open .best").inner_text()


def test_a_chart_tells_its_values_to_a_pointer_and_to_the_keyboard(show: Open) -> None:
    with show() as found:
        page = found.page
        paper = page.locator(".paper").first
        assert paper.locator("svg").get_attribute("role") == "img"
        assert len(paper.locator("svg").get_attribute("aria-label") or "") > 40
        mark = paper.locator("[data-says]").first
        mark.scroll_into_view_if_needed()
        mark.hover(position={"x": 4, "y": 4})  # there may be a text in its middle
        assert "configuration: " in page.locator("#tip").inner_text()
        page.mouse.move(0, 0)
        assert not page.locator("#tip").is_visible()
        paper.focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#tip").inner_text()
        page.keyboard.press("ArrowRight")
        assert first
        assert page.locator("#tip").inner_text() != first
        page.keyboard.press("Escape")
        assert not page.locator("#tip").is_visible()


def test_charts_that_are_shown_on_demand_tell_their_values_too(show: Open) -> None:
    with show() as found:
        page = found.page
        before = page.locator(".paper").count()
        page.locator("details.others > summary").first.click()
        expect(page.locator("details.others .paper svg").first).to_be_visible()
        assert page.locator(".paper").count() > before
        page.locator("details.others .paper").first.focus()
        page.keyboard.press("End")
        assert page.locator("#tip").inner_text()
        assert found.errors == []


def test_charts_and_rows_are_there_without_javascript(show: Open) -> None:
    with show(java_script_enabled=False) as found:
        page = found.page
        assert len(names(page)) == 12
        assert page.locator(".paper svg").first.is_visible()
        assert "ExecStart=" in page.locator("#trials").inner_text()
        assert page.locator("tr.evidence").first.is_visible()
        assert not page.locator("form.filters").is_visible()


def test_paper_has_the_essentials_of_every_row(show: Open) -> None:
    with show() as found:
        page = found.page
        page.emulate_media(media="print")
        assert not page.locator("form.filters").is_visible()
        width = page.evaluate("document.documentElement.clientWidth")
        for body in page.locator("table.results > tbody").all():
            for cell in body.locator("tr.row > *:visible").all():
                box = cell.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= width + 1
            assert body.locator("tr.row .badge").is_visible()
            if body.get_attribute("class") == "valid":
                assert body.locator('[data-key="output_throughput"]').is_visible()
            if body.get_attribute("class") in ("failed", "invalid", "implied", "not-run"):
                assert len(body.locator(".gap").inner_text()) > 20
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.others:not([open])").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(show: Open, scheme: str) -> None:
    with show(color_scheme=scheme) as found:
        page = found.page
        for status in ("valid", "suspect", "invalid", "failed", "implied", "not run"):
            page.locator(f'tbody[data-status="{status}"] button.more').first.click()
        page.locator('.chip[data-status="valid"]').click()
        page.locator('.chip[data-status="valid"]').click()
        page.locator('.chip[data-status="failed"]').focus()
        assert too_faint(page) == []
        page.emulate_media(media="print", color_scheme=scheme)  # type: ignore[arg-type]
        assert too_faint(page) == []


def test_a_telephone_scrolls_the_table_and_not_the_page(show: Open) -> None:
    with show(viewport=PHONE) as found:
        page = found.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("button.more").first.click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        box = page.locator("tbody.open .inner").bounding_box()
        assert box is not None
        assert box["width"] <= PHONE["width"]


def test_nothing_moves_for_those_who_asked_for_it(show: Open) -> None:
    with show(reduced_motion="reduce") as found:
        durations = found.page.locator("*").evaluate_all(
            "all => all.map(element => getComputedStyle(element).transitionDuration)"
        )
        assert set(durations) == {"0s"}


def test_hostile_names_do_nothing(started: Browser, tmp_path: Path) -> None:
    file = write_files(hostile(), tmp_path).page
    dialogs: list[str] = []
    with opened(started, file) as found:
        found.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for button in found.page.locator("button.more").all():
            button.click()
        for mark in found.page.locator("[data-says]").all()[:3]:
            mark.dispatch_event("pointermove", {"bubbles": True})
        found.page.locator("[name=text]").fill("<script>alert(1)</script>")
        assert len(names(found.page)) == 2
        assert found.page.locator("img").count() == 0
        assert found.requests == [file.resolve().as_uri()]
        assert found.errors == []
    assert dialogs == []
