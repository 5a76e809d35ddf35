"""Throughput and latency against concurrency: a line for each configuration, and the line of the SLO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from fleetbench.errors import one_line
from fleetbench.report.charts import marks
from fleetbench.report.charts.frame import Chart, Section, Sheet, alternative
from fleetbench.report.charts.lines import SHARED, Lines, drawn, spoken
from fleetbench.report.charts.populations import Population, line_name
from fleetbench.report.entry import Entry, of_load, ranked
from fleetbench.report.finding import clear
from fleetbench.report.metrics import MEAN_LATENCY, METRICS, OUTPUT, PER_REQUEST, Metric

_BY_KEY = {metric.key: metric for metric in METRICS}
_PANELS = (OUTPUT, _BY_KEY["p99_ttft_ms"], _BY_KEY["p99_tpot_ms"])
_OTHERWISE = (PER_REQUEST, MEAN_LATENCY)  # of imported figures without percentiles

MOST_PARTS = 4  # of a sentence


def concurrency_charts(population: Population, limits: Mapping[str, float]) -> Iterator[Chart]:
    """Yield a chart for each kind of requests that was sent at two concurrencies or more."""
    for number, group in enumerate(population.by_traffic(), start=1):
        points: dict[str, list[tuple[float, Entry]]] = {}
        for entry in group:
            if entry.workload.max_concurrency:
                name = line_name(entry, population)
                points.setdefault(name, []).append((float(entry.workload.max_concurrency), entry))
        lines = Lines.of(points, "requests at a time (concurrency), logarithmic", limits)
        if not lines.worth_drawing:
            continue
        panels = panels_of(lines.entries, limits)
        finding = marks.warned(_finding(lines, limits), lines.status)
        sheet = Sheet()
        yield Chart(
            key=population.key("concurrency", number),
            finding=finding,
            alt=alternative(
                "Curves over concurrency",
                finding,
                spoken(lines, panels),
                (f"{OUTPUT.title} in {OUTPUT.unit}",),
            ),
            section=Section.LOAD,
            specification=sheet.framed(
                drawn(sheet, lines, panels),
                finding,
                (
                    f"Requests: {_sent(group[0])}. {lines.reading} {marks.left_out(group)}",
                    lines.note,
                    population.about,
                ),
                spacing=14,
                resolve=SHARED,
            ),
        )


def panels_of(entries: Sequence[Entry], limits: Mapping[str, float]) -> list[Metric]:
    """Return the metrics that have a panel: those that are known, and those that an SLO is about."""
    limited = [_BY_KEY[key] for key in limits if key in _BY_KEY and _BY_KEY[key] not in _PANELS]

    def known(metrics: Sequence[Metric]) -> list[Metric]:
        return [metric for metric in metrics if any(entry.value(metric) is not None for entry in entries)]

    found = known((*_PANELS, *limited))
    return found if len(found) > 1 else known((OUTPUT, *_OTHERWISE))


def within(entry: Entry, limits: Mapping[str, float]) -> bool:
    """Whether an entry keeps every limit, and says so."""
    return all(entry.values.get(key, float("inf")) <= limit for key, limit in limits.items())


def _sent(entry: Entry) -> str:
    load = entry.workload
    lengths = f" {load.input_len}/{load.output_len}" if load.input_len or load.output_len else ""
    return one_line(f"{load.dataset}{lengths}", 60)


def _finding(lines: Lines, limits: Mapping[str, float]) -> str:
    if limits:
        return _within_limits(lines, limits)
    leaders = [
        (place, found.pop() if len(found) == 1 else "")
        for place in lines.places
        if (found := _leaders(lines, place))
    ]
    runs = [
        (name, [place for place, _ in group]) for name, group in groupby(leaders, key=lambda each: each[1])
    ]
    best = marks.order(lines.entries, OUTPUT, lines.status)
    if not best:
        return f"No valid measurement of {OUTPUT.title}"
    most = f"{OUTPUT.shown(best[0].value(OUTPUT))} {OUTPUT.unit} at c={best[0].workload.max_concurrency}"
    if len(lines.points) == 1:
        return f"{next(iter(lines.points))}: {OUTPUT.title} at most {most}"
    parts = [f"{name or 'none clearly'} {_span(places)}" for name, places in runs]
    if len(parts) == 1:
        leads = f"{runs[0][0]} has the highest" if runs[0][0] else "None has clearly the highest"
        return f"{leads} {OUTPUT.title} at {'every' if runs[0][0] else 'any'} concurrency; at most {most}"
    if len(parts) > MOST_PARTS:
        parts = [f"the first changes {len(runs) - 1} times with concurrency"]
    return f"Highest {OUTPUT.title}: {', '.join(parts)}; at most {most}"


def _leaders(lines: Lines, place: float) -> set[str]:
    """Return the line that leads at a place, for each load that was sent there; empty: none clearly.

    Rates of different numbers of requests are not compared; a load that only one line had decides nothing
    where another was sent to several.
    """
    here = {id(entry): name for name, found in lines.points.items() for at, entry in found if at == place}
    entries = [entry for entry in lines.entries if id(entry) in here]
    orders = [marks.order(group, OUTPUT, lines.status) for group in of_load(entries).values()]
    telling = [order for order in orders if len(order) > 1]
    if not telling:
        return {here[id(entry)] for order in orders for entry in order}
    return {here[id(order[0])] if clear(order, OUTPUT) else "" for order in telling}


def _span(places: Sequence[float]) -> str:
    ends = dict.fromkeys((f"{places[0]:.0f}", f"{places[-1]:.0f}"))
    return f"at c={'–'.join(ends)}"


def _within_limits(lines: Lines, limits: Mapping[str, float]) -> str:
    said = ", ".join(
        f"{metric.title} ≤ {limit:,g} {metric.unit}" if metric else f"{one_line(key, 40)} ≤ {limit:,g}"
        for key, limit in limits.items()
        for metric in (_BY_KEY.get(key),)
    )
    kept = {
        name: [entry for _, entry in found if within(entry, limits)] for name, found in lines.points.items()
    }
    best = ranked(entry for found in kept.values() for entry in found)
    if not best:
        return f"No valid row keeps {said}"
    name = next(name for name, found in kept.items() if any(entry is best[0] for entry in found))
    return (
        f"Most measured within {said}: {name} at c={best[0].workload.max_concurrency}, "
        f"{OUTPUT.shown(best[0].value(OUTPUT))} {OUTPUT.unit}"
    )
