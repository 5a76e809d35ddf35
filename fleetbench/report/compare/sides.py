"""What was typed, as sides: which one is the baseline, what `previous` is, what `--by` splits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fleetbench.errors import UsageError, one_line
from fleetbench.model import TrialState
from fleetbench.report.compare.reading import Side, read_side, split
from fleetbench.report.compare.selectors import PREVIOUS, Selector
from fleetbench.results.rows import RunRow

if TYPE_CHECKING:
    from fleetbench.results.store import Store


def two_sides(store: Store, selectors: Sequence[Selector]) -> tuple[Side, Side]:
    """Given one or two selectors, return baseline and other side.

    The first is the baseline; `previous`, and what was imported, are it wherever they stand. One run alone is
    compared with the previous one.
    """
    given = list(selectors)
    if len(given) == 1 and given[0].source != PREVIOUS and not given[0].imported:
        given.insert(0, Selector(text=PREVIOUS, source=PREVIOUS))
    if len(given) != 2:
        raise UsageError(
            "two things are compared" if len(given) > 1 else "it takes something to compare with",
            next_step="fleetbench compare A B, or any number of runs with --by host, vllm, gpu …",
        )
    first, second = given
    if second.source == PREVIOUS or (second.imported and not first.imported):
        first, second = second, first
    if first.source == PREVIOUS:
        if second.source == PREVIOUS or second.imported:
            raise UsageError("`previous` is the run before another one", next_step="name that one, too")
        run = store.run(second.source)
        read_side(store, replace(second, source=run.id))  # a trial that is not there is said first
        first, second = replace(first, source=earlier_run(store, run).id), replace(second, source=run.id)
    return read_side(store, first), read_side(store, second)


def sides_by(store: Store, selectors: Sequence[Selector], key: str) -> tuple[Side, ...]:
    """Return a side for each value of a field, over all selectors; UsageError with fewer than two.

    In the order in which the values appear; versions in their own.
    """
    found: dict[str, list[Side]] = {}
    for selector in selectors:
        if selector.source == PREVIOUS:
            raise UsageError("`previous` cannot be split by anything", next_step="name the run by its id")
        for value, side in split(store, selector, key).items():
            found.setdefault(value, []).append(side)
    if len(found) < 2:
        there = f"there is only {key}={one_line(', '.join(found), 100)}" if found else "there is no row"
        raise UsageError(
            f"--by {key} has nothing to compare", cause=there, next_step="name more runs, or another field"
        )
    order = sorted(found, key=_version) if key == "vllm" else list(found)
    return tuple(_together(f"{key}={value}", key, found[value]) for value in order)


def earlier_run(store: Store, run: RunRow) -> RunRow:
    """Return the newest run before another one, of the same model and sweep, that measured something."""
    measured = {found.run_id for found in store.trial_counts() if found.state is TrialState.MEASURED}
    for other in store.runs():
        alike = (other.kind, other.model, other.sweep) == (run.kind, run.model, run.sweep)
        if alike and other.id in measured and (other.created_at, other.id) < (run.created_at, run.id):
            return other
    sweep = f" ({one_line(run.sweep, 60)})" if run.sweep else ""
    raise UsageError(
        f"there is no {run.kind.value}{sweep} of {one_line(run.model, 60)} before {run.id}",
        next_step="name another run: `fleetbench runs` lists them",
    )


def _together(label: str, key: str, sides: Sequence[Side]) -> Side:
    return Side(
        label=one_line(label, 60),
        about="; ".join(dict.fromkeys(f"{side.label}, {side.about}" for side in sides)),
        subjects=tuple(subject for side in sides for subject in side.subjects),
        told=frozenset((key,)).union(*(side.told for side in sides)),
        sources=tuple(dict.fromkeys(source for side in sides for source in side.sources)),
    )


def _version(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return what sorts versions: numbers as numbers, before words."""
    return tuple(
        (0, int(part)) if part.isdigit() else (1, part) for part in re.findall(r"\d{1,9}|[a-z]+", text)
    )
