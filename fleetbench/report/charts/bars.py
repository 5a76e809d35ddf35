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
    Sheet,
    altair_module,
    alternative,
    slug,
)
from fleetbench.report.charts.populations import Population
from fleetbench.report.entry import Entry, Status, ranked
from fleetbench.report.finding import Ranking, about, clear
from fleetbench.report.metrics import (
    MEAN_LATENCY,
    METRICS,
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
SAME_SCALE = 3.0  # panels whose longest bars differ by less have one scale
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
    status: Status


def bar_charts(population: Population) -> Iterator[Chart]:
    """Yield the charts of each metric that an entry of a model has a number of; of a single entry the first.

    One bar stands beside nothing: its repeats are worth a look once, its other numbers are in the table.
    """
    tables, note = _tables(population)
    entries = [entry for table in tables.values() for entry in table]
    metrics = [
        metric
        for metric in (IMPORTED_METRICS if any(entry.imported for entry in entries) else OWN_METRICS)
        if any(entry.status in marks.DRAWN and entry.value(metric) is not None for entry in entries)
    ]
    for metric in metrics if len(population.entries) > 1 else metrics[:1]:
        yield from _charts(population, tables, metric, note)


def _tables(population: Population) -> tuple[dict[str, tuple[Entry, ...]], str]:
    """Return the panels by name; of many loads only the one that gives most, and the sentence saying so."""
    loads = population.loads
    if len(loads) <= MOST_LOADS:
        found: dict[str, tuple[Entry, ...]] = {}
        for load, entries in loads.items():
            for table in dict.fromkeys(entry.table for entry in entries):
                here = tuple(entry for entry in entries if entry.table == table)
                name = f"{table}, {load}" if table in found else table or load
                found[name] = here
        return found, ""
    load = population.busiest
    note = (
        f"Under {load}, where output throughput is highest; "
        f"the other {len(loads) - 1} loads are in the curves and in the tables."
    )
    return {load: loads[load]}, note


def _charts(
    population: Population, tables: dict[str, tuple[Entry, ...]], metric: Metric, note: str
) -> Iterator[Chart]:
    entries = [entry for table in tables.values() for entry in table]
    status = marks.counted(entries, metric)
    sentence = _finding(tables, metric, status)
    better = "higher is better" if metric.higher_is_better else "lower is better"
    legend = f"{metric.title}, {metric.unit}, {better}. {_legend(entries, metric, status)}"
    pages = list(_pages(tables, metric, status))
    for number, panels in enumerate(pages, start=1):
        part = f"Part {number} of {len(pages)}." if len(pages) > 1 else ""
        names = marks.label_px(label for panel in panels for label in panel.labels)
        sheet = Sheet()
        drawn = [_panel(sheet, panel, metric, names_px=names, titled=len(tables) > 1) for panel in panels]
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
            specification=sheet.framed(drawn, sentence, (legend, note, part, population.about)),
        )


def _pages(tables: dict[str, tuple[Entry, ...]], metric: Metric, status: Status) -> Iterator[list[_Panel]]:
    longest = {name: _longest(entries, metric) for name, entries in tables.items()}
    most = max(longest.values())
    page: list[_Panel] = []
    rows = 0
    for name, entries in tables.items():
        order = ranked(entries, metric)
        best = order[0] if clear(order, metric) else None
        labels = marks.labels(entries)
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
                    longest=most if most < SAME_SCALE * longest[name] else longest[name],
                    status=status,
                )
            )
            rows += len(entries[part])
    if page:
        yield page


def _panel(sheet: Sheet, panel: _Panel, metric: Metric, *, names_px: float, titled: bool) -> dict[str, Any]:
    altair = altair_module()
    width = WIDTH - 2 * MARGIN - marks.LABEL_WIDTH_PX - names_px
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
        if suspect and panel.status is Status.VALID:
            texts.append({**row, "text": marks.gap_text(entry, metric), "down": 1})
        if len(seen) > 1 and not suspect:
            dots += [{"label": label, "value": each} for each in seen]
    y = altair.Y(
        "label:N",
        sort=list(panel.labels),
        title=None,
        scale=altair.Scale(domain=list(panel.labels)),
        axis=marks.label_axis(names_px, domainColor=FAINT),
    )
    scale = altair.Scale(domain=[0, panel.longest * ROOM_FOR_VALUES], nice=False)
    axis = altair.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=6, format=",~r")
    x = altair.X("value:Q", title=metric.unit, scale=scale, axis=axis)
    tips = marks.tooltip(metric)
    solid = sheet.of([bar for bar in bars if not bar["suspect"]]).encode(y=y)
    hollow = sheet.of([bar for bar in bars if bar["suspect"]]).encode(y=y)
    # A suspect bar beside valid ones is small, with its reason under it; where none is valid it is said once.
    above, below, size, tall = (-9, 10, 13, 12) if panel.status is Status.VALID else (0, 0, 14, 24)
    layers = [
        solid.mark_bar(height={"band": 0.62}).encode(
            x=x, color=altair.Color("colour:N", scale=None), tooltip=tips
        ),
        solid.mark_rule(color=INK, strokeWidth=1.5).encode(x=altair.X("low:Q"), x2="high:Q"),
        sheet.of(dots)
        .mark_point(filled=True, size=34, color="white", stroke=INK, strokeWidth=1.2, opacity=1)
        .encode(y=y, x=x),
        solid.mark_text(align="left", dx=9, fontSize=14, fontWeight="bold", color=INK).encode(
            x=altair.X("high:Q"), text="text:N"
        ),
        hollow.mark_bar(
            height=tall,
            yOffset=above,
            fill="#F4F4F4",
            stroke=SUSPECT_COLOUR,
            strokeDash=[3, 2],
            strokeWidth=1.5,
        ).encode(x=x, tooltip=tips),
        hollow.mark_text(align="left", dx=9, dy=above, fontSize=size, color=SUSPECT_COLOUR).encode(
            x=altair.X("high:Q"), text="text:N"
        ),
    ]
    for down, colour, dy in ((0, GAP_COLOUR, 0), (1, SUSPECT_COLOUR, below)):
        lines = [text for text in texts if text["down"] == down]
        layers.append(
            sheet.of(lines)
            .mark_text(
                align="left", fontSize=13, fontStyle="italic", color=colour, x=8, dy=dy, limit=width - 16
            )
            .encode(y=y, text="text:N", tooltip=tips)
        )
    most_lines = max(label.count("\n") + 1 for label in panel.labels)
    step = max(40, 17 * most_lines + 12)
    return sheet.layered(layers, width=width, height={"step": step}, title=panel.title if titled else "")


def _colour(entry: Entry, metric: Metric, *, best: bool) -> str:
    return WEAK_COLOUR if entry.rests_on_few(metric) else BEST_COLOUR if best else BAR_COLOUR


def _longest(entries: Sequence[Entry], metric: Metric) -> float:
    drawn = [entry for entry in entries if entry.status in marks.DRAWN]
    seen = [found.value for entry in drawn for found in entry.observations.get(metric.key, ())]
    return max((*seen, *(entry.value(metric) or 0.0 for entry in drawn)), default=0.0) or 1.0


def _finding(tables: dict[str, tuple[Entry, ...]], metric: Metric, status: Status) -> str:
    if status is Status.VALID:
        return about(
            [
                Ranking(name=name, order=ranked(table, metric), among=len(table))
                for name, table in tables.items()
            ],
            metric,
        )
    best = marks.order((entry for table in tables.values() for entry in table), metric, status)[0]
    where = next(name for name, table in tables.items() if any(entry is best for entry in table))
    word = "highest" if metric.higher_is_better else "lowest"
    value = f"{metric.shown(best.value(metric))} {metric.unit}"
    return marks.warned(f"{word} {metric.title} {value}, {best.name}, {where}", status)


def _legend(entries: Sequence[Entry], metric: Metric, status: Status) -> str:
    if status is Status.SUSPECT:
        return f"Hollow: suspect, never ranked. {marks.why_suspect(entries)} {marks.left_out(entries)}"
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
