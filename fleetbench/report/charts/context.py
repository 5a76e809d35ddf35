"""Throughput and latency against the context length that the server was started with."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.report.charts import marks
from fleetbench.report.charts.concurrency import panels_of
from fleetbench.report.charts.frame import Chart, Section, Sheet, alternative
from fleetbench.report.charts.lines import SHARED, Lines, drawn, spoken
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT
from fleetbench.results.comparison import Comparison

NOTABLE_PERCENT = 10.0  # what a longer context costs is said from here on


def context_charts(population: Population) -> Iterator[Chart]:
    """Yield a chart for each load under which two context lengths or more were measured."""
    for number, (load, group) in enumerate(population.loads.items(), start=1):
        points: dict[str, list[tuple[float, Entry]]] = {}
        for entry in group:
            if entry.config.max_model_len:
                name = line_name(entry, population, context=False)
                points.setdefault(name, []).append((float(entry.config.max_model_len), entry))
        lines = Lines.of(points, "context length that the server allows, tokens, logarithmic", {})
        if not lines.worth_drawing:
            continue
        panels = panels_of(lines.entries, {})
        finding = marks.warned(_finding(lines), lines.status)
        sheet = Sheet()
        yield Chart(
            key=population.key("context-length", number),
            finding=finding,
            alt=alternative(
                "Lines over context length",
                finding,
                spoken(lines, panels),
                (f"{OUTPUT.title} in {OUTPUT.unit}",),
            ),
            section=Section.LOAD,
            specification=sheet.framed(
                drawn(sheet, lines, panels),
                finding,
                (
                    f"Under {load}. {lines.reading} {marks.left_out(group)}",
                    lines.note,
                    population.about,
                ),
                spacing=14,
                resolve=SHARED,
            ),
        )


def _finding(lines: Lines) -> str:
    """Say what the longest context costs the configuration that it costs most."""
    found = list(_from_shortest_to_longest(lines))
    if not found:
        return f"{OUTPUT.title} over context length"
    ratio, name, short, long = min(found, key=lambda each: each[0].ratio)
    if ratio.ratio > 1 - NOTABLE_PERCENT / 100:
        once = " (measured once: the noise is unknown)" if ratio.low is None else ""
        return f"A longer context costs no configuration {NOTABLE_PERCENT:g} % of its {OUTPUT.title}{once}"
    says = ratio.sentence(against=f"that at {short:,g}")
    return f"A longer context costs {name} most: {OUTPUT.title} at {long:,g} tokens is {says}"


def _from_shortest_to_longest(lines: Lines) -> Iterator[tuple[Comparison, str, float, float]]:
    for name, found in lines.points.items():
        ends = [(place, entry) for place, entry in found if entry.status is lines.status]
        if not ends:
            continue
        (short, first), (long, last) = min(ends, key=_place), max(ends, key=_place)
        compared = last.against(first, OUTPUT) if short < long else None
        if compared is not None:
            yield compared, name, short, long


def _place(point: tuple[float, Entry]) -> float:
    return point[0]
