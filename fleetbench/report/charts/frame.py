"""What all charts share: size, fonts, colours, title, and how layers become a specification.

Colours are Okabe and Ito's, told apart by colour-blind eyes too. Nothing is said by colour alone: lines
differ in symbol and dashes as well, what is best in shade and in the title.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleetbench.drawing.vega import not_installed
from fleetbench.errors import one_line

WIDTH = 800
MARGIN = 24
INK, FAINT, GRID = "#222222", "#6B6B6B", "#E6E6E6"
BAR_COLOUR, BEST_COLOUR = "#56B4E9", "#0072B2"
WEAK_COLOUR = "#BDBDBD"  # a p99 that rests on too few requests
GAP_COLOUR = "#B34700"  # vermillion, darkened until it reads as text on white
SUSPECT_COLOUR = "#767676"
# Lines, each with a symbol and dashes of its own; the yellow is darkened, or it would be lost on white.
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222", "#8C8100")
LINE_SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"),
    "triangle-left",
)
LINE_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
MOST_LINES = len(LINE_COLOURS)
# The renderer brings Liberation Sans with it, so that a machine without fonts draws the same.
FONT = "Liberation Sans, Arial, sans-serif"
CHARACTER_PX = 7.4  # of 13 px text, a generous mean
TITLE_COLUMNS, SUBTITLE_COLUMNS = 74, 104
TITLE_LINES, TITLE_CHARACTERS = 4, 290
ALT_CHARACTERS = 900


class Section(StrEnum):
    """Where a chart belongs in a report, in this order."""

    CHOICE = "Which configuration"
    LOAD = "Under load"
    HARDWARE = "Beside the hardware"
    METRICS = "Metric by metric"
    TIME = "Over time"


Row = Mapping[str, Any]  # of a chart's data
Size = float | Mapping[str, float]  # pixels, or those of each step
_CONFIG = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": FAINT,
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        key: unique in a report, and the beginning of its files' names: `[a-z0-9-]`.
        finding: the sentence that it shows; its title.
        alt: for those who do not see it: what kind of chart, the finding, the values.
        specification: Vega-Lite, with its data and tooltips; nothing is fetched from anywhere.
    """

    key: str
    finding: str
    alt: str
    section: Section
    specification: Mapping[str, Any]


def altair_module() -> Any:
    """Return altair, which is imported only here because it takes a second."""
    try:
        import altair
    except ImportError as error:
        raise not_installed(error) from error
    return altair


class Sheet:
    """One chart in the making: its data, kept beside what is drawn of them, and its parts put together.

    Altair makes the layers. Put together by it they would be copied and checked with their data at each step,
    which takes longer than drawing; a test checks the whole against the schema instead.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Sequence[Row]] = {}

    def of(self, rows: Sequence[Row]) -> Any:
        """Return altair's chart of some rows, to be given marks; equal rows are kept once."""
        altair = altair_module()
        name = next((name for name, found in self._rows.items() if found == rows), f"rows-{len(self._rows)}")
        self._rows[name] = rows
        return altair.Chart(altair.NamedData(name=name))

    def layered(
        self, layers: Iterable[Any], *, width: Size, height: Size, title: str = "", **more: Any
    ) -> dict[str, Any]:
        """Return altair's layers as one panel, without those that have no rows.

        `more`: further properties of Vega-Lite's.
        """
        panel: dict[str, Any] = {
            "layer": [
                layer.to_dict(validate=False, context={"top_level": False})
                for layer in layers
                if self._rows[layer.data.name]
            ],
            "width": width,
            "height": height,
            **more,
        }
        if title:
            text = one_line(title, 100)
            panel["title"] = {"text": text, "anchor": "start", "fontSize": 14, "color": INK, "offset": 6}
        return panel

    def framed(
        self,
        panels: Sequence[dict[str, Any]],
        finding: str,
        notes: Iterable[str],
        *,
        spacing: int = 18,
        **more: Any,
    ) -> dict[str, Any]:
        """Given panels from top to bottom, the finding and what it takes to read it, return the whole."""
        subtitle = [
            line
            for note in notes
            if note
            for line in textwrap.wrap(capitalised(note.strip()), SUBTITLE_COLUMNS)
        ]
        parted = len(panels) > 1 or "title" in panels[0]
        return {
            "$schema": altair_module().SCHEMA_URL,
            "background": "white",
            "padding": MARGIN,
            "title": {
                "text": _title_lines(finding),
                "subtitle": subtitle,
                "anchor": "start",
                "fontSize": 19,
                "subtitleFontSize": 13,
                "subtitleColor": FAINT,
                "subtitlePadding": 6,
                "offset": 16,
                "color": INK,
            },
            **({"vconcat": list(panels), "spacing": spacing} if parted else panels[0]),
            **more,
            "datasets": dict(self._rows),
            "config": _CONFIG,
        }


def _title_lines(finding: str) -> list[str]:
    """Return a title in lines; `tp=2 dp=4` and `43 %` are never torn apart."""
    text = one_line(capitalised(finding), TITLE_CHARACTERS)
    kept = re.sub(r"(?<=\w=)(\S{1,20}) (?=\w{1,20}=)", "\\1\N{NO-BREAK SPACE}", text)
    kept = re.sub(r"(?<=\d) (?=%|tok/s|ms\b|GPUs?\b)", "\N{NO-BREAK SPACE}", kept)
    kept = re.sub(r"(?<=[≤<]) (?=\d)", "\N{NO-BREAK SPACE}", kept)
    return textwrap.wrap(kept, TITLE_COLUMNS, max_lines=TITLE_LINES, placeholder="…") or [""]


def legend(labels: Sequence[str], symbols: str = "circle") -> Any:
    """Return a legend under the chart, in as many columns as its longest label leaves room for."""
    altair = altair_module()
    longest = max((len(label) for label in labels), default=1) * CHARACTER_PX + 34
    columns = max(1, min(len(labels), int((WIDTH - 2 * MARGIN) / longest)))
    return altair.Legend(
        orient="bottom",
        direction="horizontal",
        columns=columns,
        title=None,
        labelFontSize=13,
        labelColor=INK,
        labelLimit=WIDTH - 2 * MARGIN - 40,
        symbolType=symbols,
        symbolSize=110,
        symbolStrokeWidth=2,
        symbolOpacity=1,
        offset=14,
    )


def capitalised(text: str) -> str:
    """Return a sentence with a capital, unless it begins with a name."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def percent(share: float) -> str:
    """Return a share as text: `43 %`."""
    return f"{100 * share:.0f} %"


def slug(text: str) -> str:
    """Return any text as part of a file's name; other texts may have the same."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")


def alternative(kind: str, finding: str, values: Iterable[str], notes: Iterable[str] = ()) -> str:
    """Return the text for those who do not see a chart; what is left out of a long one is said."""
    text = ". ".join(filter(None, (f"{kind}: {finding}", *notes)))
    shown: list[str] = []
    rest = list(values)
    while rest and len(text) + sum(map(len, shown)) + len(rest[0]) < ALT_CHARACTERS:
        shown.append(rest.pop(0))
    more = f"; and {len(rest)} more" if rest and shown else ""
    return one_line(f"{text}. {'; '.join(shown)}{more}" if shown else text, ALT_CHARACTERS + 300)
