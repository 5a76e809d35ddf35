"""What became of each configuration of a run none of whose rows counts: one chart instead of one a metric.

A suspect row has a hollow bar, since somebody wants to see its number, with what is held against it below;
the others have their cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    FAINT,
    GAP_COLOUR,
    GRID,
    MARGIN,
    SUSPECT_COLOUR,
    WIDTH,
    Chart,
    Section,
    Sheet,
    altair_module,
    alternative,
)
from fleetbench.report.charts.populations import Population
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.outcome import nothing_valid

MOST_ROWS = 32  # of one chart
ROW_PX, LINE_PX = 44, 17
ROOM_FOR_VALUES = 1.22  # the axis goes beyond the longest bar, for the value printed after it
ABOVE, BELOW = -9, 10  # of the middle of a row: the bar, and what is held against it


def outcome_charts(population: Population) -> Iterator[Chart]:
    """Yield the chart of own entries none of which is valid; none of one row, or where nothing was tried."""
    entries = population.entries
    finding = nothing_valid(entries)
    tried = any(entry.status is not Status.UNMEASURED for entry in entries)
    if not finding or not tried or len(entries) < 2 or any(entry.imported for entry in entries):
        return
    longest = _longest(entries)
    hollow = f"Hollow: {OUTPUT.title} of suspect rows, {OUTPUT.unit}, never ranked." if longest else ""
    pages = _pages(population)
    for number, page in enumerate(pages, start=1):
        sheet = Sheet()
        titled = len(population.loads) > 1
        panels = [_panel(sheet, part, longest, title=load if titled else "") for load, part in page]
        part = f"Part {number} of {len(pages)}." if len(pages) > 1 else ""
        under = "" if titled else f"Under {entries[0].load}."
        yield Chart(
            key=population.key("outcomes", number),
            finding=finding,
            alt=alternative(
                "What became of each configuration",
                finding,
                [f"{entry.name} {marks.gap_text(entry, OUTPUT)}" for _, rows in page for entry in rows],
            ),
            section=Section.CHOICE,
            specification=sheet.framed(
                panels, finding, (" ".join(filter(None, (hollow, under, part))), population.about)
            ),
        )


def _pages(population: Population) -> list[list[tuple[str, Sequence[Entry]]]]:
    """Return loads with their entries for each chart, which has room for `MOST_ROWS`."""
    pages: list[list[tuple[str, Sequence[Entry]]]] = []
    room = 0
    for load, entries in population.loads.items():
        for first in range(0, len(entries), MOST_ROWS):
            part = entries[first : first + MOST_ROWS]
            if len(part) > room:
                pages.append([])
                room = MOST_ROWS
            pages[-1].append((load, part))
            room -= len(part)
    return pages


def _longest(entries: Sequence[Entry]) -> float:
    return max((entry.value(OUTPUT) or 0.0 for entry in entries if entry.status in marks.DRAWN), default=0.0)


def _panel(sheet: Sheet, entries: Sequence[Entry], longest: float, *, title: str) -> dict[str, Any]:
    altair = altair_module()
    names = marks.labels(entries)
    rows = [_row(entry, name) for entry, name in zip(entries, names, strict=True)]
    bars = [row for row in rows if row["value"] is not None]
    gaps = [row for row in rows if row["value"] is None]
    names_px = marks.label_px(names)
    width = WIDTH - 2 * MARGIN - marks.LABEL_WIDTH_PX - names_px
    y = altair.Y(
        "label:N",
        sort=list(names),
        title=None,
        scale=altair.Scale(domain=list(names)),
        axis=marks.label_axis(names_px, domainColor=FAINT),
    )
    scale = altair.Scale(domain=[0, longest * ROOM_FOR_VALUES or 1.0], nice=False)
    axis = (
        altair.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=6, format=",~r") if longest else None
    )
    x = altair.X("value:Q", title=OUTPUT.unit, scale=scale, axis=axis)
    tips = marks.tooltip(OUTPUT)
    text = {"align": "left", "x": 8, "fontSize": 13, "fontStyle": "italic", "limit": width - 16}
    layers = [
        sheet.of(bars)
        .mark_bar(
            height=12, yOffset=ABOVE, fill="white", stroke=SUSPECT_COLOUR, strokeDash=[3, 2], strokeWidth=1.5
        )
        .encode(y=y, x=x, tooltip=tips),
        sheet.of(bars)
        .mark_text(align="left", dx=9, dy=ABOVE, fontSize=13, color=SUSPECT_COLOUR)
        .encode(y=y, x=x, text="shown_short:N"),
        sheet.of(bars)
        .mark_text(dy=BELOW, color=SUSPECT_COLOUR, **text)
        .encode(y=y, text="why:N", tooltip=tips),
        sheet.of(gaps).mark_text(color=GAP_COLOUR, **text).encode(y=y, text="why:N", tooltip=tips),
    ]
    lines = max(name.count("\n") + 1 for name in names)
    step = max(ROW_PX, LINE_PX * lines + 12)
    return sheet.layered(layers if bars else layers[3:], width=width, height={"step": step}, title=title)


def _row(entry: Entry, name: str) -> dict[str, Any]:
    value = entry.value(OUTPUT) if entry.status in marks.DRAWN else None
    return {
        "label": name,
        "value": value,
        "shown_short": OUTPUT.shown(value),
        "why": marks.gap_text(entry, OUTPUT),
        **marks.facts(entry, OUTPUT),
    }
