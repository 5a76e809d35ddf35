"""Drawn charts as parts of the page, by section, as far as it has room for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from fleetbench.report.charts import Chart, Section
from fleetbench.report.html.render import html
from fleetbench.report.html.svg import inlined, tooltip_titles
from fleetbench.report.html.values import Drawing, Gallery, Page

# So many charts are shown at once, the others on demand; fewer where they are large, and one at least.
OPEN, OPEN_BYTES = 6, 300_000
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
    at_once = _at_once([drawing for section in sections for drawing in found.get(section, ())])
    for section in sections:
        here, others = tuple(found.get(section, ())), tuple(left_out.get(section, ()))
        if here or others:
            made.append(
                Gallery(title=section.value, drawings=here[:at_once], more=here[at_once:], left_out=others)
            )
            at_once -= len(here[:at_once])
    return replace(page, galleries=tuple(made))


def _at_once(drawings: Sequence[Drawing]) -> int:
    """Return how many of the drawings, from the first one on, are shown at once."""
    sizes = accumulate(len(drawing.svg) for drawing in drawings[:OPEN])
    return max(1, sum(size <= OPEN_BYTES for size in sizes))


def _drawing(chart: Chart, svg: str) -> Drawing:
    name = f"chart-{chart.key}"
    titles = tuple(dict.fromkeys(tooltip_titles(chart.specification)))
    return Drawing(id=name, svg=inlined(svg, name, chart.alt, titles))
