"""What entries say, in sentences: of one table, and of a run or a source as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.report.entry import Entry
from fleetbench.report.observations.cautions import said_of_cautions, said_of_single_figures
from fleetbench.report.observations.crossover import said_of_crossovers
from fleetbench.report.observations.held_back import said_of_bounds
from fleetbench.report.observations.ranking import not_ranked, said_of_ranks
from fleetbench.report.observations.said import Said
from fleetbench.report.observations.scaling import (
    said_of_concurrency,
    said_of_scaling,
    said_of_strategies,
)
from fleetbench.report.outcome import main_reason
from fleetbench.report.tables import EntryTable, tables_of
from fleetbench.results.rows import RunState

__all__ = ["Said", "every_observation", "observations", "table_observations"]

_OF_KIND = {
    "context": said_of_ranks,
    "strategies": said_of_strategies,
    "concurrency": said_of_concurrency,
    "scaling": said_of_scaling,
}


def table_observations(table: EntryTable) -> tuple[Said, ...]:
    """Return the sentences that belong under a table."""
    of_kind = _OF_KIND.get(table.kind)
    return tuple(of_kind(table.entries)) if of_kind else ()


def every_observation(entries: Sequence[Entry]) -> tuple[Said, ...]:
    """Return the sentences of all tables, then those about all entries together."""
    of_tables = [said for table in tables_of(entries) for said in table_observations(table)]
    return (*of_tables, *observations(entries))


def observations(entries: Sequence[Entry], state: RunState = RunState.DONE) -> tuple[Said, ...]:
    """Return what is said of all entries together, beside what stands under their tables.

    `state` is that of the run that they are from.
    """
    own = [entry for entry in entries if not entry.imported]
    reason = main_reason(own) if own and not any(entry.valid for entry in own) else None
    return (
        *(not_ranked(entries, state) if own else ()),
        *said_of_crossovers(entries),
        *said_of_bounds(entries),
        *said_of_single_figures(entries),
        *said_of_cautions(entries, without=reason.rule if reason and reason.count > 1 else ""),
    )
