"""Who wins at which load, and what would change the choice. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fleetbench.choice.objective import Objective
from fleetbench.choice.picks import Choice, choose, picks, taken
from fleetbench.choice.questions import Question, Same, configuration
from fleetbench.choice.slo import Bound, Slo
from fleetbench.choice.words import amount
from fleetbench.report.recommendation import Pick


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rung:
    """Who wins at one load, or why nobody does."""

    load: str
    winner: Pick | None = None
    sure: bool = False
    why: str = ""

    @property
    def same(self) -> Same | str:
        return configuration(self.winner.entry) if self.winner is not None else self.why


def sensitivity(
    question: Question,
    ordered: Sequence[Pick],
    found: Choice,
    slo: Slo,
    objective: Objective,
    others: Iterable[Objective] = (),
) -> Iterator[str]:
    """Yield a sentence for everything measured that would make the choice another one.

    `ordered`: all picks, the best first, whether they meet the SLO or not. `others`: further objectives.
    """
    yield from by_load(question, ordered, slo, objective)
    for bound in slo.bounds:
        yield from _tighter(ordered, found, slo, bound, objective)
        yield from _looser(ordered, found, slo, bound, objective)
    for other in others:
        if other.name != objective.name:
            yield from _other_objective(question, found, slo, other)


def by_load(question: Question, ordered: Sequence[Pick], slo: Slo, objective: Objective) -> Iterator[str]:
    """Say who wins at each load, in one sentence; nothing where all was of one load."""
    if len(question.loads) < 2:
        return
    rungs = [_rung(question, load, ordered, slo, objective) for load in question.loads]
    runs = [list(group) for _, group in groupby(rungs, key=lambda rung: rung.same)]
    parts = []
    for place, group in enumerate(runs):
        where = _range(group, first=place == 0, last=place == len(runs) - 1)
        parts.append(f"{where} {_wins(group)}")
    text = "; ".join(parts)
    yield f"{text[0].upper()}{text[1:]}."


def _rung(question: Question, load: str, ordered: Sequence[Pick], slo: Slo, objective: Objective) -> _Rung:
    name = question.loads[load]
    here = [pick for pick in ordered if pick.entry.load == load]
    won = choose([pick for pick in here if slo.met_by(pick.entry)], objective)
    if won is not None:
        return _Rung(load=name, winner=won.best, sure=won.sure)
    if not any(entry.valid and entry.load == load for entry in question.entries):
        why = "nothing valid was measured"
    elif not here:
        why = f"nothing valid has a value of {objective.name}"
    else:
        known = all(slo.missed(pick.entry) for pick in here)
        why = f"nothing {'meets' if known else 'is known to meet'} the SLO"
    return _Rung(load=name, why=why)


def _wins(group: Sequence[_Rung]) -> str:
    winner = group[0].winner
    if winner is None:
        return group[0].why
    sure = all(rung.sure for rung in group)
    return f"{winner.name} {'wins' if sure else 'leads, within the noise or measured once'}"


def _range(group: Sequence[_Rung], *, first: bool, last: bool) -> str:
    loads = [rung.load for rung in group]
    if first and last:
        return f"at every load from {loads[0]} to {loads[-1]}" if len(loads) > 1 else f"at {loads[0]}"
    if all(load.startswith("c=") for load in loads):
        low, high = loads[0].removeprefix("c="), loads[-1].removeprefix("c=")
        # For a winner fewer requests than measured are the same story; more may be another one.
        if first and group[0].winner is not None:
            return f"at concurrency ≤{high}"
        return f"at concurrency {low}" if low == high else f"at concurrency {low} to {high}"
    return f"at {loads[0]}" if len(loads) == 1 else f"at {loads[0]} to {loads[-1]}"


def _tighter(
    ordered: Sequence[Pick], found: Choice, slo: Slo, bound: Bound, objective: Objective
) -> Iterator[str]:
    """Say what is taken when a bound is put so low that the present choice misses it."""
    tight = bound.below(_readable(found.best.entry.values[bound.key], up=False), inclusive=False)
    other = _with(ordered, slo, bound, tight, objective)
    if other is None:
        yield f"With {tight}, nothing meets the SLO."
    else:
        yield f"With {tight}: {other.where} ({amount(other, objective)})."


def _looser(
    ordered: Sequence[Pick], found: Choice, slo: Slo, bound: Bound, objective: Objective
) -> Iterator[str]:
    """Say from which higher limit on something else would be taken, for this bound alone."""
    rest = Slo(tuple(each for each in slo.bounds if each is not bound))
    near = sorted(
        pick.entry.values[bound.key]
        for pick in ordered
        if bound.key in pick.entry.values
        and not bound.met_by(pick.entry.values[bound.key])
        and rest.met_by(pick.entry)
    )
    for value in near:
        loose = bound.below(_readable(value, up=True), inclusive=True)
        other = _with(ordered, slo, bound, loose, objective)
        if other is not None and other is not found.best:
            yield f"With {loose}: {other.where} ({amount(other, objective)})."
            return


def _readable(value: float, *, up: bool) -> float:
    """Return a limit of three digits beside a value, not on its other side."""
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    steps = value / unit
    near = round((math.ceil(steps - 1e-9) if up else math.floor(steps + 1e-9)) * unit, 12)
    return value if (near < value if up else near > value) else near


def _with(ordered: Sequence[Pick], slo: Slo, bound: Bound, other: Bound, objective: Objective) -> Pick | None:
    changed = Slo(tuple(other if each is bound else each for each in slo.bounds))
    return taken([pick for pick in ordered if changed.met_by(pick.entry)], objective)


def _other_objective(question: Question, found: Choice, slo: Slo, other: Objective) -> Iterator[str]:
    """Say where another objective takes another configuration."""
    won = choose([pick for pick in picks(question, other) if slo.met_by(pick.entry)], other)
    present = configuration(found.best.entry)
    if won is not None and present not in {configuration(pick.entry) for pick in won.tied}:
        yield f"By {other.name}: {won.best.where} ({amount(won.best, other)})."
