"""What more GPUs bring: output throughput as a multiple of the smallest configuration, beside the ideal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleetbench.errors import one_line
from fleetbench.model import Config
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    FAINT,
    GRID,
    INK,
    LINE_COLOURS,
    LINE_DASHES,
    LINE_SHAPES,
    MARGIN,
    MOST_LINES,
    SUSPECT_COLOUR,
    WIDTH,
    Chart,
    Section,
    Sheet,
    altair_module,
    alternative,
    legend,
    percent,
)
from fleetbench.report.charts.placement import apart
from fleetbench.report.charts.populations import Population
from fleetbench.report.charts.speedup import MIXED, Point, counts, points_of, stands_here
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.tables.shown import rules_against

HEIGHT, AXIS_PX, LABEL_PX = 380, 60, 15
LABEL_CHARACTERS = 26


def scaling_charts(population: Population) -> Iterator[Chart]:
    """Yield the chart of the arguments and the load under which most numbers of GPUs were measured."""
    groups: dict[Config, list[Entry]] = {}
    for entry in population.loads[population.busiest]:
        if entry.gpus and entry.split_known:
            groups.setdefault(_arguments(entry), []).append(entry)
    if not groups:
        return
    points = {arguments: list(points_of(group)) for arguments, group in groups.items()}
    chosen = max(points, key=lambda arguments: len({(p.line, p.gpus) for p in points[arguments]}))
    found = points[chosen]
    status = marks.counted(groups[chosen], OUTPUT)
    sure = [point for point in found if counts(point.entry, status)]
    if len({point.gpus for point in sure}) < 2:
        return
    base = min(sure, key=lambda point: point.gpus)
    device = marks.device(population.entries)
    misread = any("column-misread" in rules_against(point.entry) for point in found)
    finding = marks.warned(_finding(sure, device), status)
    rest = [entry for entry in groups[chosen] if not any(point.entry is entry for point in found)]
    rest = [entry for entry in rest if not stands_here(entry)]
    others = f"{len(groups) - 1} other sets of arguments are in the tables." if len(groups) > 1 else ""
    said = chosen.label.removeprefix("tp=1 dp=1").strip()
    bars = "; bars: 95 % interval of that ratio" if any(point.low < point.high for point in found) else ""
    one = f"one {device} gives" if base.gpus == 1 else f"{base.gpus} {device}s give"
    sheet = Sheet()
    yield Chart(
        key=population.key("scaling"),
        finding=finding,
        alt=alternative(
            f"Speed-up against {device}s",
            finding,
            [
                f"{p.line}, {p.gpus} {device}s: {_times(p.speedup)} times ({percent(p.efficiency)} of ideal)"
                for p in found
            ],
        ),
        section=Section.CHOICE,
        specification=sheet.framed(
            _drawn(sheet, found, status, device),
            finding,
            (
                f"{OUTPUT.title} as a multiple of what {one}{bars}. "
                f"Under {population.busiest}{f', {one_line(said, 60)}' if said else ''}. {others}",
                marks.without(rest, OUTPUT),
                marks.why_suspect(groups[chosen]) if status is Status.SUSPECT else "",
                "The column can only be total tokens; ratios within it are the same." if misread else "",
                population.about,
            ),
        ),
    )


def _arguments(entry: Entry) -> Config:
    return replace(entry.config, tp=1, dp=1, pp=1, units=1)


def _times(ratio: float) -> str:
    """Return a ratio with two digits that mean something: `0.14`, `1.7`, `12`."""
    digits = 1 - math.floor(math.log10(ratio)) if ratio > 0 else 1
    return f"{ratio:.{min(6, max(0, digits))}f}"


def _finding(points: Sequence[Point], device: str) -> str:
    most = max(point.gpus for point in points)
    there = sorted((point for point in points if point.gpus == most), key=lambda point: -point.speedup)
    told = list({id(point.entry): point for point in there}.values())
    first = told[0]
    text = (
        f"{most} {device}s give {_times(first.speedup)} times the {OUTPUT.title} of {most / first.ideal:g} "
        f"({percent(first.efficiency)} of ideal) as {_called(first)}"
    )
    others = [f"as {_called(point)} {_times(point.speedup)}" for point in told[1:4]]
    return f"{text}; {', '.join(others)}" if others else text


def _paths(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield where lines go: through the middle, where one number of GPUs was measured several times."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        if not row["line"].endswith(MIXED):
            found.setdefault((row["line"], row["gpu_count"]), []).append(row)
    for (line, gpus), same in found.items():
        middle = statistics.median(row["speedup"] for row in same)
        yield {"line": line, "dash": same[0]["dash"], "gpu_count": gpus, "speedup": middle}


def _called(point: Point) -> str:
    return one_line(point.entry.name, 60)


def _label(point: Point, status: Status) -> str:
    doubt = "" if point.entry.status is status else f", {point.entry.status.value}"
    entry = point.entry
    name = one_line(entry.name if entry.imported else entry.config.label, LABEL_CHARACTERS)
    return f"{name}: {_times(point.speedup)}× ({percent(point.efficiency)}{doubt})"


def _drawn(sheet: Sheet, points: Sequence[Point], status: Status, device: str) -> list[dict[str, Any]]:
    altair = altair_module()
    width = WIDTH - 2 * MARGIN - AXIS_PX
    names = list(dict.fromkeys(point.line for point in points))[:MOST_LINES]
    most = max(point.gpus for point in points)
    base = min(point.gpus for point in points)
    top = max(most / base, *(point.high for point in points)) * 1.06
    right = most + (most - base) * 0.5  # room for the labels of the last points
    rows = [
        {
            "line": point.line,
            "dash": LINE_DASHES[names.index(point.line)],
            "gpu_count": point.gpus,
            "speedup": point.speedup,
            "low": point.low,
            "high": min(point.high, top),
            "hollow": point.entry.status is not status,
            **marks.facts(point.entry, OUTPUT),
            "times": f"{point.speedup:.2f} ({percent(point.efficiency)} of ideal)",
            "ratio": f"{point.low:.2f}–{point.high:.2f}" if point.low < point.high else "unknown",
        }
        for point in points
        if point.line in names
    ]
    counts = sorted({point.gpus for point in points})
    x = altair.X(
        "gpu_count:Q",
        title=f"{device}s",
        scale=altair.Scale(domain=[max(0, base - (most - base) * 0.06), right], nice=False),
        axis=altair.Axis(values=counts, format="d", gridColor=GRID, domainColor=FAINT, ticks=False),
    )
    y = altair.Y(
        "speedup:Q",
        title="times as fast",
        scale=altair.Scale(domain=[0, top], nice=False),
        axis=altair.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=8, format="~g"),
    )
    colour, shape = (
        channel(
            "line:N", scale=altair.Scale(domain=names, range=list(values[: len(names)])), legend=legend(names)
        )
        for channel, values in (
            (altair.Color, LINE_COLOURS),
            (altair.Shape, LINE_SHAPES),
        )
    )
    dash = altair.StrokeDash("dash:N", scale=None)
    tips = marks.tooltip(OUTPUT, times="times as fast", ratio="interval of that")
    solid = [row for row in rows if not row["hollow"]]
    ideal = [{"gpu_count": base, "speedup": 1.0}, {"gpu_count": most, "speedup": most / base}]
    layers = [
        sheet.of(ideal).mark_line(color=FAINT, strokeWidth=1.5, strokeDash=[3, 3]).encode(x=x, y=y),
        sheet.of(list(_paths(solid)))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, strokeDash=dash),
        sheet.of(solid)
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, y=altair.Y("low:Q"), y2="high:Q", color=colour),
        sheet.of(solid)
        .mark_point(filled=status is Status.VALID, size=80, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tips),
        sheet.of([row for row in rows if row["hollow"]])
        .mark_point(filled=False, size=80, color=SUSPECT_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    lasts = [point for point in points if point.gpus == most and point.line in names]
    lasts = list({id(point.entry): point for point in lasts}.values())
    heights = [most / base, *(point.speedup for point in lasts)]
    spots = apart([(1 - height / top) * HEIGHT for height in heights], LABEL_PX, lowest=0, highest=HEIGHT)
    labels = [
        {"text": text, "gpu_count": most, "speedup": (1 - spot / HEIGHT) * top}
        for text, spot in zip(["ideal", *(_label(point, status) for point in lasts)], spots, strict=True)
    ]
    layers.append(
        sheet.of(labels)
        .mark_text(align="left", baseline="middle", dx=10, fontSize=12, color=INK)
        .encode(x=x, y=y, text="text:N")
    )
    return [sheet.layered(layers, width=width, height=HEIGHT)]
