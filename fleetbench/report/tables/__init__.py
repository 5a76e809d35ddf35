"""Tables made of entries, for own runs and imported figures alike; each module decides whether it has one.

`tables_of` has all that given entries come to, in the order of a report.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.report.entry import Entry
from fleetbench.report.tables.concurrency import concurrency_tables
from fleetbench.report.tables.context import context_tables, length_tables
from fleetbench.report.tables.matrix import matrix_tables
from fleetbench.report.tables.scaling import scaling_tables
from fleetbench.report.tables.shown import EntryTable
from fleetbench.report.tables.single_gpu import single_gpu_tables
from fleetbench.report.tables.strategies import strategy_tables

__all__ = ["EntryTable", "tables_of"]


def tables_of(entries: Sequence[Entry]) -> tuple[EntryTable, ...]:
    """Return every table that the entries have what it takes for."""
    return (
        *single_gpu_tables(entries),
        *matrix_tables(entries),
        *strategy_tables(entries),
        *context_tables(entries),
        *concurrency_tables(entries),
        *length_tables(entries),
        *scaling_tables(entries),
    )
