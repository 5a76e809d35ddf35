"""What happened while a measurement ran, second by second: tokens, requests, KV cache, power.

A second that was not sampled is a gap in its line, never a zero and never a straight line across.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetbench.errors import one_line
from fleetbench.report.charts.frame import (
    FAINT,
    GRID,
    LINE_COLOURS,
    LINE_DASHES,
    MARGIN,
    WIDTH,
    Chart,
    Section,
    Sheet,
    altair_module,
    alternative,
)
from fleetbench.report.charts.placement import apart
from fleetbench.report.charts.sampled import GENERATED, Panel, Values, in_the_middle, panels_of
from fleetbench.report.metrics import OUTPUT
from fleetbench.telemetry import samples
from fleetbench.telemetry.samples import Sample
from fleetbench.telemetry.servers import longest_stall_s
from fleetbench.telemetry.summary import RESULT
from fleetbench.telemetry.window import Window, window

FILES = (RESULT, samples.METRICS, samples.HOST, samples.CLIENT, samples.GPUS, samples.ABOUT)
FILES_WITHOUT_GPUS = tuple(name for name in FILES if name != samples.GPUS)
MOST_POINTS = 360  # of a line; more seconds are taken together
PANEL_PX, AXIS_PX, NAME_PX = 108, 70, 92
NAME_LINE_PX = 14
STALL_S = 3.0  # worth a word in the title
FULL_PERCENT = 98.0


def series_chart(
    content: Mapping[str, bytes],
    *,
    duration_s: float | None,
    output_tps: float | None = None,
    name: str,
    about: str,
    key: str,
) -> Chart | None:
    """Given the files of a measurement, return its chart; None where nothing was sampled.

    Args:
        content: those of `FILES` that there are; any may be missing, cut off or anything else.
        duration_s, output_tps: what the client reports; None: it does not.
        name: the configuration. about: which measurement of which run, for the last line of the subtitle.
    """
    said = samples.about(content.get(samples.ABOUT, b""))
    every_s = min(60.0, max(0.1, samples.finite(said.get("every_s")) or 1.0))
    taken = samples.metric_samples(content.get(samples.METRICS, b""))
    clock, _ = samples.host_samples(content.get(samples.HOST, b""))
    client_clock, _ = samples.host_samples(content.get(samples.CLIENT, b""))
    offset = said.get("clock_offset_ms")
    offset_s = float(offset) / 1000 if isinstance(offset, int | float) and math.isfinite(offset) else 0.0
    seen = window(content.get(RESULT, b""), duration_s, client_clock or clock, offset_s, taken)
    if seen is None or len(taken) < 2 or not 0 < seen.seconds < 30 * 86_400:
        return None
    seen = in_the_middle(seen, taken) if seen.source == "server" else seen
    margin = max(3 * every_s, seen.seconds * 0.04)
    taken = tuple(s for s in taken if seen.start_s - margin <= s.at_s <= seen.end_s + margin)
    width_s = every_s * max(1, math.ceil((seen.seconds + 2 * margin) / every_s / MOST_POINTS))
    panels = list(panels_of(content, taken, seen, width_s, every_s))
    if not panels:
        return None
    finding = _finding(name, taken, seen, panels, width_s, output_tps)
    each = f"Each point is the mean of {width_s:g} s. " if width_s > every_s else ""
    sheet = Sheet()
    return Chart(
        key=key,
        finding=finding,
        alt=alternative("Time series", finding, [_spoken(panel) for panel in panels]),
        section=Section.TIME,
        specification=sheet.framed(
            _drawn(sheet, panels, seen, width_s),
            finding,
            (f"{each}White: the measurement itself. What was not sampled is a gap.", one_line(about, 100)),
            spacing=8,
            resolve={"scale": {"color": "independent"}},
        ),
    )


def _finding(
    name: str,
    taken: Sequence[Sample],
    seen: Window,
    panels: Sequence[Panel],
    width_s: float,
    output_tps: float | None,
) -> str:
    inside = [sample for sample in taken if seen.start_s <= sample.at_s <= seen.end_s]
    stall = longest_stall_s(inside)
    called = one_line(name, 80)
    if stall is not None and stall >= STALL_S:
        return f"{called} stood still for {stall:.0f} s: requests ran and no token came"
    rates = [value for place, value in _generated(panels).items() if 0 <= place * width_s < seen.seconds]
    rate = f"{sum(rates) / len(rates):,.0f} tok/s on average" if rates else "tokens not counted"
    rate = f"{OUTPUT.shown(output_tps)} tok/s on average" if output_tps else rate
    waited = [(sample.seen.values.get("waiting", 0.0), _filled(sample)) for sample in inside]
    most = max((waiting for waiting, _ in waited), default=0.0)
    full = max((waiting for waiting, filled in waited if filled >= FULL_PERCENT), default=0.0)
    if full >= 1:
        return f"{called}: the KV cache was full while up to {full:,.0f} requests waited; {rate}"
    known = f", the KV cache at most {max(filled for _, filled in waited):.0f} % full" if waited else ""
    if most >= 1:
        return f"{called}: {rate}, up to {most:,.0f} requests waited{known}"
    return f"{called}: {rate}, no request waited{known}"


def _generated(panels: Sequence[Panel]) -> Values:
    lines = (line for panel in panels for line in panel.lines)
    return next((line.values for line in lines if line.name == GENERATED), {})


def _filled(sample: Sample) -> float:
    return 100 * max(sample.seen.highest.get("kv_usage", 0.0), sample.seen.values.get("kv_usage", 0.0))


def _spoken(panel: Panel) -> str:
    parts = []
    for line in panel.lines:
        values = list(line.values.values())
        parts.append(f"{line.name} {min(values):,.0f} to {max(values):,.0f}")
    return f"{panel.title}: {', '.join(parts)}"


def _drawn(sheet: Sheet, panels: Sequence[Panel], seen: Window, width_s: float) -> list[dict[str, Any]]:
    altair = altair_module()
    width = WIDTH - 2 * MARGIN - AXIS_PX - NAME_PX
    bins = [place for panel in panels for line in panel.lines for place in line.values]
    first, last = min(bins), max(bins)
    unit, divisor = ("seconds", 1.0) if seen.seconds < 600 else ("minutes", 60.0)
    left, right = first * width_s / divisor, (last + 1) * width_s / divisor
    end = seen.seconds / divisor
    outside = [{"from": left, "to": min(0.0, right)}, {"from": min(end, right), "to": right}]
    charts = []
    for panel in panels:
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(panel.lines):
            points = [
                {
                    "line": line.name,
                    "dash": LINE_DASHES[number],
                    "at": (place + 0.5) * width_s / divisor,
                    "value": line.values.get(place),
                }
                for place in range(first, last + 1)
            ]
            rows += [{**point, "lonely": _lonely(points, place)} for place, point in enumerate(points)]
        top = (
            panel.top
            or max((row["value"] for row in rows if row["value"] is not None), default=1.0) * 1.08
            or 1.0
        )
        middles = [(1 - _last(line.values) / top) * PANEL_PX for line in panel.lines]
        spots = apart(middles, NAME_LINE_PX, lowest=0, highest=PANEL_PX)
        names = [
            {"line": line.name, "text": line.name, "value": (1 - spot / PANEL_PX) * top}
            for line, spot in zip(panel.lines, spots, strict=True)
        ]
        domain = [line.name for line in panel.lines]
        x = altair.X(
            "at:Q",
            title=f"{unit} since the first request" if panel is panels[-1] else None,
            scale=altair.Scale(domain=[left, right], nice=False),
            axis=altair.Axis(
                grid=False, domainColor=FAINT, tickColor=FAINT, tickCount=8, labels=panel is panels[-1]
            ),
        )
        y = altair.Y(
            "value:Q",
            title=None,
            scale=altair.Scale(domain=[0, top], nice=False),
            axis=altair.Axis(
                gridColor=GRID,
                domain=False,
                ticks=False,
                tickCount=4,
                format=",~r",
                minExtent=AXIS_PX - 20,
                maxExtent=AXIS_PX - 20,
            ),
        )
        colour = altair.Color(
            "line:N", scale=altair.Scale(domain=domain, range=list(LINE_COLOURS[: len(domain)])), legend=None
        )
        dash = altair.StrokeDash("dash:N", scale=None)
        tips = [
            altair.Tooltip("line:N", title=panel.title),
            altair.Tooltip("value:Q", format=",.4~g", title="value"),
            altair.Tooltip("at:Q", format=".4~g", title=unit),
        ]
        layers = [
            sheet.of([span for span in outside if span["from"] < span["to"]])
            .mark_rect(color="#F1F1F1")
            .encode(x=altair.X("from:Q"), x2="to:Q"),
            sheet.of(rows)
            .mark_line(strokeWidth=1.6)
            .encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tips),
            sheet.of([row for row in rows if row["lonely"]])
            .mark_point(filled=True, size=14, opacity=1)
            .encode(x=x, y=y, color=colour, tooltip=tips),
            sheet.of(names)
            .mark_text(align="left", fontSize=12, x=width + 6)
            .encode(y=y, text="text:N", color=colour),
        ]
        charts.append(sheet.layered(layers, width=width, height=PANEL_PX, title=panel.title))
    return charts


def _lonely(points: Sequence[Mapping[str, Any]], place: int) -> bool:
    """Whether a point has no neighbour that a line could lead to: it would not be seen."""
    near = [points[other]["value"] for other in (place - 1, place + 1) if 0 <= other < len(points)]
    return points[place]["value"] is not None and all(value is None for value in near)


def _last(values: Values) -> float:
    return values[max(values)]
