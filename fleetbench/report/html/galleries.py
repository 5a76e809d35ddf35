"""Drawn charts as parts of the page, by section. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fleetbench.report.charts import Chart, Section
from fleetbench.report.html.svg import inlined, tooltip_titles
from fleetbench.report.html.values import Drawing, Gallery

OPEN = 6  # so many charts are shown at once, the others on demand


def galleries(drawn: Iterable[tuple[Chart, str]]) -> tuple[Gallery, ...]:
    """Given charts and the SVG of each, return them by section, in the order of the sections."""
    found: dict[Section, list[Drawing]] = {}
    for chart, svg in drawn:
        name = f"chart-{chart.key}"
        titles = tuple(dict.fromkeys(tooltip_titles(chart.specification)))
        markup = inlined(svg, name, chart.alt, titles)
        found.setdefault(chart.section, []).append(Drawing(id=name, svg=markup))
    made: list[Gallery] = []
    left = OPEN
    for section in Section:
        if here := tuple(found.get(section, ())):
            made.append(Gallery(title=section.value, drawings=here[:left], more=here[left:]))
            left -= len(here[:left])
    return tuple(made)
