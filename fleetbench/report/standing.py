"""How each row stands among those of its workload, by output throughput: columns for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.report.groups import Group, ranked_groups
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.summary import Report

# Over all starts of the row's configuration. Ratios are those of this configuration to the best one.
STANDING = (
    "starts",
    "noise_within_percent",
    "noise_between_percent",
    "ratio_to_best",
    "ratio_to_best_low",
    "ratio_to_best_high",
    "compared_with_best",
)
Standing = tuple[int | float | str | None, ...]
NO_STANDING: Standing = (None,) * len(STANDING)


def standings(report: Report) -> dict[tuple[int, int], Standing]:
    """Return the cells of `STANDING` by trial number and workload index; for valid rows only."""
    found = {}
    for workload in report.workloads:
        order = ranked_groups(report, report.of_workload(workload), OUTPUT)
        for group in order:
            cells = tuple(_cells(group, order[0]))
            found.update({(row.trial.number, row.workload_index): cells for row in group.rows})
    return found


def _cells(group: Group, best: Group) -> Iterator[int | float | str | None]:
    found = group.spread(OUTPUT)
    yield group.starts
    yield from (found.within_percent, found.between_percent) if found else (None, None)
    if group is best:
        yield from (None, None, None, "the best")
        return
    comparison = group.against(best, OUTPUT)
    yield from (comparison.ratio, comparison.low, comparison.high)
    yield comparison.sentence(higher_is_better=OUTPUT.higher_is_better)
