"""A bar chart for each metric: medians of valid repeats, their range, the repeats themselves.

What has no number that counts is a labelled gap, never missing; a suspect one is hollow, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    BAR_COLOUR,
    BEST_COLOUR,
    FAINT,
    GAP_COLOUR,
    GRID,
    INK,
    MARGIN,
    SUSPECT_COLOUR,
    WEAK_COLOUR,
    WIDTH,
    Chart,
    Section,
    altair_module,
    alternative,
    framed,
    panel_title,
    slug,
)
from fleetbench.report.charts.populations import Population
from fleetbench.report.entry import Entry, Status, ranked
from fleetbench.report.finding import Ranking, about, clear
from fleetbench.report.metrics import (
    MEAN_LATENCY,
    METRICS,
    OUTPUT,
    PER_JOULE,
    PER_REQUEST,
    PROMPT,
    PROMPT_PER_REQUEST,
    Metric,
)
from fleetbench.results.rules.table import thresholds

ROOM_FOR_VALUES = 1.22  # the axis goes beyond the longest bar, for the value printed after it
MOST_ROWS = 32  # of one chart; more of them are several charts
MOST_LOADS = 4
IMPORTED_METRICS = (*METRICS, PROMPT, PER_REQUEST, PROMPT_PER_REQUEST, MEAN_LATENCY)
OWN_METRICS = (*METRICS, PER_JOULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """Some rows of one load; the scale and the best one are those of all its rows, on whatever page."""

    title: str
    entries: Sequence[Entry]
    labels: Sequence[str]
    best: Entry | None
    longest: float


def bar_charts(population: Population) -> Iterator[Chart]:
    """Yield the charts of each metric that an entry of a model has a number of."""
    tables, note = _tables(population)
    entries = [entry for table in tables.values() for entry in table]
    for metric in IMPORTED_METRICS if any(entry.imported for entry in entries) else OWN_METRICS:
        if any(entry.status in marks.DRAWN and entry.value(metric) is not None for entry in entries):
            yield from _charts(population, tables, metric, note)


def _tables(population: Population) -> tuple[dict[str, tuple[Entry, ...]], str]:
    """Return the panels by name; of many loads only the one that gives most, and the sentence saying so."""
    loads = population.loads
    if len(loads) <= MOST_LOADS:
        return {
            name: tuple(entry for entry in found if entry.table == table)
            for load, found in loads.items()
            for table in dict.fromkeys(entry.table for entry in found)
            for name in (table or load,)
        }, ""

    def most(load: str) -> float:
        return max((entry.value(OUTPUT) or 0 for entry in ranked(loads[load])), default=0)

    load = max(loads, key=most)
    note = (
        f"Under {load}, where output throughput is highest; "
        f"the other {len(loads) - 1} loads are in the curves and in the tables."
    )
    return {load: loads[load]}, note


def _charts(
    population: Population, tables: dict[str, tuple[Entry, ...]], metric: Metric, note: str
) -> Iterator[Chart]:
    altair = altair_module()
    entries = [entry for table in tables.values() for entry in table]
    sentence = about(
        [Ranking(name=name, order=ranked(table, metric), among=len(table)) for name, table in tables.items()],
        metric,
    )
    better = "higher is better" if metric.higher_is_better else "lower is better"
    legend = f"{metric.title}, {metric.unit}, {better}. {_legend(entries, metric)}"
    pages = list(_pages(tables, metric))
    for number, panels in enumerate(pages, start=1):
        part = f"Part {number} of {len(pages)}." if len(pages) > 1 else ""
        names = marks.label_px(label for panel in panels for label in panel.labels)
        width = WIDTH - 2 * MARGIN - marks.LABEL_WIDTH_PX - names
        drawn = [_panel(panel, metric, width, titled=len(tables) > 1) for panel in panels]
        key = "-".join(filter(None, (slug(metric.key), population.slug, str(number) if number > 1 else "")))
        yield Chart(
            key=key,
            finding=sentence,
            alt=alternative(
                "Bar chart",
                sentence,
                [
                    marks.said(entry, metric, label.replace("\n", " "))
                    for panel in panels
                    for entry, label in zip(panel.entries, panel.labels, strict=True)
                ],
                (part.rstrip("."), f"{metric.title} in {metric.unit}"),
            ),
            section=Section.METRICS,
            specification=framed(
                altair.vconcat(*drawn, spacing=18), sentence, (legend, note, part, population.about)
            ),
        )


def _pages(tables: dict[str, tuple[Entry, ...]], metric: Metric) -> Iterator[list[_Panel]]:
    page: list[_Panel] = []
    rows = 0
    for name, entries in tables.items():
        order = ranked(entries, metric)
        best = order[0] if clear(order, metric) else None
        labels = marks.labels(entries)
        numbers = [
            max(
                entry.value(metric) or 0,
                *(found.value for found in entry.observations.get(metric.key, ())),
                0,
            )
            for entry in entries
            if entry.status in marks.DRAWN
        ]
        for first in range(0, len(entries), MOST_ROWS):
            part = slice(first, first + MOST_ROWS)
            if page and rows + len(entries[part]) > MOST_ROWS:
                yield page
                page, rows = [], 0
            page.append(
                _Panel(
                    title=name,
                    entries=entries[part],
                    labels=labels[part],
                    best=best,
                    longest=max(numbers, default=1.0) or 1.0,
                )
            )
            rows += len(entries[part])
    if page:
        yield page


def _panel(panel: _Panel, metric: Metric, width: float, *, titled: bool) -> Any:
    altair = altair_module()
    bars: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for entry, label in zip(panel.entries, panel.labels, strict=True):
        value = entry.value(metric) if entry.status in marks.DRAWN else None
        row = {"label": label, **marks.facts(entry, metric)}
        if value is None:
            texts.append({**row, "text": marks.gap_text(entry, metric), "down": 0})
            continue
        suspect = entry.status is Status.SUSPECT
        seen = [found.value for found in entry.observations.get(metric.key, ())]
        bars.append(
            {
                **row,
                "value": value,
                "low": min([value, *seen]) if len(seen) > 1 else value,
                "high": max([value, *seen]) if len(seen) > 1 else value,
                "best": entry is panel.best,
                "colour": _colour(entry, metric, best=entry is panel.best),
                "suspect": suspect,
                "text": metric.shown(value),
            }
        )
        if suspect:
            texts.append({**row, "text": marks.gap_text(entry, metric), "down": 1})
        elif len(seen) > 1:
            dots += [{"label": label, "value": each} for each in seen]
    y = altair.Y(
        "label:N",
        sort=list(panel.labels),
        title=None,
        scale=altair.Scale(domain=list(panel.labels)),
        axis=marks.label_axis(domainColor=FAINT),
    )
    scale = altair.Scale(domain=[0, panel.longest * ROOM_FOR_VALUES], nice=False)
    axis = altair.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=6, format=",~r")
    x = altair.X("value:Q", title=metric.unit, scale=scale, axis=axis)
    tips = marks.tooltip(metric)
    solid = altair.Chart(altair.Data(values=[bar for bar in bars if not bar["suspect"]])).encode(y=y)
    hollow = altair.Chart(altair.Data(values=[bar for bar in bars if bar["suspect"]])).encode(y=y)
    above, below = -9, 10  # where a bar has its reason under it
    layers = [
        solid.mark_bar(height={"band": 0.62}).encode(
            x=x, color=altair.Color("colour:N", scale=None), tooltip=tips
        ),
        solid.mark_rule(color=INK, strokeWidth=1.5).encode(x=altair.X("low:Q"), x2="high:Q"),
        altair.Chart(altair.Data(values=dots))
        .mark_point(filled=True, size=34, color="white", stroke=INK, strokeWidth=1.2, opacity=1)
        .encode(y=y, x=x),
        solid.mark_text(align="left", dx=9, fontSize=14, fontWeight="bold", color=INK).encode(
            x=altair.X("high:Q"), text="text:N"
        ),
        hollow.mark_bar(
            height=12, yOffset=above, fill="white", stroke=SUSPECT_COLOUR, strokeDash=[3, 2], strokeWidth=1.5
        ).encode(x=x, tooltip=tips),
        hollow.mark_text(align="left", dx=9, dy=above, fontSize=13, color=SUSPECT_COLOUR).encode(
            x=altair.X("high:Q"), text="text:N"
        ),
    ]
    for down, colour, dy in ((0, GAP_COLOUR, 0), (1, SUSPECT_COLOUR, below)):
        lines = [text for text in texts if text["down"] == down]
        layers.append(
            altair.Chart(altair.Data(values=lines))
            .mark_text(
                align="left", fontSize=13, fontStyle="italic", color=colour, x=8, dy=dy, limit=width - 16
            )
            .encode(y=y, text="text:N", tooltip=tips)
        )
    most_lines = max(label.count("\n") + 1 for label in panel.labels)
    chart = altair.layer(*layers).properties(width=width, height={"step": max(40, 17 * most_lines + 12)})
    return chart.properties(title=panel_title(panel.title)) if titled else chart


def _colour(entry: Entry, metric: Metric, *, best: bool) -> str:
    return WEAK_COLOUR if entry.rests_on_few(metric) else BEST_COLOUR if best else BAR_COLOUR


def _legend(entries: Sequence[Entry], metric: Metric) -> str:
    drawn = [entry for entry in entries if entry.valid and entry.value(metric) is not None]
    percentile = metric.key.startswith(("median_", "p99_"))
    together = percentile and drawn and all(entry.pooled for entry in drawn)
    middle = "over all requests" if together else "median"
    text = f"Bar: {middle} of the valid repeats; line: lowest to highest; dots: each repeat."
    if all(entry.repeats == 1 for entry in drawn):
        text = "Bar: one run each, so the spread is unknown."
    if any(entry.rests_on_few(metric) for entry in drawn):
        text += f" Grey: fewer than {thresholds().p99_samples:,} requests."
    if any(entry.status is Status.SUSPECT and entry.value(metric) is not None for entry in entries):
        text += " Hollow: suspect, never ranked."
    return f"{text} {marks.left_out(entries)}".strip()
