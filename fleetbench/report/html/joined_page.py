"""A report on several runs as a page: every entry with its evidence. Pure but for what `Kept` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fleetbench import __version__
from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.finding import clear
from fleetbench.report.html.evidence import of_entry, of_trial, rows_of
from fleetbench.report.html.grids import grid, grid_of_entries
from fleetbench.report.html.kept import Kept
from fleetbench.report.html.run_page import advised, in_order, notes
from fleetbench.report.html.table import results
from fleetbench.report.html.values import Answer, Evidence, Grid, Page, Pair, TrialEvidence
from fleetbench.report.metrics import METRICS, OUTPUT, Metric
from fleetbench.report.outcome import nothing_valid
from fleetbench.report.recommendation import Recommendation
from fleetbench.report.tables.single_gpu import single_gpu_tables
from fleetbench.report.together.joined import Joined
from fleetbench.report.together.results import run_table
from fleetbench.report.together.said import rankings, said_of_model, said_of_runs
from fleetbench.report.together.text import heading, tables_of_model

Place = tuple[str, int]  # run and trial


def page_of_several(
    found: Joined,
    kept: Mapping[str, Kept],
    *,
    grids: Sequence[Grid] = (),
    recommendations: Sequence[Recommendation] = (),
) -> Page:
    """Return the page of several runs; `kept`: the directory of each run by its id; `grids`: further tables.

    It leads with the recommendations, else with what is said of each model. Trials are numbered anew, since
    each run begins at 1.
    """
    entries = in_order(found.entries)
    reports = {report.run.id: report for report in found.reports}
    numbers = _numbers(found)
    best = {id(entry) for entry in _best(found)}

    def evidence(entry: Entry) -> Evidence:
        return of_entry(reports[entry.run], entry, kept[entry.run])

    def trials(entry: Entry) -> tuple[int, ...]:
        rows = rows_of(reports[entry.run], entry)
        return tuple(numbers[(entry.run, row.trial.number)] for row in rows)

    ids = {_measured(entry): f"row-{place}" for place, entry in enumerate(entries, start=1)}
    advice = advised(recommendations, lambda entry: ids.get(_measured(entry), ""))

    def few(entry: Entry, metric: Metric) -> bool:
        return entry.rests_on_few(metric)

    return Page(
        title=one_line(heading(found), 120),
        kind="report on several runs",
        subtitle=" · ".join(one_line(report.run.id) for report in found.reports[:8]),
        about=tuple(_about(found)),
        answers=advice or tuple(_answers(found)),
        advised=bool(advice),
        findings=(*said_of_runs(found), *(_said(found) if advice else ())),
        results=results(
            entries,
            [f"row-{place}" for place in range(1, len(entries) + 1)],
            evidence,
            trials=trials,
            best=lambda entry: id(entry) in best,
            few=few,
            notes=tuple(
                notes(entries, any_few=any(few(entry, metric) for entry in entries for metric in METRICS))
            ),
        ),
        grids=(*_grids(found), *grids),
        trials=tuple(_trials(found, kept, numbers)),
        version=__version__,
    )


def _measured(entry: Entry) -> tuple[str, int | None, int | None]:
    """Return what an entry is of: a recommendation may have it with a price, as another object."""
    return entry.run, entry.trial, entry.workload_index


def _numbers(found: Joined) -> dict[Place, int]:
    places = [(report.run.id, trial.number) for report in found.reports for trial in report.trials]
    return {place: number for number, place in enumerate(places, start=1)}


def _best(found: Joined) -> Iterator[Entry]:
    for entries in found.models.values():
        for ranking in rankings(entries, OUTPUT):
            if clear(ranking.order, OUTPUT):
                yield from (entry for entry in entries if entry is ranking.order[0])


def _answers(found: Joined) -> Iterator[Answer]:
    """Yield what is said of each model, the first sentence at the top."""
    for model, entries in found.models.items():
        said = tuple(said_of_model(entries))
        yield Answer(
            question=one_line(model, 120) if len(found.models) > 1 else "",
            headline=said[0] if said else nothing_valid(entries),
            reasons=said[1:],
        )
    if not found.models:
        yield Answer(headline=nothing_valid(()))


def _said(found: Joined) -> Iterator[str]:
    """Yield what is said of each model where the page leads with something else."""
    for answer in _answers(found):
        question = f"{answer.question}: " if answer.question else ""
        yield from (f"{question}{text}" for text in (answer.headline, *answer.reasons))


def _about(found: Joined) -> Iterator[Pair]:
    for report in found.reports:
        run = report.run
        what = f"{run.kind.value} of {one_line(run.repo or run.model, 80)}"
        when = f"{run.created_at} to {run.ended_at or 'now'}"
        where = one_line(", ".join(run.hosts), 200)
        yield Pair(f"run {run.id}", f"{what} on {where}, {run.state.value}, {when}")


def _grids(found: Joined) -> Iterator[Grid]:
    yield grid("Runs", run_table(found))
    for each in single_gpu_tables(found.entries):
        yield grid_of_entries(each, each.title)
    for model, entries in found.models.items():
        for each in tables_of_model(entries):
            title = f"{one_line(model, 80)}: {each.title}" if len(found.models) > 1 else each.title
            yield grid_of_entries(each, title)


def _trials(found: Joined, kept: Mapping[str, Kept], numbers: Mapping[Place, int]) -> Iterator[TrialEvidence]:
    for report in found.reports:
        for trial in report.trials:
            made = of_trial(report, trial, kept[report.run.id])
            number = numbers[(report.run.id, trial.number)]
            yield replace(made, number=number, title=f"{number}. Run {report.run.id}, {made.title}")
