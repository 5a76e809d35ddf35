"""A report on several runs as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.model import TrialState
from fleetbench.report.entry import Entry
from fleetbench.report.entry_markdown import table_parts
from fleetbench.report.imported import Found, source_parts
from fleetbench.report.markdown import failure_lines
from fleetbench.report.markdown_text import escaped, table
from fleetbench.report.recommendation import Recommendation, leading
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.report.tables.single_gpu import single_gpu_tables
from fleetbench.report.together.joined import Joined
from fleetbench.report.together.results import result_table, run_table
from fleetbench.report.together.said import said_of_model, said_of_runs

_SENTENCE = 1000  # letters
_UNTRIED = (TrialState.NOT_RUN, TrialState.IMPLIED)


def text_of_several(
    found: Joined,
    charts: Sequence[tuple[str, str]] = (),
    imported: Found = (),
    recommendations: Sequence[Recommendation] = (),
) -> str:
    """Return the whole text; charts are paths relative to it, with their findings.

    What was imported stands in sections of its own, and is not ranked with the runs.
    """
    return "\n\n".join(filter(None, _parts(found, charts, imported, recommendations))) + "\n"


def tables_of_model(entries: Sequence[Entry]) -> Iterator[EntryTable]:
    """Yield the tables of one model, but for the one that has all models in it."""
    yield from (each for each in tables_of(entries) if each.kind != "single-gpu")


def heading(found: Joined) -> str:
    """Return `3 runs: org/a, org/b`."""
    runs = "1 run" if len(found.reports) == 1 else f"{len(found.reports)} runs"
    return f"{runs}: {', '.join(found.models) or 'nothing was planned'}"


def _parts(
    found: Joined,
    charts: Sequence[tuple[str, str]],
    imported: Found,
    recommendations: Sequence[Recommendation],
) -> Iterator[str]:
    yield f"# {escaped(heading(found))}"
    yield "\n\n".join(f"**{escaped(sentence, _SENTENCE)}**" for sentence in leading(recommendations))
    runs = run_table(found)
    yield table(runs.columns, runs.rows)
    yield "\n".join(f"- {escaped(said, _SENTENCE)}" for said in said_of_runs(found))
    single = single_gpu_tables(found.entries)
    for each in single:
        yield from table_parts(each, f"## {escaped(each.title)}")
    for model, entries in found.models.items():
        yield f"## {escaped(model or 'model unknown')}"
        yield "\n".join(f"- {escaped(said, _SENTENCE)}" for said in said_of_model(entries))
        results = result_table(entries)
        yield table(results.columns, results.rows)
        for each in tables_of_model(entries):
            yield from table_parts(each, f"### {escaped(each.title)}")
    yield (
        "A number alone is the median of the valid repeats, one with ? is of a suspect row and never ranked; "
        "a p99 in brackets rests on few requests. Each measurement is in `measurements.csv`, and notes on "
        "single repeats are in the report of each run."
    )
    yield from _failures(found)
    if charts:
        yield "## Charts"
    yield from (f"![{escaped(sentence)}]({path})" for path, sentence in charts)
    if imported:
        yield "## What others measured"
        yield (
            "Beside the runs, not ranked with them: `valid` means that nothing contradicts a row. "
            "Charts of a source are in its own report: `fleetbench report imported/SOURCE`."
        )
    for source, rows in imported:
        yield from source_parts(source, rows)


def _failures(found: Joined) -> Iterator[str]:
    names = {(entry.run, entry.trial): entry.name for entry in found.entries}
    there = [(report, trial) for report in found.reports for trial in report.trials if trial.failure]
    for title, untried in (("What did not work", False), ("What was not tried", True)):
        trials = [each for each in there if (each[1].state in _UNTRIED) is untried]
        if trials:
            yield f"## {title}"
        for report, trial in trials:
            name = names.get((report.run.id, trial.number), f"trial {trial.number}")
            yield from failure_lines(f"{name}, run {report.run.id}", trial)
