"""What happened while a measurement ran, second by second: tokens, requests, KV cache, power.

A second that was not sampled is a gap in its line, never a zero and never a straight line across.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from fleetbench.telemetry import hardware, samples
from fleetbench.telemetry.samples import Sample
from fleetbench.telemetry.servers import longest_stall_s
from fleetbench.telemetry.summary import RESULT
from fleetbench.telemetry.window import Window, window

FILES = (RESULT, samples.METRICS, samples.HOST, samples.CLIENT, samples.GPUS, samples.ABOUT)
MOST_POINTS = 360  # of a line; more seconds are taken together
PANEL_PX, AXIS_PX, NAME_PX = 108, 70, 92
NAME_LINE_PX = 14
STALL_S = 3.0  # worth a word in the title
FULL_PERCENT = 98.0
GENERATED = "generated"

Values = dict[int, float]  # by bin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    name: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    lines: Sequence[_Line]
    top: float | None = None


def series_chart(
    content: Mapping[str, bytes],
    *,
    duration_s: float | None,
    name: str,
    about: str,
    key: str,
) -> Chart | None:
    """Given the files of a measurement, return its chart; None where nothing was sampled.

    Args:
        content: those of `FILES` that there are; any may be missing, cut off or anything else.
        duration_s: what the client reports.
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
    margin = max(3 * every_s, seen.seconds * 0.04)
    taken = tuple(s for s in taken if seen.start_s - margin <= s.at_s <= seen.end_s + margin)
    width_s = every_s * max(1, math.ceil((seen.seconds + 2 * margin) / every_s / MOST_POINTS))
    panels = list(_panels(content, taken, seen, width_s, every_s))
    if not panels:
        return None
    finding = _finding(name, taken, seen, panels, width_s)
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


def _panels(
    content: Mapping[str, bytes], taken: Sequence[Sample], seen: Window, width_s: float, every_s: float
) -> Iterable[_Panel]:
    def bin_of(at_s: float) -> int:
        return math.floor((at_s - seen.start_s) / width_s)

    def gauge(key: str, of: float = 1.0, *, highest: bool = False) -> Values:
        found: dict[int, list[float]] = {}
        for sample in taken:
            value = (sample.seen.highest if highest else sample.seen.values).get(key)
            if value is not None:
                found.setdefault(bin_of(sample.at_s), []).append(value * of)
        return {place: sum(values) / len(values) for place, values in found.items()}

    def rate(key: str) -> Values:
        tokens: dict[int, tuple[float, float]] = {}
        for one, two in pairwise(taken):
            seconds = two.at_s - one.at_s
            grown = two.seen.values.get(key, math.nan) - one.seen.values.get(key, math.nan)
            # Across a gap nobody knows when the tokens came; a counter that shrank is another server's.
            if two.tick - one.tick == 1 and seconds > 0 and grown >= 0:
                place = bin_of((one.at_s + two.at_s) / 2)
                before = tokens.get(place, (0.0, 0.0))
                tokens[place] = before[0] + grown, before[1] + seconds
        return {place: grown / seconds for place, (grown, seconds) in tokens.items()}

    watts = _power(hardware.gpu_rows(content.get(samples.GPUS, b"")), seen, width_s, every_s)
    several = any(
        sample.seen.highest.get("kv_usage") != sample.seen.values.get("kv_usage") for sample in taken
    )
    full = [_Line(name="highest engine", values=gauge("kv_usage", 100, highest=True))] if several else []
    for title, lines, top in (
        (
            "tokens per second",
            ((GENERATED, rate("generation_tokens")), ("prompt", rate("prompt_tokens"))),
            None,
        ),
        ("requests in the server", (("running", gauge("running")), ("waiting", gauge("waiting"))), None),
        ("KV cache in use, %", (("mean" if several else "in use", gauge("kv_usage", 100)),), 100.0),
        ("power of all GPUs, W", (("GPUs", watts),), None),
    ):
        known = [_Line(name=name, values=values) for name, values in lines if values]
        if known:
            yield _Panel(title=title, lines=[*known, *(full if top else [])], top=top)


def _power(rows: Sequence[hardware.Row], seen: Window, width_s: float, every_s: float) -> Values:
    """Return watts of all GPUs together; a bin in which one of them is missing is a gap."""
    by_bin: dict[int, dict[float, list[float]]] = {}
    low, high = seen.start_s - 10 * every_s, seen.end_s + 10 * every_s
    for row in rows:
        if "power.draw" in row and low <= row["at"] <= high:
            place = math.floor((row["at"] - seen.start_s) / width_s)
            by_bin.setdefault(place, {}).setdefault(row.get("index", 0.0), []).append(row["power.draw"])
    gpus = {index for found in by_bin.values() for index in found}
    return {
        place: sum(sum(values) / len(values) for values in found.values())
        for place, found in by_bin.items()
        if set(found) == gpus
    }


def _finding(
    name: str, taken: Sequence[Sample], seen: Window, panels: Sequence[_Panel], width_s: float
) -> str:
    inside = [sample for sample in taken if seen.start_s <= sample.at_s <= seen.end_s]
    stall = longest_stall_s(inside)
    called = one_line(name, 80)
    if stall is not None and stall >= STALL_S:
        return f"{called} stood still for {stall:.0f} s: requests ran and no token came"
    rates = [value for place, value in _generated(panels).items() if 0 <= place * width_s < seen.seconds]
    rate = f"{sum(rates) / len(rates):,.0f} tok/s on average" if rates else "tokens not counted"
    waited = [(sample.seen.values.get("waiting", 0.0), _filled(sample)) for sample in inside]
    most = max((waiting for waiting, _ in waited), default=0.0)
    full = max((waiting for waiting, filled in waited if filled >= FULL_PERCENT), default=0.0)
    if full >= 1:
        return f"{called}: the KV cache was full while up to {full:,.0f} requests waited; {rate}"
    known = f", the KV cache at most {max(filled for _, filled in waited):.0f} % full" if waited else ""
    if most >= 1:
        return f"{called}: {rate}, up to {most:,.0f} requests waited{known}"
    return f"{called}: {rate}, no request waited{known}"


def _generated(panels: Sequence[_Panel]) -> Values:
    lines = (line for panel in panels for line in panel.lines)
    return next((line.values for line in lines if line.name == GENERATED), {})


def _filled(sample: Sample) -> float:
    return 100 * max(sample.seen.highest.get("kv_usage", 0.0), sample.seen.values.get("kv_usage", 0.0))


def _spoken(panel: _Panel) -> str:
    parts = []
    for line in panel.lines:
        values = list(line.values.values())
        parts.append(f"{line.name} {min(values):,.0f} to {max(values):,.0f}")
    return f"{panel.title}: {', '.join(parts)}"


def _drawn(sheet: Sheet, panels: Sequence[_Panel], seen: Window, width_s: float) -> list[dict[str, Any]]:
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
