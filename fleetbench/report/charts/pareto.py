"""Throughput of a GPU against the speed that one user sees: which points no other one beats in both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fleetbench.report.charts import marks
from fleetbench.report.charts.concurrency import within
from fleetbench.report.charts.frame import (
    FAINT,
    GRID,
    INK,
    LINE_COLOURS,
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
)
from fleetbench.report.charts.placement import Box, placed
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry, Status
from fleetbench.report.frontier import frontier
from fleetbench.report.metrics import PER_GPU, PER_USER

HEIGHT, AXIS_PX = 430, 66
LABEL_PX = 6.3  # of one character of a label
OTHERS = "other configurations"
ROOM = 1.12  # beyond the highest point


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    entry: Entry
    line: str
    user: float
    gpu: float


def pareto_charts(population: Population, limits: Mapping[str, float]) -> Iterator[Chart]:
    """Yield a chart for each kind of requests of which two points or more have both numbers."""
    for number, group in enumerate(population.by_traffic(), start=1):
        points = [
            _Point(entry=entry, line=line_name(entry, population), user=user, gpu=gpu)
            for entry in group
            if entry.status in marks.DRAWN
            and (user := entry.value(PER_USER)) is not None
            and (gpu := entry.value(PER_GPU)) is not None
        ]
        kept = [point for point in points if within(point.entry, limits)]
        edge = _edge(kept) or _edge(points)
        if len(edge) < 1 or len(points) < 2:
            continue
        finding = f"{'Within the SLO, ' if limits and kept else ''}{_finding(points, edge)}"
        rest = [entry for entry in group if not any(point.entry is entry for point in points)]
        sheet = Sheet()
        yield Chart(
            key=population.key("throughput-against-speed", number),
            finding=finding,
            alt=alternative(
                f"Points, {PER_GPU.unit} against {PER_USER.unit}, those that none beats in both first",
                finding,
                [_said(point) for point in (*edge, *(p for p in points if p not in edge))],
            ),
            section=Section.CHOICE,
            specification=sheet.framed(
                _drawn(sheet, points, edge, limits),
                finding,
                (
                    "Each point is a configuration under a load; up and to the right is better. The black "
                    "line joins the valid points that no other one beats in both. Hollow and grey: suspect."
                    + (" Faint: beyond the SLO, and not joined." if limits else ""),
                    marks.without(rest, PER_USER),
                    population.about,
                ),
            ),
        )


def _edge(points: Sequence[_Point]) -> tuple[_Point, ...]:
    """Return the valid points that no valid one beats in both numbers, from the fastest for a user on."""
    return frontier((point for point in points if point.entry.valid), lambda point: (point.user, point.gpu))


def _load(entry: Entry) -> str:
    if entry.workload.max_concurrency is not None:
        return f"c={entry.workload.max_concurrency}"
    return f"{entry.workload.request_rate:g}/s" if entry.workload.request_rate is not None else "no limit"


def _said(point: _Point) -> str:
    suspect = " (suspect)" if not point.entry.valid else ""
    pair = f"{PER_GPU.shown(point.gpu)} at {PER_USER.shown(point.user)}"
    return f"{point.line} {_load(point.entry)}: {pair}{suspect}"


def _finding(points: Sequence[_Point], edge: Sequence[_Point]) -> str:
    fastest, fullest = edge[0], edge[-1]
    most = (
        f"{fullest.line} at {_load(fullest.entry)} gives most from a GPU: {PER_GPU.shown(fullest.gpu)} tok/s"
    )
    if fastest is fullest:
        return f"{fastest.line} at {_load(fastest.entry)} is best for user and GPU: {_pair(fastest)}"
    one = fastest.line == fullest.line
    fast = f"{'it' if one else fastest.line} at {_load(fastest.entry)} is fastest for a user"
    return f"{most}; {fast}: {PER_USER.shown(fastest.user)} tok/s"


def _pair(point: _Point) -> str:
    return f"{PER_USER.shown(point.user)} and {PER_GPU.shown(point.gpu)} tok/s"


def _drawn(
    sheet: Sheet, points: Sequence[_Point], edge: Sequence[_Point], limits: Mapping[str, float]
) -> list[dict[str, Any]]:
    altair = altair_module()
    width = WIDTH - 2 * MARGIN - AXIS_PX
    order = list(dict.fromkeys(point.line for point in (*edge, *points)))
    named = order if len(order) <= MOST_LINES else [*order[: MOST_LINES - 1], OTHERS]
    colours = {name: LINE_COLOURS[place] for place, name in enumerate(named)}
    if OTHERS in named:
        colours[OTHERS] = "#A0A0A0"
    highest_user = max(point.user for point in points) * ROOM
    highest_gpu = max(point.gpu for point in points) * ROOM
    rows = [
        {
            "line": point.line if point.line in named else OTHERS,
            "user": point.user,
            "gpu": point.gpu,
            "hollow": point.entry.status is Status.SUSPECT,
            "opacity": 0.25 if limits and not within(point.entry, limits) else 1.0,
            **marks.facts(point.entry, PER_GPU),
            "speed": f"{PER_USER.shown(point.user)} {PER_USER.unit}",
        }
        for point in points
    ]
    x = altair.X(
        "user:Q",
        title="output tok/s that one user sees (1 / median time per output token)",
        scale=altair.Scale(domain=[0, highest_user], nice=False),
        axis=altair.Axis(gridColor=GRID, domainColor=FAINT, ticks=False, format=",~r", tickCount=8),
    )
    y = altair.Y(
        "gpu:Q",
        title="output tok/s of each GPU",
        scale=altair.Scale(domain=[0, highest_gpu], nice=False),
        axis=altair.Axis(gridColor=GRID, domain=False, ticks=False, format=",~r", tickCount=6),
    )
    tips = marks.tooltip(PER_GPU, speed=PER_USER.title)
    colour = altair.Color(
        "line:N", scale=altair.Scale(domain=named, range=list(colours.values())), legend=legend(named)
    )
    shape = altair.Shape(
        "line:N",
        scale=altair.Scale(domain=named, range=list(LINE_SHAPES[: len(named)])),
        legend=legend(named),
    )
    opacity = altair.Opacity("opacity:Q", scale=None, legend=None)
    corners = [{"user": point.user, "gpu": point.gpu, "place": place} for place, point in enumerate(edge)]
    layers = [
        sheet.of(corners).mark_line(color=INK, strokeWidth=2).encode(x=x, y=y, order="place:Q"),
        sheet.of([row for row in rows if not row["hollow"]])
        .mark_point(filled=True, size=85)
        .encode(x=x, y=y, color=colour, shape=shape, opacity=opacity, tooltip=tips),
        sheet.of([row for row in rows if row["hollow"]])
        .mark_point(filled=False, size=85, color=SUSPECT_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    spots = [
        (point.user / highest_user * width, HEIGHT - point.gpu / highest_gpu * HEIGHT) for point in points
    ]
    of_edge = [
        (point.user / highest_user * width, HEIGHT - point.gpu / highest_gpu * HEIGHT) for point in edge
    ]
    texts = _labels(edge)
    boxes = placed(
        of_edge, [len(text) * LABEL_PX for text in texts], 13, around=spots, room=Box(0, 0, width, HEIGHT)
    )
    labels = [
        {
            "text": text,
            "user": box.left / width * highest_user,
            "gpu": (1 - (box.top + box.bottom) / 2 / HEIGHT) * highest_gpu,
        }
        for text, box in zip(texts, boxes, strict=True)
        if box is not None
    ]
    layers.append(
        sheet.of(labels)
        .mark_text(align="left", baseline="middle", fontSize=12, color=INK)
        .encode(x=x, y=y, text="text:N")
    )
    return [sheet.layered(layers, width=width, height=HEIGHT)]


def _labels(edge: Sequence[_Point]) -> list[str]:
    """Return the labels of the edge: the load, and once for each stretch of one configuration its name."""
    found: list[str] = []
    for line, stretch in groupby(edge, key=lambda point: point.line):
        loads = [_load(point.entry) for point in stretch]
        middle = len(loads) // 2
        found += [f"{line}, {load}" if place == middle else load for place, load in enumerate(loads)]
    return found
