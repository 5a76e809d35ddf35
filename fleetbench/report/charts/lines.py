"""What curves over concurrency and over context length have in common: lines, suspect points, gaps.

A line goes through valid values only. A suspect one is a hollow grey mark beside it; what has no number is a
mark in the strip under the panels, where no axis gives it a value, with its cause.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbench.errors import one_line
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    FAINT,
    GAP_COLOUR,
    GRID,
    LINE_COLOURS,
    LINE_DASHES,
    LINE_SHAPES,
    MARGIN,
    MOST_LINES,
    SUSPECT_COLOUR,
    WIDTH,
    Sheet,
    altair_module,
    legend,
)
from fleetbench.report.charts.strip import strip_of
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT, Metric

PANEL_PX = 190
AXIS_PX = 78  # of the values of a panel
MOST_TICKS = 7
LABEL_CHARACTERS = 48
SHARED = {"scale": {"color": "shared", "shape": "shared"}}  # one legend for all panels


Points = Mapping[str, Sequence[tuple[float, Entry]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Entries by line and place on the axis.

    Attributes:
        points: by the name of the line; what failed is a point, too.
        axis: title of the horizontal axis, which is logarithmic.
        limits: what an SLO allows, by the key of its metric.
        dropped: further lines, whose values are not drawn; what failed of them is.
        status: of the values that lines go through: suspect only where nothing is valid.
    """

    points: Points
    axis: str
    limits: Mapping[str, float]
    dropped: Points
    status: Status = Status.VALID

    @classmethod
    def of(cls, points: Points, axis: str, limits: Mapping[str, float]) -> Lines:
        """Return the lines that are drawn: of more than there are colours the highest; see `note`."""
        points = {name: found for name, found in points.items() if len(_places(found)) > 1}
        order = sorted(points, key=lambda name: -_peak(points[name]))
        first = [name for name in order[:MOST_LINES] if _peak(points[name])]
        return cls(
            points={name: points[name] for name in points if name in first},
            axis=axis,
            limits=limits,
            dropped={name: points[name] for name in order if name not in first},
            status=marks.counted((entry for found in points.values() for _, entry in found), OUTPUT),
        )

    @property
    def places(self) -> list[float]:
        """Every place on the axis, in order."""
        lines = (*self.points.values(), *self.dropped.values())
        return sorted({place for found in lines for place, _ in found})

    @property
    def worth_drawing(self) -> bool:
        """Whether a line goes from one place to another."""
        return any(
            len(_places([point for point in found if point[1].status is self.status])) > 1
            for found in self.points.values()
        )

    @property
    def entries(self) -> list[Entry]:
        """Every entry that belongs to a line."""
        return [entry for found in self.points.values() for _, entry in found]

    @property
    def reading(self) -> str:
        """How the marks are read."""
        if self.status is Status.VALID:
            return "Filled: valid, the bar from lowest to highest repeat. Hollow and grey: suspect."
        return f"No row is valid. {marks.why_suspect(self.entries)}"

    @property
    def note(self) -> str:
        """What is not drawn, or nothing."""
        lower = [name for name, found in self.dropped.items() if _peak(found)]
        if not lower:
            return ""
        names = ", ".join(one_line(name, 40) for name in lower[:4])
        more = f" and {len(lower) - 4} more" if len(lower) > 4 else ""
        return f"The {len(self.points)} highest are drawn; in the tables only: {names}{more}."


def _places(points: Sequence[tuple[float, Entry]]) -> set[float]:
    return {place for place, _ in points}


def _peak(points: Sequence[tuple[float, Entry]]) -> float:
    return max((entry.value(OUTPUT) or 0 for _, entry in points if entry.status in marks.DRAWN), default=0.0)


def drawn(sheet: Sheet, lines: Lines, panels: Sequence[Metric]) -> list[dict[str, Any]]:
    """Return a panel for each metric, from top to bottom, and the strip."""
    strip = list(_gaps(lines))
    charts = [_panel(sheet, lines, metric, last=metric is panels[-1] and not strip) for metric in panels]
    if strip:
        charts.append(strip_of(sheet, strip, x=x_axis(lines, titled=True), width=width()))
    return charts


def spoken(lines: Lines, panels: Sequence[Metric]) -> list[str]:
    """Return the values for those who do not see them."""
    metric = panels[0]
    return [
        f"{name}: "
        + ", ".join(
            f"{marks.said(entry, metric, f'at {place:,g}:')}" for place, entry in sorted(found, key=_place)
        )
        for name, found in lines.points.items()
    ]


def _place(point: tuple[float, Entry]) -> float:
    return point[0]


def _label(name: str) -> str:
    return one_line(name, LABEL_CHARACTERS)


def width() -> int:
    """Return the width of a panel in pixels."""
    return WIDTH - 2 * MARGIN - AXIS_PX


def x_axis(lines: Lines, *, titled: bool) -> Any:
    altair = altair_module()
    places = lines.places
    return altair.X(
        "place:Q",
        title=lines.axis if titled else None,
        scale=altair.Scale(
            type="log", base=2, domain=[places[0] / 1.15, places[-1] * 1.15], nice=False, zero=False
        ),
        axis=altair.Axis(
            values=places,
            format=",d",
            gridColor=GRID,
            domainColor=FAINT,
            tickColor=FAINT,
            labelOverlap="greedy",
            labelSeparation=8,
        ),
    )


def _panel(sheet: Sheet, lines: Lines, metric: Metric, *, last: bool) -> dict[str, Any]:
    altair = altair_module()
    names = [_label(name) for name in lines.points]
    points: list[dict[str, Any]] = []
    paths: list[dict[str, Any]] = []
    hollow: list[dict[str, Any]] = []
    for name, dash in zip(lines.points, LINE_DASHES, strict=False):
        found = lines.points[name]
        by_place: dict[float, list[float]] = {}
        for place, entry in found:
            value = entry.value(metric)
            if value is None or entry.status not in marks.DRAWN:
                continue
            spread = entry.spread(metric)
            row = {
                "line": _label(name),
                "place": place,
                "value": value,
                "low": spread.minimum if spread else value,
                "high": spread.maximum if spread else value,
                **marks.facts(entry, metric),
            }
            (points if entry.status is lines.status else hollow).append(row)
            if entry.status is lines.status:
                by_place.setdefault(place, []).append(value)
        paths += [
            {"line": _label(name), "dash": dash, "place": place, "value": statistics.median(values)}
            for place, values in sorted(by_place.items())
        ]
    limit = lines.limits.get(metric.key)
    logarithmic = not metric.higher_is_better and all(row["value"] > 0 for row in (*points, *hollow))
    scale, ticks = altair.Scale(zero=True, nice=True), list[float]()
    if logarithmic:
        ends = [row[end] for row in (*points, *hollow) for end in ("low", "high") if row[end] > 0]
        ends += [limit] if limit else []
        low, high = min(ends, default=1.0) / 1.25, max(ends, default=1.0) * 1.25
        scale, ticks = altair.Scale(type="log", domain=[low, high], nice=False), log_ticks(low, high)
    y = altair.Y(
        "value:Q",
        title=None,
        scale=scale,
        axis=altair.Axis(
            gridColor=GRID,
            domain=False,
            ticks=False,
            **({"values": ticks} if logarithmic else {"tickCount": 5}),
            format=",~r",
            minExtent=AXIS_PX - 20,
            maxExtent=AXIS_PX - 20,
        ),
    )
    colour, shape = (
        channel(
            "line:N",
            scale=altair.Scale(domain=names, range=list(values[: len(names)])),
            legend=legend(names),
        )
        for channel, values in (
            (altair.Color, LINE_COLOURS),
            (altair.Shape, LINE_SHAPES),
        )
    )
    x = x_axis(lines, titled=last)
    tips = marks.tooltip(metric)
    layers = [
        sheet.of(paths)
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, strokeDash=altair.StrokeDash("dash:N", scale=None)),
        sheet.of(points)
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, y=altair.Y("low:Q"), y2="high:Q", color=colour),
        sheet.of(points)
        .mark_point(filled=lines.status is Status.VALID, size=70, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tips),
        sheet.of(hollow)
        .mark_point(filled=False, size=70, opacity=1, color=SUSPECT_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    if limit is not None:
        rule = sheet.of([{"value": limit, "text": f"SLO {limit:,g} {metric.unit}"}])
        layers += [
            rule.mark_rule(color=GAP_COLOUR, strokeDash=[7, 4], strokeWidth=1.5).encode(y=y),
            rule.mark_text(align="left", baseline="bottom", dy=-3, fontSize=12, color=GAP_COLOUR, x=4).encode(
                y=y, text="text:N"
            ),
        ]
    how = ", logarithmic" if logarithmic else ""
    return sheet.layered(layers, width=width(), height=PANEL_PX, title=f"{metric.title}, {metric.unit}{how}")


def log_ticks(low: float, high: float) -> list[float]:
    """Return the round numbers of a logarithmic axis: fewer of each decade where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        ticks = (step * 10.0**decade for decade in decades for step in steps)
        found = [tick for tick in ticks if low <= tick <= high]
        if len(found) <= MOST_TICKS:
            break
    return found


def _gaps(lines: Lines) -> Iterator[tuple[str, list[tuple[float, Entry]]]]:
    for name, found in (*lines.points.items(), *lines.dropped.items()):
        gaps = [(place, entry) for place, entry in found if entry.status is not lines.status]
        if gaps:
            yield name, gaps
