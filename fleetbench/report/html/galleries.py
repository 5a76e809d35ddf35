"""Drawn charts as parts of the page, by section, as far as it has room for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleetbench.report.charts import Chart, Section
from fleetbench.report.html.render import html
from fleetbench.report.html.svg import inlined, tooltip_titles
from fleetbench.report.html.values import Drawing, Gallery, Page

OPEN = 6  # so many charts are shown at once, the others on demand
# A page of 200 trials is sent around, and stays below 5 MB. Evidence goes before charts: these are files.
MOST_BYTES = 4_800_000
LEAST_BYTES = 1_000_000  # of charts, however long the page is


def with_charts(page: Page, drawn: Iterable[tuple[Chart, str]]) -> Page:
    """Given a page, charts and the SVG of each, return it with those that it has room for.

    They stand by section, in the order of the sections; what is left out is named by its file.
    """
    sections = list(Section)
    found: dict[Section, list[Drawing]] = {}
    left_out: dict[Section, list[str]] = {}
    room = max(LEAST_BYTES, MOST_BYTES - len(html(page).encode()))
    for chart, svg in sorted(drawn, key=lambda pair: sections.index(pair[0].section)):
        drawing = _drawing(chart, svg)
        size = len(drawing.svg.encode())
        if size <= room:
            room -= size
            found.setdefault(chart.section, []).append(drawing)
        else:
            left_out.setdefault(chart.section, []).append(f"charts/{chart.key}.svg")
    made: list[Gallery] = []
    left = OPEN
    for section in sections:
        here, others = tuple(found.get(section, ())), tuple(left_out.get(section, ()))
        if here or others:
            made.append(Gallery(title=section.value, drawings=here[:left], more=here[left:], left_out=others))
            left -= len(here[:left])
    return replace(page, galleries=tuple(made))


def _drawing(chart: Chart, svg: str) -> Drawing:
    name = f"chart-{chart.key}"
    titles = tuple(dict.fromkeys(tooltip_titles(chart.specification)))
    return Drawing(id=name, svg=inlined(svg, name, chart.alt, titles))
