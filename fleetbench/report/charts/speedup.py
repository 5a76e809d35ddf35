"""Entries as multiples of the smallest configuration of their kind: what the chart of scaling draws. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fleetbench.errors import one_line
from fleetbench.report.charts import marks
from fleetbench.report.entry import Entry, Status
from fleetbench.report.gpu_names import short_gpus
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.tables.shown import is_a_rate, section

KINDS = {"tp": "tensor (tp)", "dp": "data (dp)", "pp": "pipeline (pp)", "units": "servers (units)"}
MIXED = "several ways at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An entry as a multiple of its base, with the interval of that ratio where there is one."""

    entry: Entry
    line: str
    gpus: int
    speedup: float
    low: float
    high: float
    ideal: float

    @property
    def efficiency(self) -> float:
        """Share of the ideal."""
        return self.speedup / self.ideal


def stands_here(entry: Entry) -> bool:
    """Whether an entry's throughput may be a multiple of another's; of imported rows those of the tables."""
    return bool(entry.value(OUTPUT)) and (is_a_rate(entry) if entry.imported else entry.status in marks.DRAWN)


def counts(entry: Entry, status: Status) -> bool:
    """Whether an entry may be the base, or what the chart's title is about."""
    return entry.imported or entry.status is status


def points_of(group: Sequence[Entry]) -> Iterator[Point]:
    """Yield the entries of each kind of GPU against the base of the tables (tables/scaling.py).

    That is the fastest of those on the fewest GPUs: the valid ones where there are any, of imported rows
    those of their own table.
    """
    gpus = short_gpus(entry.gpu for entry in group)
    several = len({(entry.gpu, entry.series) for entry in group if entry.gpu}) > 1
    tables = len({entry.table for entry in group if stands_here(entry)}) > 1
    status = marks.counted(group, OUTPUT)
    for gpu, series, table in dict.fromkeys((entry.gpu, entry.series, entry.table) for entry in group):
        here = [entry for entry in group if (entry.gpu, entry.series, entry.table) == (gpu, series, table)]
        here = [entry for entry in here if stands_here(entry)]
        parts = (one_line(gpus[gpu], 40), series) if several else ()
        where = ", ".join(filter(None, (*parts, one_line(section(here[0]), 40) if tables and here else "")))
        sure = [entry for entry in here if counts(entry, status)]
        if not sure:
            continue
        base = min(sure, key=lambda entry: (entry.gpus or 0, -(entry.value(OUTPUT) or 0)))
        for entry in here:
            ways = [way for way in KINDS if getattr(entry.config, way) != getattr(base.config, way)]
            if entry.gpus == base.gpus and entry is not base:
                continue
            for way in ways or KINDS:
                only = len(ways) == 1 or entry is base
                if entry is base and not _has(here, base, way):
                    continue
                name = KINDS[way] if only else MIXED
                yield _point(entry, base, f"{where}, {name}" if where else name)
                if not only:
                    break


def _has(group: Sequence[Entry], base: Entry, way: str) -> bool:
    """Whether an entry differs from the base in that way alone."""
    return any(
        replace(entry.config, **{way: getattr(base.config, way)}) == base.config
        and entry.config != base.config
        and entry.gpus != base.gpus
        for entry in group
    )


def _point(entry: Entry, base: Entry, line: str) -> Point:
    value, of = entry.value(OUTPUT) or 0.0, base.value(OUTPUT) or 1.0
    found = entry.against(base, OUTPUT) if entry is not base else None
    gpus = entry.gpus or 1
    return Point(
        entry=entry,
        line=line,
        gpus=gpus,
        speedup=value / of,
        low=found.low if found and found.low is not None else value / of,
        high=found.high if found and found.high is not None else value / of,
        ideal=gpus / (base.gpus or 1),
    )
