"""Throughput and latency against the context length that the server was started with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.report.charts import marks
from fleetbench.report.charts.concurrency import panels_of
from fleetbench.report.charts.frame import Chart, Section, Sheet, alternative
from fleetbench.report.charts.lines import SHARED, Lines, drawn, spoken
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT

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
    """Say what the longest context costs each line that was valid at both ends."""
    changes = []
    for name, found in lines.points.items():
        valid = sorted(
            (
                (place, entry)
                for place, entry in found
                if entry.status is lines.status and entry.value(OUTPUT)
            ),
            key=lambda point: point[0],
        )
        if valid and valid[0][0] < valid[-1][0]:
            first, last = valid[0][1].value(OUTPUT) or 0.0, valid[-1][1].value(OUTPUT) or 0.0
            changes.append(((last / first - 1) * 100, name, valid[0][0], valid[-1][0]))
    percent, name, short, long = min(changes)
    if percent > -NOTABLE_PERCENT:
        return (
            f"A longer context costs no configuration {NOTABLE_PERCENT:g} % of its {OUTPUT.title}"
            f"{_measured_once(lines.entries)}"
        )
    several = sum(change <= -NOTABLE_PERCENT for change, *_ in changes)
    others = f"; {several} of {len(changes)} lose {NOTABLE_PERCENT:g} % or more" if len(changes) > 1 else ""
    return (
        f"{name} has {-percent:.0f} % less {OUTPUT.title} at {long:,g} tokens of context than at {short:,g}"
        f"{others}{_measured_once(lines.entries)}"
    )


def _measured_once(entries: Sequence[Entry]) -> str:
    once = all(entry.repeats <= 1 for entry in entries)
    return " (measured once: the noise is unknown)" if once else ""
