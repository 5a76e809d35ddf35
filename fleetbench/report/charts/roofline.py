"""How near each configuration came to what its GPUs can do at most, and in words what held it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetbench.errors import one_line
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import (
    FAINT,
    GAP_COLOUR,
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
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT

MOST_ROWS = 32
REST_COLOUR = "#E9E9E9"
UNKNOWN = "not known"
# What binds, as docs/ceiling.md has the words, said so that nobody has to look them up; and its colour.
BINDS = {
    "bandwidth": ("memory bandwidth", "#0072B2"),
    "compute": ("arithmetic", "#D55E00"),
    "interconnect": ("the link between GPUs", "#CC79A7"),
    "kv-room": ("room for keys and values", "#E69F00"),
    "client": ("the client", "#009E73"),
    "api-server": ("the API server", "#882255"),
    "scheduler": ("the server's host", "#56B4E9"),
    "unknown": (UNKNOWN, "#8A8A8A"),
}


def roofline_charts(population: Population) -> Iterator[Chart]:
    """Yield the chart of the busiest load, where at least one entry's ceiling is known."""
    entries = population.loads[population.busiest]
    known = [entry for entry in entries if entry.status in marks.DRAWN and _share(entry) is not None]
    if not known:
        return
    order = sorted(known, key=lambda entry: -(_share(entry) or 0))
    rest = [entry for entry in entries if entry.status not in marks.DRAWN]
    without = len(entries) - len(known) - len(rest)
    shown = [*order, *rest][:MOST_ROWS]
    cut = len(order) + len(rest) - len(shown)
    status = Status.VALID if any(entry.valid for entry in known) else Status.SUSPECT
    named = {id(entry): line_name(entry, population) for entry in shown}
    finding = marks.warned(_finding([e for e in order if e.status is status], named), status)
    sheet = Sheet()
    yield Chart(
        key=population.key("roofline"),
        finding=finding,
        alt=alternative(
            "Bars of the share of the ceiling",
            finding,
            [f"{entry.name} {_share(entry):.0f} %, {_held_back(entry)}" for entry in order],
        ),
        section=Section.HARDWARE,
        specification=sheet.framed(
            _drawn(sheet, shown, [named[id(entry)] for entry in shown], status),
            finding,
            (
                "Share of the overlapped ceiling: all reading, arithmetic and sending at once, nothing else. "
                f"60 to 80 % is very good. Under {population.busiest}. {marks.left_out(entries)}",
                marks.why_suspect(known) if status is Status.SUSPECT else "",
                f"Of {without} no ceiling is known." if without else "",
                f"{cut} more are in the tables." if cut else "",
                population.about,
            ),
        ),
    )


def _share(entry: Entry) -> float | None:
    share = entry.ceiling.get("of_ceiling_percent")
    return float(share) if isinstance(share, int | float) and not isinstance(share, bool) else None


def _held_back(entry: Entry) -> str:
    words = dict.fromkeys(str(entry.ceiling.get("binds") or "unknown").split("; "))
    known = [BINDS.get(word, (one_line(word, 40), ""))[0] for word in words if word != "unknown"]
    return f"held back by {' and '.join(known)}" if known else "what holds it back is not known"


def _finding(order: Sequence[Entry], named: Mapping[int, str]) -> str:
    best, worst = order[0], order[-1]
    near = f"{named[id(best)]} comes nearest to its ceiling: {_share(best):.0f} % of it, {_held_back(best)}"
    if best is worst:
        return near
    return f"{near}; {named[id(worst)]} is farthest: {_share(worst):.0f} %, {_held_back(worst)}"


def _drawn(
    sheet: Sheet, entries: Sequence[Entry], names: Sequence[str], status: Status
) -> list[dict[str, Any]]:
    altair = altair_module()
    labels = marks.labels(entries, names)
    width = WIDTH - 2 * MARGIN - marks.LABEL_WIDTH_PX - marks.label_px(labels)
    right = max(100.0, *(_share(entry) or 0 for entry in entries)) * 1.06
    bars: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for entry, label in zip(entries, labels, strict=True):
        share = _share(entry) if entry.status in marks.DRAWN else None
        row = {"label": label, **marks.facts(entry, OUTPUT)}
        if share is None:
            gaps.append({**row, "text": marks.gap_text(entry, OUTPUT)})
            continue
        first = str(entry.ceiling.get("binds") or "unknown").split("; ")[0]
        suspect = "" if entry.status is status else f"{marks.gap_text(entry, OUTPUT)}. "
        held = _held_back(entry)
        why = one_line(str(entry.ceiling.get("why") or ""), 200)
        bars.append(
            {
                **row,
                "share": share,
                "whole": 100.0,
                "counts": entry.status is status,
                "binds": BINDS.get(first, BINDS["unknown"])[0],
                "why": why or "–",
                "number": f"{share:.0f} %" if share >= 10 else f"{share:.1f} %",
                "text": one_line(f"{suspect}{held[0].upper()}{held[1:]}{f': {why}' if why else ''}", 200),
            }
        )
    present = [words for words in BINDS.values() if any(bar["binds"] == words[0] for bar in bars)]
    names = [name for name, _ in present]
    y = altair.Y(
        "label:N",
        title=None,
        scale=altair.Scale(domain=labels),
        axis=marks.label_axis(marks.label_px(labels), domainColor=FAINT),
    )
    x = altair.X(
        "share:Q",
        title="% of the ceiling",
        scale=altair.Scale(domain=[0, right], nice=False),
        axis=altair.Axis(gridColor=GRID, domain=False, ticks=False, values=[0, 20, 40, 60, 80, 100]),
    )
    tips = marks.tooltip(OUTPUT, number="of the ceiling", binds="held back by", why="why")
    data = sheet.of(bars).encode(y=y)
    above, below = -9, 10
    layers = [
        data.mark_bar(height=16, yOffset=above, color=REST_COLOUR).encode(
            x=altair.X("whole:Q", title="% of the ceiling"), tooltip=tips
        ),
        data.mark_bar(height=16, yOffset=above).encode(
            x=x,
            color=altair.Color(
                "binds:N",
                scale=altair.Scale(domain=names, range=[colour for _, colour in present]),
                legend=legend(names, "square"),
            ),
            opacity=altair.condition("datum.counts", altair.value(1), altair.value(0.35)),
            tooltip=tips,
        ),
        data.mark_text(align="left", dx=6, dy=above, fontSize=13, fontWeight="bold", color=INK).encode(
            x=altair.X("share:Q"), text="number:N"
        ),
        data.mark_text(align="left", x=2, dy=below, fontSize=12, color=FAINT, limit=width - 4).encode(
            text="text:N"
        ),
        sheet.of(gaps)
        .mark_text(align="left", x=8, fontSize=13, fontStyle="italic", color=GAP_COLOUR, limit=width - 12)
        .encode(y=y, text="text:N", tooltip=marks.tooltip(OUTPUT)),
    ]
    most_lines = max(label.count("\n") + 1 for label in labels)
    return [sheet.layered(layers, width=width, height={"step": max(42, 17 * most_lines + 12)})]
