"""The timeline of a run as a chart: a row for each host, a bar for each step, so that waste is seen.

Colours are Okabe and Ito's with two greys, told apart by colour-blind eyes too; steps follow each other in
the same order in every trial, so that a bar's place says what its colour says.
"""

from __future__ import annotations

from fleetbench.errors import one_line
from fleetbench.model import Step
from fleetbench.report.charts.frame import (
    FAINT,
    GRID,
    INK,
    MARGIN,
    WIDTH,
    Chart,
    Section,
    Sheet,
    altair_module,
    alternative,
    legend,
)
from fleetbench.report.timeline import merged, rows, spoken, time_finding, trial_spans
from fleetbench.results.timeline import RunTimeline, seconds_by_step

COLOURS = {
    Step.STOP: "#CC79A7",
    Step.DRAIN: "#7A7A7A",
    Step.LOAD: "#E69F00",
    Step.COMPILE: "#D55E00",
    Step.WARM_UP: "#56B4E9",
    Step.MEASURE: "#0072B2",
    Step.FETCH: "#009E73",
    Step.RESTORE: "#F0E442",
    Step.IDLE: "#DDDDDD",
}
LABEL_PX = 130
CHARACTER_PX = 6.2
ROW_PX, BAR_PX = 52, 24


def timeline_chart(timeline: RunTimeline, run_id: str) -> Chart:
    """Return the chart of a run's timeline, which has at least one period."""
    altair = altair_module()
    sheet = Sheet()
    per_row = {one_line(name, 60): periods for name, periods in rows(timeline).items()}
    began = min(period.began_ms for period in timeline.periods)
    unit, divisor = _unit(max(period.ended_ms for period in timeline.periods) - began)
    longest = (max(period.ended_ms for period in timeline.periods) - began) / divisor
    width = WIDTH - 2 * MARGIN - LABEL_PX
    seconds = seconds_by_step(timeline.periods)
    steps = {step: f"{step.value} {spoken(seconds[step])}" for step in seconds}
    bars = [
        {
            "row": name,
            "step": steps[period.step],
            "from": (period.began_ms - began) / divisor,
            "to": (period.ended_ms - began) / divisor,
            "took": spoken((period.ended_ms - period.began_ms) / 1000),
            "trial": f"{period.trial}: {one_line(period.config, 80)}" if period.trial else "–",
        }
        for name, periods in per_row.items()
        for period in merged(periods)
    ]
    labels = [
        {"row": one_line(span.row, 60), "at": (span.began_ms - began) / divisor, "text": text}
        for span in trial_spans(timeline)
        if (
            text := _label(
                span.trial, span.config, (span.ended_ms - span.began_ms) / divisor / longest * width
            )
        )
    ]
    y = altair.Y(
        "row:N",
        title=None,
        scale=altair.Scale(domain=list(per_row)),
        axis=altair.Axis(labelLimit=LABEL_PX - 10, labelPadding=8, ticks=False, domainColor=FAINT),
    )
    x = altair.X(
        "from:Q",
        title=f"{unit} since the start",
        scale=altair.Scale(domain=[0, longest or 1], nice=False),
        axis=altair.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=8),
    )
    colour = altair.Color(
        "step:N",
        scale=altair.Scale(domain=list(steps.values()), range=[COLOURS[step] for step in steps]),
        legend=legend(list(steps.values()), "square"),
    )
    tooltip = [
        altair.Tooltip(field, type="nominal", title=title)
        for field, title in (("row", "host"), ("step", "step, all together"), ("took", "this one"))
    ]
    layers = [
        sheet.of(bars)
        .mark_bar(height=BAR_PX)
        .encode(
            y=y,
            x=x,
            x2="to:Q",
            color=colour,
            tooltip=[*tooltip, altair.Tooltip("trial", type="nominal", title="trial")],
        ),
        sheet.of(labels)
        .mark_text(align="left", baseline="bottom", dy=-BAR_PX / 2 - 2, fontSize=11, color=INK)
        .encode(y=y, x=altair.X("at:Q"), text="text:N"),
    ]
    drawn = sheet.layered(layers, width=width, height={"step": ROW_PX})
    finding = time_finding(timeline)
    note = "One row for each host, one bar for each step; numbers above the bars are trials."
    return Chart(
        key="timeline",
        finding=finding,
        alt=alternative("Timeline of the run", finding, steps.values()),
        section=Section.TIME,
        specification=sheet.framed([drawn], finding, (note, f"run {one_line(run_id, 80)}")),
    )


def _unit(milliseconds: int) -> tuple[str, float]:
    """Return the unit of the axis, and how many milliseconds it has."""
    if milliseconds < 180_000:
        return "seconds", 1000.0
    return ("minutes", 60_000.0) if milliseconds < 3 * 3_600_000 else ("hours", 3_600_000.0)


def _label(trial: int, config: str, room_px: float) -> str:
    """Return a trial's label as long as there is room for it: with its configuration, its number, or none."""
    for text in (f"{trial}: {config}", f"{trial}"):
        if len(text) * CHARACTER_PX + 4 <= room_px:
            return text
    return ""
