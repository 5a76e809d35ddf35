"""Throughput and latency against the context length that the server was started with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.report.charts.concurrency import panels_of
from fleetbench.report.charts.frame import Chart, Section, alternative, framed
from fleetbench.report.charts.lines import Lines, drawn, spoken
from fleetbench.report.charts.marks import left_out
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry, ranked
from fleetbench.report.metrics import OUTPUT

NOTABLE_PERCENT = 10.0  # what a longer context costs is said from here on


def context_charts(population: Population) -> Iterator[Chart]:
    """Yield a chart for each load under which two context lengths or more were measured."""
    for number, (load, group) in enumerate(population.loads.items(), start=1):
        measured = {
            entry.config.max_model_len
            for entry in group
            if entry.config.max_model_len and entry.value(OUTPUT) is not None
        }
        if len(measured) < 2:
            continue
        points: dict[str, list[tuple[float, Entry]]] = {}
        for entry in group:
            if entry.config.max_model_len:
                name = line_name(entry, population, context=False)
                points.setdefault(name, []).append((float(entry.config.max_model_len), entry))
        lines = Lines.of(points, "context length that the server allows, tokens, logarithmic", {})
        panels = panels_of(lines.entries, {})
        finding = _finding(lines)
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
            specification=framed(
                drawn(lines, panels),
                finding,
                (
                    f"{load}. Filled: valid; line: median where there are several. "
                    f"Hollow and grey: suspect. {left_out(group)}",
                    lines.note,
                    population.about,
                ),
            ),
        )


def _finding(lines: Lines) -> str:
    """Say what the longest context costs each line that was valid at both ends."""
    changes = []
    for name, found in lines.points.items():
        valid = sorted(
            ((place, entry) for place, entry in found if entry.valid and entry.value(OUTPUT)),
            key=lambda point: point[0],
        )
        if valid and valid[0][0] < valid[-1][0]:
            first, last = valid[0][1].value(OUTPUT) or 0.0, valid[-1][1].value(OUTPUT) or 0.0
            changes.append(((last / first - 1) * 100, name, valid[0][0], valid[-1][0]))
    if not changes:
        best = ranked(lines.entries)
        alone = "no configuration was valid at two context lengths"
        return alone.capitalize() if best else f"No valid measurement of {OUTPUT.title}"
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
