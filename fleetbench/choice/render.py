"""A recommendation as a table, as Markdown and as a document for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleetbench.choice.goodput import ATTAINMENT
from fleetbench.choice.objective import COST, GOODPUT
from fleetbench.choice.questions import gpus_of
from fleetbench.choice.words import shown
from fleetbench.report.columns import Cell, Table
from fleetbench.report.entry import Entry
from fleetbench.report.markdown import code, escaped
from fleetbench.report.markdown import table as markdown_table
from fleetbench.report.metrics import METRICS, OUTPUT, PER_GPU, PER_JOULE, PER_USER, Metric, rounded
from fleetbench.report.recommendation import LeftOut, Pick, Recommendation
from fleetbench.report.tables.shown import device_word

MOST_ROWS = 30
MOST_LEFT_OUT = 20
_SENTENCE = 1000
_LATENCIES = tuple(metric for metric in METRICS if metric.key in ("p99_ttft_ms", "p99_tpot_ms"))


def candidates_table(found: Recommendation) -> Table:
    """Return what could have been chosen, the best first; a column without any value is left out."""
    rows = found.candidates
    metrics = [
        metric
        for metric in (OUTPUT, PER_GPU, PER_USER, *_LATENCIES, GOODPUT, PER_JOULE, _cost(found))
        if metric.key != found.objective.key and any(pick.entry.value(metric) is not None for pick in rows)
    ]
    loads = any(pick.load for pick in rows)
    share = any(ATTAINMENT in pick.entry.values for pick in rows)
    columns = (
        "configuration",
        *(("load",) if loads else ()),
        f"{device_word(rows[0].entry)}s" if rows else "GPUs",
        found.objective.heading,
        *(metric.heading for metric in metrics),
        *(("in SLO %",) if share else ()),
        "note",
    )
    front = {id(pick) for pick in found.pareto}
    cells = []
    for pick in rows[:MOST_ROWS]:
        entry = pick.entry
        within = entry.values.get(ATTAINMENT)
        cells.append(
            (
                pick.name,
                *((pick.load,) if loads else ()),
                gpus_of(entry),
                _figure(pick.value, found.objective),
                *(_figure(entry.value(metric), metric) for metric in metrics),
                *((None if within is None else round(within * 100, 1),) if share else ()),
                _note(pick, found, on_front=id(pick) in front),
            )
        )
    return Table(columns, tuple(cells))


def left_out_lines(found: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a line for each thing that could not be chosen; after `MOST_LEFT_OUT`, how many more."""
    for one in found[:MOST_LEFT_OUT]:
        where = f"{one.name} at {one.load}" if one.load else one.name
        state = "" if one.status == "valid" else one.status
        yield f"{where}: {', '.join(filter(None, (state, one.why)))}"
    if len(found) > MOST_LEFT_OUT:
        yield f"and {len(found) - MOST_LEFT_OUT} more"


def markdown(found: Recommendation, next_step: str = "") -> str:
    """Return a recommendation as a section of Markdown, from a heading of the second level on."""
    parts = [f"## {escaped(found.question)}", "\n".join(_leading(found.reasons))]
    if found.candidates:
        made = candidates_table(found)
        parts.append(markdown_table(made.columns, made.rows))
        if len(found.candidates) > MOST_ROWS:
            parts.append(f"{len(found.candidates) - MOST_ROWS} more are left out of this table.")
    if found.sensitivity:
        parts += ["### What would change the choice", "\n".join(map(_item, found.sensitivity))]
    if found.left_out:
        parts += ["### What could not be chosen", "\n".join(map(_item, left_out_lines(found.left_out)))]
    if next_step:
        parts.append(f"Next: {code(next_step)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def document(found: Recommendation, next_step: str = "") -> dict[str, object]:
    """Return a recommendation for programs."""
    return {
        "question": found.question,
        "objective": {"metric": found.objective.key, "unit": found.objective.unit},
        "best": _pick(found.best),
        "runner_up": _pick(found.runner_up),
        "ratio": found.comparison.ratio if found.comparison else None,
        "ratio_low": found.comparison.low if found.comparison else None,
        "ratio_high": found.comparison.high if found.comparison else None,
        "nearest": _pick(found.nearest),
        "reasons": list(found.reasons),
        "sensitivity": list(found.sensitivity),
        "candidates": [_pick(pick) for pick in found.candidates],
        "pareto": [_pick(pick) for pick in found.pareto],
        "left_out": [
            {"name": one.name, "load": one.load, "status": one.status, "why": one.why}
            for one in found.left_out
        ],
        "next": next_step or None,
    }


def next_step(found: Recommendation) -> str:
    """Return the command that deploys the choice; empty where there is nothing of this store to deploy."""
    best = found.best
    if best is None or best.trial is None or best.entry.imported:
        return ""
    hosts = best.entry.host.replace(", ", ",")
    return " ".join(
        ("invoke", "promote", best.entry.source, "--trial", str(best.trial), "--hosts", hosts or "HOSTS")
    )


def _pick(pick: Pick | None) -> dict[str, object] | None:
    if pick is None:
        return None
    entry = pick.entry
    return {
        "configuration": pick.name,
        "load": entry.load,
        "trial": entry.trial,
        "place": entry.place,
        "gpu": entry.gpu,
        "gpus": gpus_of(entry),
        "host": entry.host,
        "value": pick.value,
        "values": dict(_values(entry)),
    }


def _values(entry: Entry) -> Iterator[tuple[str, float]]:
    for key, value in entry.values.items():
        yield key, round(value, 6)


def _cost(found: Recommendation) -> Metric:
    return replace(COST, heading=f"{found.currency}/M tokens") if found.currency else COST


def _note(pick: Pick, found: Recommendation, *, on_front: bool) -> str:
    words = []
    if pick is found.best:
        words.append("the choice")
    elif pick is found.runner_up:
        words.append("runner-up")
    if on_front:
        words.append("Pareto")
    return ", ".join(words)


def _figure(value: float | None, metric: Metric) -> Cell:
    """Return a cell; prices as text, because tables round numbers to two digits after the point."""
    return shown(value) if value is not None and metric.key == COST.key else rounded(value)


def _leading(reasons: Sequence[str]) -> Iterator[str]:
    """The answer in bold, then what is to be said of it."""
    for place, reason in enumerate(reasons):
        if place == 1:
            yield ""
        yield f"**{escaped(reason, _SENTENCE)}**" if place == 0 else _item(reason)


def _item(text: str) -> str:
    return f"- {escaped(text, _SENTENCE)}"
