"""The strip under curves: what has no valid number, where on the axis, and why.

It has no vertical axis, so that nobody takes a failure for a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetbench.errors import one_line
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import GAP_COLOUR, Sheet, altair_module
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT

ROW_PX, AXIS_PX = 44, 58
MOST_ROWS = 10
NAME_CHARACTERS, TEXT_CHARACTERS = 48, 115
# Marks by what became of an entry.
SHAPES: Mapping[Status, str] = {
    Status.FAILED: "M-1,-1L1,1M-1,1L1,-1",
    Status.INVALID: "M-1,-1L1,1M-1,1L1,-1",
    Status.IMPLIED: "diamond",
    Status.NOT_RUN: "circle",
    Status.UNMEASURED: "circle",
    Status.SUSPECT: "triangle-up",
}


Gaps = Sequence[tuple[str, Sequence[tuple[float, Entry]]]]  # by the name of a line: where, and what


def strip_of(sheet: Sheet, gaps: Gaps, *, x: Any, width: float) -> dict[str, Any]:
    """Return the panel; `x` is the axis of the panels above it, `width` theirs in pixels."""
    altair = altair_module()
    shown = gaps[:MOST_ROWS]
    rows, texts = [], []
    for name, found in shown:
        for place, entry in found:
            rows.append(
                {
                    "row": one_line(name, NAME_CHARACTERS),
                    "place": place,
                    "shape": SHAPES.get(entry.status, "circle"),
                    **marks.facts(entry, OUTPUT),
                }
            )
        causes = dict.fromkeys(marks.gap_text(entry, OUTPUT) for _, entry in found)
        text = f"{one_line(name, NAME_CHARACTERS)} – {'; '.join(causes)}"
        texts.append({"row": one_line(name, NAME_CHARACTERS), "text": one_line(text, TEXT_CHARACTERS)})
    more = f", and {len(gaps) - len(shown)} more configurations" if len(gaps) > len(shown) else ""
    y = altair.Y(
        "row:N",
        title=None,
        scale=altair.Scale(domain=[one_line(name, NAME_CHARACTERS) for name, _ in shown]),
        axis=altair.Axis(labels=False, ticks=False, domain=False, minExtent=AXIS_PX, maxExtent=AXIS_PX),
    )
    layers = [
        sheet.of(rows)
        .mark_point(size=60, filled=False, strokeWidth=1.8, opacity=1, yOffset=9, color=GAP_COLOUR)
        .encode(x=x, y=y, tooltip=marks.tooltip(), shape=altair.Shape("shape:N", scale=None)),
        sheet.of(texts)
        .mark_text(align="left", fontSize=12, color=GAP_COLOUR, x=2, dy=-9, limit=width - 4)
        .encode(y=y, text="text:N"),
    ]
    return sheet.layered(layers, width=width, height={"step": ROW_PX}, title=f"No valid number{more}")
