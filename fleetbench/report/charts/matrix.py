"""The splits of one model over the GPUs of a server, as a map: how one copy is split × how many copies.

A cell that failed, was implied or never run is a hatched cell with its cause; a split that the sweep never
meant to try is no cell at all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fleetbench.errors import one_line
from fleetbench.model import Config
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    CHARACTER_PX,
    FAINT,
    GAP_COLOUR,
    INK,
    MARGIN,
    SUSPECT_COLOUR,
    WIDTH,
    Chart,
    Section,
    Sheet,
    altair_module,
    alternative,
)
from fleetbench.report.charts.populations import Population
from fleetbench.report.entry import Entry, Status, ranked
from fleetbench.report.finding import Ranking, about
from fleetbench.report.metrics import OUTPUT

ROW_PX, TITLE_PX = 84, 34
WIDEST_CELL_PX = 160
# Light to dark blue: what is more is darker, also without colours.
SHADES = ("#E8F1FA", "#A9CFEC", "#56A0D3", "#0072B2", "#00436B")
DARK_FROM = 0.7  # of the scale: white from there on, black below, each has 4.5 : 1 on its cell
CAUSE_LINES, LINE_PX = 4, 15
_OWN_COLOURS = {"scale": {"color": "independent"}}  # of cells, and of the text on them


def matrix_charts(population: Population) -> Iterator[Chart]:
    """Yield the map of the busiest load, where two splits or more of the same arguments were tried."""
    entries = [
        entry for entry in population.loads[population.busiest] if entry.split_known and not entry.imported
    ]
    groups: dict[tuple[str, Config], list[Entry]] = {}
    for entry in entries:
        same = replace(entry.config, tp=1, dp=1, pp=1, units=1)
        served = ", ".join(filter(None, (entry.gpu or _gpu_of(entries, entry), entry.series)))
        groups.setdefault((served, same), []).append(entry)
    shown = {key: group for key, group in groups.items() if len({_place(entry) for entry in group}) > 1}
    if not any(entry.valid and entry.value(OUTPUT) for group in shown.values() for entry in group):
        return
    drawn = [entry for group in shown.values() for entry in group]
    finding = about([Ranking(name="", order=ranked(drawn, OUTPUT), among=len(drawn))], OUTPUT)
    most = max(entry.value(OUTPUT) or 0 for group in shown.values() for entry in group if entry.valid)
    sheet = Sheet()
    device = marks.device(population.entries)
    panels = [
        _panel(sheet, _named(key), group, most, device=device, titled=len(shown) > 1)
        for key, group in shown.items()
    ]
    yield Chart(
        key=population.key("splits"),
        finding=finding,
        alt=alternative(
            "Map of splits", finding, [marks.said(entry, OUTPUT) for entry in drawn], (population.busiest,)
        ),
        section=Section.CHOICE,
        specification=sheet.framed(
            panels,
            finding,
            (
                f"{OUTPUT.title}, {OUTPUT.unit}; darker is more; below it the share of the best. "
                f"Under {population.busiest}. {marks.left_out(drawn)}",
                population.about,
            ),
        ),
    )


def _gpu_of(entries: Sequence[Entry], entry: Entry) -> str:
    """Return the GPU of an entry that never came as far as to name one: that of its host's others."""
    return next((other.gpu for other in entries if other.gpu and other.host == entry.host), "")


def _named(key: tuple[str, Config]) -> str:
    gpu, rest = key
    more = replace(rest).label.removeprefix("tp=1 dp=1").strip()
    return one_line(", ".join(filter(None, (gpu, more))) or "all", 90)


def _place(entry: Entry) -> tuple[str, str]:
    """Return row and column: how one copy is split, how many copies."""
    config = entry.config
    row = f"tp={config.tp}" + (f" pp={config.pp}" if config.pp > 1 else "")
    dp = f"dp={config.dp}" if config.dp > 1 or config.units == 1 else ""
    units = f"units={config.units}" if config.units > 1 else ""
    return row, " ".join(filter(None, (dp, units)))


def _panel(
    sheet: Sheet, name: str, group: Sequence[Entry], most: float, *, device: str, titled: bool
) -> dict[str, Any]:
    altair = altair_module()
    rows = {_place(e)[0]: (e.config.pp, e.config.tp) for e in group}
    columns = {_place(e)[1]: (e.config.units, e.config.dp) for e in group}
    row_order, column_order = sorted(rows, key=rows.__getitem__), sorted(columns, key=columns.__getitem__)
    label_px = max(map(len, row_order)) * CHARACTER_PX
    room_px = WIDTH - 2 * MARGIN - TITLE_PX - label_px
    cell_px = min(WIDEST_CELL_PX, room_px / len(column_order))
    best = ranked(group, OUTPUT)[:1]
    cells = [_cell(entry, most, cell_px, best=entry in best) for entry in _one_each(group)]
    x = altair.X(
        "column:N",
        title="copies of the model",
        scale=altair.Scale(domain=column_order, padding=0.04),
        axis=altair.Axis(orient="top", labelAngle=0, ticks=False, domain=False, labelLimit=cell_px),
    )
    y = altair.Y(
        "row:N",
        title=f"{device}s of a copy",
        scale=altair.Scale(domain=row_order, padding=0.04),
        axis=altair.Axis(ticks=False, domain=False, minExtent=label_px, labelLimit=label_px + 10),
    )

    def of(kind: str) -> Any:
        chosen = [cell for cell in cells if cell["kind"] == kind]
        return sheet.of(chosen).encode(x=x, y=y, tooltip=marks.tooltip(OUTPUT))

    layers = [
        of("number")
        .mark_rect()
        .encode(
            color=altair.Color(
                "value:Q", scale=altair.Scale(domain=[0, most], range=list(SHADES)), legend=None
            ),
            stroke=altair.Stroke("edge:N", scale=None),
            strokeWidth=altair.StrokeWidth("edge_px:Q", scale=None),
        ),
        of("number")
        .mark_text(fontSize=17, fontWeight="bold", dy=-8)
        .encode(text="text:N", color=altair.Color("ink:N", scale=None)),
        of("number")
        .mark_text(fontSize=12, dy=14)
        .encode(text="more:N", color=altair.Color("ink:N", scale=None)),
        of("suspect").mark_rect(fill="white", stroke=SUSPECT_COLOUR, strokeDash=[4, 3], strokeWidth=1.5),
        of("gap").mark_rect(fill="#FBF1EA", stroke=GAP_COLOUR, strokeDash=[4, 3], strokeWidth=1.5),
    ]
    # Vega centres the first of several lines only.
    for kind, colour in (("suspect", SUSPECT_COLOUR), ("gap", GAP_COLOUR)):
        for lines in range(1, CAUSE_LINES + 1):
            chosen = [
                cell for cell in cells if cell["kind"] == kind and cell["text"].count("\n") + 1 == lines
            ]
            if chosen:
                layers.append(
                    sheet.of(chosen)
                    .mark_text(
                        fontSize=12,
                        color=colour,
                        lineBreak="\n",
                        lineHeight=LINE_PX,
                        baseline="middle",
                        dy=-LINE_PX * (lines - 1) / 2,
                    )
                    .encode(x=x, y=y, text="text:N", tooltip=marks.tooltip(OUTPUT))
                )
    return sheet.layered(
        layers,
        width={"step": cell_px},
        height={"step": ROW_PX},
        title=name if titled else "",
        resolve=_OWN_COLOURS,
    )


def _one_each(group: Sequence[Entry]) -> Iterator[Entry]:
    """Yield an entry for each cell: of several the valid one, else the first."""
    places: dict[tuple[str, str], list[Entry]] = {}
    for entry in group:
        places.setdefault(_place(entry), []).append(entry)
    for several in places.values():
        yield next((entry for entry in several if entry.valid), several[0])


def _cell(entry: Entry, most: float, cell_px: float, *, best: bool) -> dict[str, Any]:
    row, column = _place(entry)
    value = entry.value(OUTPUT) if entry.status in marks.DRAWN else None
    cell = {"row": row, "column": column, **marks.facts(entry, OUTPUT)}
    columns = max(8, int((cell_px - 22) / 6.3))
    if value is None or entry.status is Status.SUSPECT:
        number = "" if value is None else f"{OUTPUT.shown(value)}\n"
        text = "\n".join(
            textwrap.wrap(
                marks.gap_text(entry, OUTPUT),
                columns,
                max_lines=CAUSE_LINES - (value is not None),
                placeholder="…",
            )
        )
        return {**cell, "kind": "gap" if value is None else "suspect", "text": number + text}
    dark = value > DARK_FROM * most
    share = f"{100 * value / most:.0f} % of best" if cell_px > 84 else f"{100 * value / most:.0f} %"
    return {
        **cell,
        "kind": "number",
        "value": value,
        "text": OUTPUT.shown(value),
        "more": "best measured" if best and value == most else share,
        "ink": "white" if dark else "black",
        "edge": INK if best else FAINT,
        "edge_px": 3 if best else 0,
    }
