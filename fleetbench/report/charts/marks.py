"""What charts say of one entry: its label, its gap, its tooltip. Text of others is made harmless."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleetbench.errors import one_line
from fleetbench.report.charts.frame import CHARACTER_PX, altair_module
from fleetbench.report.entry import Entry, Status, ranked
from fleetbench.report.metrics import Metric
from fleetbench.report.tables.shown import gpus_text
from fleetbench.report.terminal import interval_text
from fleetbench.results.rows import Verdict

LABEL_COLUMNS, LABEL_LINES = 30, 3
LABEL_WIDTH_PX, HALF_LINE_PX = 15, 7.5
# A number stands behind these; that of a suspect one is drawn hollow and grey, beside its reason.
_BEGINNINGS = ("A", "Highest", "Most", "No", "None")
DRAWN = (Status.VALID, Status.SUSPECT)
_TOOLTIP = (
    *(("name", "configuration"), ("shown", "value"), ("interval", "95 % interval"), ("repeats", "repeats")),
    *(("status", "status"), ("cause", "cause"), ("load", "load"), ("host", "host"), ("gpus", "devices")),
    ("evidence", "evidence"),
)


def facts(entry: Entry, metric: Metric) -> dict[str, Any]:
    """Return what a tooltip shows of an entry, as a row of a chart's data."""
    value = entry.value(metric)
    return {
        "name": one_line(entry.name, 120),
        "shown": "–" if value is None else f"{metric.shown(value)} {metric.unit}",
        "interval": interval_text(entry.spread(metric)) or "unknown",
        "repeats": entry.repeats,
        "status": entry.status.value,
        "cause": one_line(entry.cause, 200) or "–",
        "load": one_line(entry.load, 120) or "–",
        "host": one_line(entry.host, 80) or "–",
        "gpus": gpus_text(entry) or "–",
        "evidence": one_line(f"{entry.run or entry.source}, {entry.place}", 120),
    }


def device(entries: Iterable[Entry]) -> str:
    """Return what the devices of a chart are called: GPUs where any of its entries names one."""
    return "GPU" if any(entry.on_gpus for entry in entries) else "device"


def tooltip(metric: Metric | None = None, **more: str) -> list[Any]:
    """Return the tooltip of rows made of `facts`; `more`: further fields with their names."""
    altair = altair_module()
    titles = dict(_TOOLTIP) | {"shown": metric.title if metric else "value"} | more
    return [altair.Tooltip(field=field, type="nominal", title=title) for field, title in titles.items()]


def gap_text(entry: Entry, metric: Metric) -> str:
    """Return why an entry has no number of a metric that counts: `failed: out of memory`, `not reported`."""
    if entry.status is Status.VALID:
        return f"{metric.title} not reported"
    value = entry.value(metric)
    told = f" ({metric.shown(value)} was published)" if entry.imported and value is not None else ""
    told = told if entry.status not in DRAWN else ""
    return one_line(f"{entry.status.value}{': ' if entry.cause else ''}{entry.cause}{told}", 110)


def said(entry: Entry, metric: Metric, name: str = "") -> str:
    """Return an entry in a few words, for those who do not see its mark."""
    value = entry.value(metric) if entry.status in DRAWN else None
    called = one_line(name or entry.name, 60)
    if value is None:
        return f"{called} {one_line(gap_text(entry, metric), 70)}"
    return f"{called} {metric.shown(value)}{' (suspect)' if entry.status is Status.SUSPECT else ''}"


def labels(entries: Sequence[Entry], names: Sequence[str] = ()) -> list[str]:
    """Return the axis label of each entry, of its own name or of `names`; cut short, they still differ."""
    called = list(names) or [entry.name for entry in entries]
    found = [wrapped(name) for name in called]
    numbers = [entry.trial or place for place, entry in enumerate(entries, start=1)]
    found = [
        wrapped(f"#{number} {name}") if found.count(label) > 1 else label
        for label, number, name in zip(found, numbers, called, strict=True)
    ]
    return [
        f"{label} ({found[:place].count(label) + 1})" if label in found[:place] else label
        for place, label in enumerate(found)
    ]


def wrapped(name: str) -> str:
    """Return a name in as many lines as an axis has room for."""
    lines = textwrap.wrap(one_line(name), LABEL_COLUMNS, break_on_hyphens=False) or ["unnamed"]
    if len(lines) > LABEL_LINES:
        lines = [*lines[: LABEL_LINES - 1], lines[LABEL_LINES - 1][: LABEL_COLUMNS - 1] + "…"]
    return "\n".join(lines)


def label_px(texts: Iterable[str]) -> float:
    """Return the width of the column of labels."""
    longest = max((len(line) for text in texts for line in text.split("\n")), default=1)
    return min(longest, LABEL_COLUMNS) * CHARACTER_PX


def label_axis(wide_px: float, **more: Any) -> Any:
    """Return an axis whose labels have several lines, each label beside the middle of its row."""
    altair = altair_module()
    shifted = [
        {"test": f"length(split(datum.label, '\\n')) == {lines}", "value": -HALF_LINE_PX * (lines - 1)}
        for lines in range(2, LABEL_LINES + 1)
    ]
    return altair.Axis(
        labelExpr="split(datum.label, '\\n')",
        labelLimit=LABEL_COLUMNS * CHARACTER_PX + 20,
        minExtent=wide_px + 10,
        labelPadding=8,
        labelOffset={"condition": shifted, "value": 0},
        ticks=False,
        **more,
    )


def left_out(entries: Sequence[Entry]) -> str:
    """Say how many have no valid number, by what became of them; nothing where all are valid."""
    counts: Mapping[str, int] = {
        status.value: sum(entry.status is status for entry in entries) for status in Status
    }
    parts = [f"{number} {name}" for name, number in counts.items() if number and name != Status.VALID.value]
    return f"Not valid, of {len(entries)}: {', '.join(parts)}." if parts else ""


def without(entries: Sequence[Entry], metric: Metric) -> str:
    """Say which entries have no mark in a chart that has no place for them, and why."""
    told: dict[str, int] = {}
    for entry in entries:
        text = one_line(f"{entry.name}: {gap_text(entry, metric)}", 90)
        told[text] = told.get(text, 0) + 1
    parts = [f"{text}{f' ({times} loads)' if times > 1 else ''}" for text, times in list(told.items())[:4]]
    more = f"; and {len(told) - 4} more" if len(told) > 4 else ""
    return f"Without a mark: {'; '.join(parts)}{more}." if parts else ""


def counted(entries: Iterable[Entry], metric: Metric) -> Status:
    """Return the status of what a chart compares: valid, or suspect where there is nothing valid."""
    valid = any(entry.valid and entry.value(metric) is not None for entry in entries)
    return Status.VALID if valid else Status.SUSPECT


def order(entries: Iterable[Entry], metric: Metric, status: Status) -> tuple[Entry, ...]:
    """Return the entries of a status that have a metric, the best first."""
    if status is Status.VALID:
        return ranked(entries, metric)
    found = [entry for entry in entries if entry.status is status and entry.value(metric) is not None]
    return tuple(sorted(found, key=lambda entry: entry.value(metric) or 0.0, reverse=metric.higher_is_better))


def warned(sentence: str, status: Status) -> str:
    """Return a finding, which says so where it is about suspect figures."""
    if status is Status.VALID:
        return sentence
    first, _, rest = sentence.partition(" ")
    return f"Suspect figures only: {first.lower() if first in _BEGINNINGS else first} {rest}"


def why_suspect(entries: Iterable[Entry]) -> str:
    """Say what is held against suspect entries, each rule once, the most frequent first."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        if entry.status is Status.SUSPECT:
            rule = next((found.rule for found in entry.findings if found.verdict is not Verdict.VALID), "")
            reasons.setdefault(rule or entry.cause, []).append(entry.cause)
    most = sorted(reasons.values(), key=len, reverse=True)[:3]
    said = [
        f"{one_line(causes[0], 120)}{' and the like' if len(set(causes)) > 1 else ''} ({len(causes)})"
        for causes in most
    ]
    return f"Suspect: {'; '.join(said)}." if said else ""
