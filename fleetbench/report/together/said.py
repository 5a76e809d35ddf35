"""What is said of several runs: each model's best under each load, and what keeps runs apart. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry, ranked
from fleetbench.report.finding import Ranking, about, brief
from fleetbench.report.metrics import METRICS, OUTPUT, Metric
from fleetbench.report.observations import observations
from fleetbench.report.outcome import nothing_valid, unfinished
from fleetbench.report.together.joined import Joined, client_kind
from fleetbench.results.rows import RunState

_MOST_GROUPS = 8


def said_of_model(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the sentences about the entries of one model: each metric's best, then the observations."""
    for metric in METRICS:
        if metric.headline and any(entry.valid and entry.value(metric) is not None for entry in entries):
            yield about(rankings(entries, metric), metric)
    yield from _best_of_each(entries)
    yield from (said.text for said in observations(entries, RunState.DONE))


def _best_of_each(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the best of each kind of GPU and series, where there are several of more than one row."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.gpu, entry.series), []).append(entry)
    if len(groups) == 1 or all(len(group) == 1 for group in groups.values()):
        return
    for (gpu, series), group in list(groups.items())[:_MOST_GROUPS]:
        where = ", ".join(filter(None, (one_line(gpu, 60), one_line(series, 80)))) or "devices without a name"
        if any(entry.valid for entry in group):
            yield f"On {where}: {about(rankings(group, OUTPUT), OUTPUT)}"
        else:
            yield f"On {where}: {nothing_valid(group)}"


def rankings(entries: Sequence[Entry], metric: Metric) -> list[Ranking]:
    """Return the valid entries under each load, the best first; different loads are never compared."""
    loads: dict[str, list[Entry]] = {}
    for entry in entries:
        loads.setdefault(entry.load, []).append(entry)
    workloads = tuple(dict.fromkeys(entry.workload for entry in entries))
    short = {load: brief(found[0].workload, workloads) for load, found in loads.items()}
    alike = len(set(short.values())) < len(short)
    return [
        Ranking(name=load if alike else short[load], order=ranked(found, metric), among=len(found))
        for load, found in loads.items()
    ]


def said_of_runs(found: Joined) -> Iterator[str]:
    """Yield what has to be known before figures of different runs are read beside each other."""
    for report in found.reports:
        if note := unfinished(report.run):
            yield f"{report.run.id}: {note}"
    for model, entries in found.models.items():
        of = f" of {one_line(model, 80)}" if len(found.models) > 1 else ""
        loads: dict[str, set[str]] = {}
        for entry in entries:
            loads.setdefault(entry.load, set()).add(entry.run)
        runs = {entry.run for entry in entries}
        if len(runs) > 1 and all(len(there) == 1 for there in loads.values()):
            yield (
                f"The runs{of} were sent different requests, so no row of one is ranked with those of another"
            )
        kinds = {client_kind(entry) for entry in entries} - {""}
        if len(kinds) > 1:
            yield (
                f"The rows{of} were measured by different clients ({'; '.join(sorted(kinds))}), "
                "and are ranked among those of the same one"
            )
    if len(found.reports) > 1:
        yield (
            "Runs were measured at different times; what else differs between two of them is listed by "
            "fleetbench compare RUN RUN"
        )
