"""From entries to picks, and from picks to the best: noise and ties are settled here, once. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetbench.choice.objective import Objective
from fleetbench.choice.questions import Question, configuration, gpus_of, lightness
from fleetbench.report.recommendation import Pick
from fleetbench.results.comparison import Comparison

# Values so near each other that noise hides the difference are a tie. Farther apart, the higher one stays the
# best bet, however large the noise is.
TIE_PERCENT = 5.0
_FAR = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The best of some picks.

    Attributes:
        top: what measured best; another pick than `best` where a tie was settled.
        tied: the top and what is as good, of any configuration.
        level: other configurations that the top is not distinguishable from, the nearest first.
        sure: whether every other configuration is known to be worse; not so where it was measured once.
        runner_up: the best pick of another configuration than that of `best`.
    """

    best: Pick
    top: Pick
    tied: tuple[Pick, ...]
    level: tuple[Pick, ...] = ()
    sure: bool = True
    runner_up: Pick | None = None


def picks(question: Question, objective: Objective) -> tuple[Pick, ...]:
    """Return the valid entries that have a value of the objective, the best first."""
    found = [
        Pick(entry=entry, load=question.loads[entry.load], value=value)
        for entry in question.entries
        if entry.valid and (value := entry.value(objective.metric)) is not None
    ]
    return tuple(sorted(found, key=lambda pick: pick.value, reverse=objective.metric.higher_is_better))


def choose(ordered: Sequence[Pick], objective: Objective) -> Choice | None:
    """Given picks, the best first, return what to take; None where there is none.

    Among those that tie with the top, the one with the fewest GPUs is taken, then the simplest: see
    `simplicity`.
    """
    if not ordered:
        return None
    top = ordered[0]
    tied = _tied(ordered, objective)
    best = min(tied, key=simplicity)
    compared = [(pick, against(top, pick, objective)) for pick in ordered[1:]]
    others = [pick for pick in ordered if configuration(pick.entry) != configuration(best.entry)]
    rivals = [pair for pair in compared if configuration(pair[0].entry) != configuration(top.entry)]
    return Choice(
        best=best,
        top=top,
        tied=tied,
        level=_once(pick for pick, found in rivals if found and found.low is not None and not found.differs),
        sure=all(found is not None and found.differs for _, found in rivals),
        runner_up=others[0] if others else None,
    )


def taken(ordered: Sequence[Pick], objective: Objective) -> Pick | None:
    """Return the best alone, with as few comparisons as that needs."""
    return min(_tied(ordered, objective), key=simplicity, default=None)


def simplicity(pick: Pick) -> tuple[float, ...]:
    """Return what settles a tie, the smaller the better.

    Fewer GPUs, any number before an unknown one; one server instead of several behind a balancer; fewer
    pipeline stages; no expert parallelism; fewer data-parallel replicas; fewer arguments; the lighter load,
    whose users wait less.
    """
    config = pick.entry.config
    split = config.units, config.pp, config.ep, config.dp, len(config.serve_args), config.tp
    gpus = gpus_of(pick.entry)
    return (math.inf if gpus is None else gpus, *split, *reversed(lightness(pick.entry.workload)))


def against(one: Pick, other: Pick, objective: Objective) -> Comparison | None:
    """Compare the values of two picks; None where they cannot be compared."""
    return one.entry.against(other.entry, objective.metric)


def _tied(ordered: Sequence[Pick], objective: Objective) -> tuple[Pick, ...]:
    """Return the first of some picks and all that tie with it."""
    if not ordered:
        return ()
    top = ordered[0]
    # A headline that is so far off has repeats that are: nothing beyond that needs a comparison.
    near = [pick for pick in ordered[1:] if abs(pick.value - top.value) <= _FAR * abs(top.value)]
    return (top, *(pick for pick in near if _ties(top, pick, against(top, pick, objective))))


def _ties(top: Pick, other: Pick, found: Comparison | None) -> bool:
    if found is None:
        return top.value == other.value
    if found.low is None or found.differs:
        return False
    return abs(found.ratio - 1) * 100 <= TIE_PERCENT


def _once(ordered: Iterable[Pick]) -> tuple[Pick, ...]:
    """Return the first pick of each configuration."""
    found: dict[object, Pick] = {}
    for pick in ordered:
        found.setdefault(configuration(pick.entry), pick)
    return tuple(found.values())
