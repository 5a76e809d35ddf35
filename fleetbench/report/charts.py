"""One bar chart for each metric, as PNG that can be read at 800 pixels.

Bars are medians of valid repeats, the line is minimum to maximum, the dots are the repeats. What has no valid
number is a labelled gap, never missing. Colours are Okabe and Ito's, told apart by colour-blind eyes too;
the best is marked by shade and by the title, not by hue alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fleetbench.errors import FleetbenchError, one_line
from fleetbench.model import Workload
from fleetbench.report.finding import clear_winner, finding
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.report.summary import Report, ReportRow
from fleetbench.report.terminal import rests_on_few
from fleetbench.results.rows import MeasurementKind, Verdict

WIDTH = 800
PIXELS_PER_POINT = 2  # for screens with small pixels; 1600 wide
MARGIN = 24
BAR_COLOUR, BEST_COLOUR = "#56B4E9", "#0072B2"
WEAK_COLOUR = "#BDBDBD"  # a p99 that rests on too few requests
GAP_COLOUR = "#B34700"  # vermillion, darkened until it reads as text on white
INK, FAINT = "#222222", "#6B6B6B"
# The renderer brings Liberation Sans with it, so that a machine without fonts draws the same.
FONT = "Liberation Sans, Arial, sans-serif"
LABEL_COLUMNS, LABEL_LINES = 30, 3
LABEL_WIDTH_PX, CHARACTER_PX, HALF_LINE_PX = 15, 7.4, 7.5
TITLE_COLUMNS, SUBTITLE_COLUMNS = 74, 104
ROOM_FOR_VALUES = 1.22  # the axis goes beyond the longest bar, for the value printed after it


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart: its metric, the sentence that it shows, and the PNG."""

    metric: Metric
    finding: str
    png: bytes

    @property
    def file_name(self) -> str:
        """Name of its file: `output-throughput.png`, `p99-ttft-ms.png` …"""
        return file_name(self.metric)


def file_name(metric: Metric) -> str:
    """Return the name of a metric's chart file."""
    return f"{metric.key.replace('_', '-')}.png"


def draw_charts(report: Report) -> Iterator[Chart]:
    """Given a report, yield a chart for each metric that has at least one valid number."""
    for metric in METRICS:
        if any(row.valid and metric.key in row.spreads for row in report.rows):
            yield Chart(metric, finding(report, metric), png_of(specification(report, metric)))


def specification(report: Report, metric: Metric) -> dict[str, Any]:
    """Return the Vega-Lite specification of a metric's chart."""
    altair = altair_module()
    labels = _labels(report)
    label_px = min(
        max(len(line) for text in labels.values() for line in text.split("\n")) * CHARACTER_PX,
        LABEL_COLUMNS * CHARACTER_PX,
    )
    width = WIDTH - 2 * MARGIN - label_px - LABEL_WIDTH_PX
    panels = [_panel(altair, report, metric, workload, labels, width) for workload in report.workloads]
    better = "higher is better" if metric.higher_is_better else "lower is better"
    subtitle = f"{metric.title}, {metric.unit}, {better}. {_legend(report, metric)}"
    chart = (
        altair.vconcat(*panels, spacing=18)
        .properties(
            padding=MARGIN,
            title=altair.TitleParams(
                text=textwrap.wrap(_sentence(finding(report, metric)), TITLE_COLUMNS),
                subtitle=[*textwrap.wrap(subtitle, SUBTITLE_COLUMNS), f"run {one_line(report.run.id, 80)}"],
                anchor="start",
                fontSize=19,
                subtitleFontSize=13,
                subtitleColor=FAINT,
                subtitlePadding=6,
                offset=16,
                color=INK,
            ),
        )
        .configure(font=FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(labelColor=INK, titleColor=FAINT, labelFontSize=13, titleFontSize=13)
    )
    document: dict[str, Any] = chart.to_dict()
    return document


def _panel(
    altair: Any, report: Report, metric: Metric, workload: Workload, labels: dict[str, str], width: float
) -> Any:
    rows = report.of_workload(workload)
    winner = clear_winner(report, rows, metric)
    best = [row.name for row in winner.rows] if winner else []
    bars: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for row in rows:
        label = labels[row.name]
        found = row.spreads.get(metric.key) if row.valid else None
        if found is None:
            gaps.append({"name": label, "text": gap_text(row, metric)})
            continue
        bars.append(
            {
                "name": label,
                "value": row.value(metric),
                "low": found.minimum,
                "high": found.maximum,
                "best": row.name in best,
                "colour": _colour(row, metric, best=row.name in best),
                "text": metric.shown(row.value(metric)),
            }
        )
        dots += [{"name": label, "value": value} for value in _repeats(report, row, metric)]
    longest = max((max(bar["high"], bar["value"]) for bar in bars), default=1.0) or 1.0
    y = altair.Y(
        "name:N",
        sort=[labels[row.name] for row in rows],
        title=None,
        scale=altair.Scale(domain=[labels[row.name] for row in rows]),
        axis=altair.Axis(
            labelExpr="split(datum.label, '\\n')",
            labelLimit=LABEL_COLUMNS * CHARACTER_PX + 20,
            labelPadding=8,
            labelOffset=_centred(),
            ticks=False,
            domainColor=FAINT,
        ),
    )
    x = altair.X(
        "value:Q",
        title=metric.unit,
        scale=altair.Scale(domain=[0, longest * ROOM_FOR_VALUES], nice=False),
        axis=altair.Axis(gridColor="#E6E6E6", domain=False, ticks=False, tickCount=6, format=",~r"),
    )
    bar = altair.Chart(altair.Data(values=bars)).encode(y=y)
    drawn = [
        bar.mark_bar(height={"band": 0.62}).encode(x=x, color=altair.Color("colour:N", scale=None)),
        bar.mark_rule(color=INK, strokeWidth=1.5).encode(x=altair.X("low:Q", title=metric.unit), x2="high:Q"),
        altair.Chart(altair.Data(values=dots))
        .mark_point(filled=True, size=34, color="white", stroke=INK, strokeWidth=1.2, opacity=1)
        .encode(y=y, x=x),
        bar.mark_text(align="left", dx=9, fontSize=14, fontWeight="bold", color=INK).encode(
            x=altair.X("high:Q", title=metric.unit), text="text:N"
        ),
        altair.Chart(altair.Data(values=gaps))
        .mark_text(align="left", fontSize=13, fontStyle="italic", color=GAP_COLOUR, x=8, limit=width - 16)
        .encode(y=y, text="text:N"),
    ]
    lines = max(text.count("\n") + 1 for text in labels.values())
    panel = altair.layer(*drawn).properties(width=width, height={"step": max(40, 17 * lines + 12)})
    if len(report.workloads) > 1:
        panel = panel.properties(
            title=altair.TitleParams(
                text=one_line(workload.label, 100), anchor="start", fontSize=14, color=INK, offset=6
            )
        )
    return panel


def gap_text(row: ReportRow, metric: Metric) -> str:
    """Return why a row has no bar for a metric: `failed: out of memory`, `suspect: …`, `not reported`."""
    if row.valid:
        return f"{metric.title} not reported"
    if row.verdict in (Verdict.SUSPECT, Verdict.INVALID):
        why = next(iter(row.notes), "").partition(": ")[2]
        return one_line(f"{row.status}, not drawn{': ' + why if why else ''}", 110)
    return one_line(row.status, 110)


def _colour(row: ReportRow, metric: Metric, *, best: bool) -> str:
    return WEAK_COLOUR if rests_on_few(row, metric) else BEST_COLOUR if best else BAR_COLOUR


def _repeats(report: Report, row: ReportRow, metric: Metric) -> list[float]:
    values = (
        metric.of(found.result)
        for found in report.measurements
        if (found.trial, found.workload_index) == (row.trial.number, row.workload_index)
        and found.kind is MeasurementKind.MEASURE
        and found.verdict is Verdict.VALID
    )
    return [value for value in values if value is not None]


def _legend(report: Report, metric: Metric) -> str:
    drawn = [row for row in report.rows if row.valid and metric.key in row.spreads]
    pooled = all(row.pooled is not None and metric.key in row.pooled.latencies for row in drawn)
    middle = "over all requests" if pooled else "median"
    text = f"Bar: {middle} of the valid repeats; line: lowest to highest; dots: each repeat."
    if all(row.counted == 1 for row in drawn):
        text = "Bar: one run each, so the spread is unknown."
    if any(rests_on_few(row, metric) for row in drawn):
        text += " Grey: fewer than 1,000 requests."
    left_out = len(report.rows) - len(drawn)
    return f"{text} {left_out} of {len(report.rows)} without a valid number." if left_out else text


def _centred() -> dict[str, Any]:
    """Return the axis property that puts the middle of a label of several lines beside its bar's middle."""
    shifted = [
        {"test": f"length(split(datum.label, '\\n')) == {lines}", "value": -HALF_LINE_PX * (lines - 1)}
        for lines in range(2, LABEL_LINES + 1)
    ]
    return {"condition": shifted, "value": 0}


def _labels(report: Report) -> dict[str, str]:
    """Return the axis label of each row's name; cut short, they must still be different categories."""
    labels = {row.name: _wrapped(row.name) for row in report.rows}
    taken = list(labels.values())
    numbers = {row.name: row.trial.number for row in report.rows}
    return {
        name: _wrapped(f"#{numbers[name]} {name}") if taken.count(label) > 1 else label
        for name, label in labels.items()
    }


def _wrapped(name: str) -> str:
    lines = textwrap.wrap(name, LABEL_COLUMNS, break_on_hyphens=False) or [name]
    if len(lines) > LABEL_LINES:
        lines = [*lines[: LABEL_LINES - 1], lines[LABEL_LINES - 1][: LABEL_COLUMNS - 1] + "…"]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if not text.startswith(("tp=", "dp=", "pp=")) else text


def altair_module() -> Any:
    """Return altair, which is imported only here because it takes a second."""
    try:
        import altair
    except ImportError as error:
        raise _not_installed(error) from error
    return altair


def png_of(document: dict[str, Any]) -> bytes:
    """Return a Vega-Lite specification as a PNG; nothing is fetched from anywhere."""
    return bytes(
        _converted(
            lambda convert: convert.vegalite_to_png(document, scale=PIXELS_PER_POINT, allowed_base_urls=[])
        )
    )


def svg_of(document: dict[str, Any]) -> bytes:
    """Return a Vega-Lite specification as an SVG; nothing is fetched from anywhere."""
    return str(_converted(lambda convert: convert.vegalite_to_svg(document, allowed_base_urls=[]))).encode()


def _converted(draw: Callable[[Any], Any]) -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise _not_installed(error) from error
    try:
        return draw(vl_convert)
    except ValueError as error:
        raise FleetbenchError(
            "cannot draw a chart", cause=str(error), next_step="run again with --debug, and report it"
        ) from error


def _not_installed(error: ImportError) -> FleetbenchError:
    return FleetbenchError(
        "cannot draw charts", cause=str(error), next_step="pip install altair vl-convert-python"
    )
