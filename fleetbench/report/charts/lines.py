"""What curves over concurrency and over context length have in common: lines, suspect points, gaps.

A line goes through valid values only. A suspect one is a hollow grey mark beside it; what has no number is a
mark in the strip under the panels, where no axis gives it a value, with its cause.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    altair_module,
    legend,
    panel_title,
)
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT, Metric

PANEL_PX, STRIP_ROW_PX = 190, 44
AXIS_PX = 78  # of the values of a panel
MOST_STRIP_ROWS = 10
LABEL_CHARACTERS = 48
# Marks of the strip, by what became of an entry.
SHAPES: Mapping[Status, str] = {
    Status.FAILED: "M-1,-1L1,1M-1,1L1,-1",
    Status.INVALID: "M-1,-1L1,1M-1,1L1,-1",
    Status.IMPLIED: "diamond",
    Status.NOT_RUN: "circle",
    Status.UNMEASURED: "circle",
    Status.SUSPECT: "triangle-up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Entries by line and place on the axis.

    Attributes:
        points: by the name of the line; the highest lines first, as `of` made them.
        axis: title of the horizontal axis, which is logarithmic.
        dropped: names of further lines, which are not drawn.
    """

    points: Mapping[str, Sequence[tuple[float, Entry]]]
    axis: str
    dropped: Sequence[str] = ()
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, points: Mapping[str, Sequence[tuple[float, Entry]]], axis: str, limits: Mapping[str, float]
    ) -> Lines:
        """Return the lines that are drawn: of more than there are colours the highest; see `note`."""
        order = sorted(points, key=lambda name: -_peak(points[name]))
        kept = [name for name in points if name in order[:MOST_LINES]]
        dropped = order[MOST_LINES:]
        return cls(points={name: points[name] for name in kept}, axis=axis, dropped=dropped, limits=limits)

    @property
    def places(self) -> list[float]:
        """Every place on the axis, in order."""
        return sorted({place for found in self.points.values() for place, _ in found})

    @property
    def entries(self) -> list[Entry]:
        """Every entry that belongs to a line."""
        return [entry for found in self.points.values() for _, entry in found]

    @property
    def note(self) -> str:
        """What is not drawn, or nothing."""
        if not self.dropped:
            return ""
        names = ", ".join(one_line(name, 40) for name in self.dropped[:4])
        more = f" and {len(self.dropped) - 4} more" if len(self.dropped) > 4 else ""
        return f"The {len(self.points)} highest are drawn; in the tables only: {names}{more}."


def _peak(points: Sequence[tuple[float, Entry]]) -> float:
    return max((entry.value(OUTPUT) or 0 for _, entry in points if entry.valid), default=0.0)


def drawn(lines: Lines, panels: Sequence[Metric]) -> Any:
    """Return altair's chart: a panel for each metric, one over the other, and the strip."""
    altair = altair_module()
    strip = list(_gaps(lines))
    charts = [_panel(lines, metric, last=metric is panels[-1] and not strip) for metric in panels]
    if strip:
        charts.append(_strip(lines, strip))
    return altair.vconcat(*charts, spacing=14).resolve_scale(
        color="shared", shape="shared", strokeDash="shared", x="independent"
    )


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


def _width() -> int:
    return WIDTH - 2 * MARGIN - AXIS_PX


def _x(lines: Lines, *, titled: bool) -> Any:
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
        ),
    )


def _panel(lines: Lines, metric: Metric, *, last: bool) -> Any:
    altair = altair_module()
    names = [_label(name) for name in lines.points]
    points: list[dict[str, Any]] = []
    paths: list[dict[str, Any]] = []
    hollow: list[dict[str, Any]] = []
    for name, found in lines.points.items():
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
            (points if entry.valid else hollow).append(row)
            if entry.valid:
                by_place.setdefault(place, []).append(value)
        paths += [
            {"line": _label(name), "place": place, "value": statistics.median(values)}
            for place, values in sorted(by_place.items())
        ]
    limit = lines.limits.get(metric.key)
    logarithmic = not metric.higher_is_better and all(row["value"] > 0 for row in (*points, *hollow))
    y = altair.Y(
        "value:Q",
        title=None,
        scale=altair.Scale(type="log", nice=True) if logarithmic else altair.Scale(zero=True, nice=True),
        axis=altair.Axis(
            gridColor=GRID,
            domain=False,
            ticks=False,
            tickCount=5,
            format=",~r",
            minExtent=AXIS_PX - 20,
            maxExtent=AXIS_PX - 20,
        ),
    )
    colour, shape, dash = (
        channel(
            "line:N",
            scale=altair.Scale(domain=names, range=list(values[: len(names)])),
            legend=legend(names),
        )
        for channel, values in (
            (altair.Color, LINE_COLOURS),
            (altair.Shape, LINE_SHAPES),
            (altair.StrokeDash, LINE_DASHES),
        )
    )
    x = _x(lines, titled=last)
    tips = marks.tooltip(metric)
    layers = [
        altair.Chart(altair.Data(values=paths))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, strokeDash=dash),
        altair.Chart(altair.Data(values=points))
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, y=altair.Y("low:Q"), y2="high:Q", color=colour),
        altair.Chart(altair.Data(values=points))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tips),
        altair.Chart(altair.Data(values=hollow))
        .mark_point(filled=False, size=70, opacity=1, color=SUSPECT_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    if limit is not None:
        rule = altair.Chart(altair.Data(values=[{"value": limit, "text": f"SLO {limit:,g} {metric.unit}"}]))
        layers += [
            rule.mark_rule(color=GAP_COLOUR, strokeDash=[7, 4], strokeWidth=1.5).encode(y=y),
            rule.mark_text(
                align="right", baseline="bottom", dy=-3, fontSize=12, color=GAP_COLOUR, x=_width() - 4
            ).encode(y=y, text="text:N"),
        ]
    scale = ", logarithmic" if logarithmic else ""
    return altair.layer(*layers).properties(
        width=_width(), height=PANEL_PX, title=panel_title(f"{metric.title}, {metric.unit}{scale}")
    )


def _gaps(lines: Lines) -> Iterator[tuple[str, list[tuple[float, Entry]]]]:
    for name, found in lines.points.items():
        gaps = [(place, entry) for place, entry in found if not entry.valid]
        if gaps:
            yield name, gaps


def _strip(lines: Lines, gaps: Sequence[tuple[str, Sequence[tuple[float, Entry]]]]) -> Any:
    altair = altair_module()
    shown = gaps[:MOST_STRIP_ROWS]
    rows, texts = [], []
    for name, found in shown:
        for place, entry in found:
            rows.append(
                {
                    "row": _label(name),
                    "place": place,
                    "shape": SHAPES[entry.status],
                    **marks.facts(entry, OUTPUT),
                }
            )
        causes = dict.fromkeys(marks.gap_text(entry, OUTPUT) for _, entry in found)
        text = f"{_label(name)} – {'; '.join(causes)}"
        texts.append({"row": _label(name), "text": one_line(text, 115)})
    more = f", and {len(gaps) - len(shown)} more configurations" if len(gaps) > len(shown) else ""
    y = altair.Y(
        "row:N",
        title=None,
        scale=altair.Scale(domain=[_label(name) for name, _ in shown]),
        axis=altair.Axis(
            labels=False, ticks=False, domain=False, minExtent=AXIS_PX - 20, maxExtent=AXIS_PX - 20
        ),
    )
    seen = [status for status in SHAPES if any(row["status"] == status.value for row in rows)]
    words = {
        Status.FAILED: "✕ failed",
        Status.INVALID: "✕ invalid",
        Status.IMPLIED: "◇ implied by another failure",
        Status.NOT_RUN: "○ not run",
        Status.UNMEASURED: "○ not measured",
        Status.SUSPECT: "△ suspect",
    }
    key = ", ".join(words[status] for status in seen)
    layers = [
        altair.Chart(altair.Data(values=rows))
        .mark_point(size=60, filled=False, strokeWidth=1.8, opacity=1, yOffset=9, color=GAP_COLOUR)
        .encode(
            x=_x(lines, titled=True), y=y, tooltip=marks.tooltip(), shape=altair.Shape("shape:N", scale=None)
        ),
        altair.Chart(altair.Data(values=texts))
        .mark_text(align="left", fontSize=12, color=GAP_COLOUR, x=2, dy=-9, limit=_width() - 4)
        .encode(y=y, text="text:N"),
    ]
    return altair.layer(*layers).properties(
        width=_width(),
        height={"step": STRIP_ROW_PX},
        title=panel_title(f"No valid number: {key}{more}"),
    )
