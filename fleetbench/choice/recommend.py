"""`recommend`: which configuration to deploy, what comes next, what would change that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fleetbench.choice.left_out import left_out
from fleetbench.choice.objective import COST, OBJECTIVES, TOKENS, Objective
from fleetbench.choice.pareto import pareto
from fleetbench.choice.picks import Choice, against, choose, picks
from fleetbench.choice.questions import Question, configuration, questions
from fleetbench.choice.sensitivity import sensitivity
from fleetbench.choice.slo import NO_SLO, Slo
from fleetbench.choice.tariff import cost_of, in_currency, with_cost
from fleetbench.choice.words import (
    about_cost,
    about_goodput,
    about_nearest,
    about_noise,
    about_slo,
    about_tie,
    headline,
    unknown,
)
from fleetbench.model import Tariffs
from fleetbench.report.entry import Entry, Status
from fleetbench.report.recommendation import Pick, Recommendation

__all__ = ["Pick", "Recommendation", "recommend", "recommendations"]


@dataclass(frozen=True, slots=True)
class _Wish:
    slo: Slo
    objective: Objective
    tariffs: Tariffs | None

    def missing(self, entry: Entry) -> str:
        """Return why a valid entry has no value of the objective."""
        if self.objective.of_gpus and not entry.on_gpus:
            return "no GPU is named"
        if self.objective.metric.key != COST.key:
            return self.objective.missing
        found = cost_of(entry, self.tariffs) if self.tariffs is not None else "no tariff was given"
        return found if isinstance(found, str) else "no output throughput was reported"

    @property
    def others(self) -> Iterator[Objective]:
        """Yield the objectives that may lead to another choice."""
        alike = {TOKENS.name, "requests/s"}  # equal but for the lengths of answers
        for other in OBJECTIVES.values():
            if other.name != self.objective.name and {other.name, self.objective.name} != alike:
                yield in_currency(other, self.tariffs)


def recommend(
    entries: Iterable[Entry],
    slo: Slo = NO_SLO,
    objective: Objective = TOKENS,
    tariffs: Tariffs | None = None,
) -> Recommendation:
    """Return which configuration to deploy: as `recommendations`, in one answer.

    Where the entries are about several questions (models, kinds of GPU, shapes of requests, context lengths),
    there is a best one only if it is the same configuration in all of them.
    """
    found = recommendations(entries, slo, objective, tariffs)
    if len(found) == 1:
        return found[0]
    if not found:
        return Recommendation(
            question="", objective=objective.metric, best=None, reasons=("Nothing was measured.",)
        )
    chosen = [each.best for each in found if each.best is not None]
    same = len({configuration(pick.entry) for pick in chosen}) == 1 and len(chosen) == len(found)
    each = tuple(f"{one.question}: {one.sentence}" for one in found)
    said = f"{chosen[0].name} is the choice" if same else "There is no single choice"
    return Recommendation(
        question="; ".join(one.question for one in found),
        objective=found[0].objective,
        slo=str(slo),
        best=chosen[0] if same else None,
        reasons=(f"{said} in {len(found)} different questions.", *each),
        left_out=tuple(out for one in found for out in one.left_out),
        candidates=tuple(pick for one in found for pick in one.candidates),
        currency=found[0].currency,
    )


def recommendations(
    entries: Iterable[Entry],
    slo: Slo = NO_SLO,
    objective: Objective = TOKENS,
    tariffs: Tariffs | None = None,
) -> tuple[Recommendation, ...]:
    """Return a recommendation for each question that the entries are about.

    Args:
        entries: for goodput, `goodput.with_goodput` has to have counted it.
        slo: what is taken has to be known to meet it.
        objective: what to have most of, or least.
        tariffs: what hosts cost; without them nothing is priced.
    """
    wish = _Wish(slo, in_currency(objective, tariffs), tariffs)
    return tuple(_answer(question, wish) for question in questions(with_cost(entries, tariffs)))


def _answer(question: Question, wish: _Wish) -> Recommendation:
    slo, objective = wish.slo, wish.objective
    ordered = picks(question, objective)
    candidates = tuple(pick for pick in ordered if slo.met_by(pick.entry))
    found = choose(candidates, objective)
    asked = f"{question.words}: {objective.metric.title}{f', {slo}' if slo else ''}"
    out = left_out(question, ordered, slo, wish.missing)
    if found is None:
        nearest = _nearest(ordered, slo)
        return Recommendation(
            question=asked,
            objective=objective.metric,
            slo=str(slo),
            best=None,
            reasons=tuple(_nothing(question, ordered, nearest, wish)),
            left_out=out,
            nearest=nearest,
        )
    runner_up = found.runner_up
    return Recommendation(
        question=asked,
        objective=objective.metric,
        slo=str(slo),
        best=found.best,
        runner_up=runner_up,
        comparison=against(found.best, runner_up, objective) if runner_up is not None else None,
        reasons=tuple(_reasons(found, wish, question)),
        sensitivity=tuple(sensitivity(question, ordered, found, slo, objective, wish.others)),
        left_out=out,
        candidates=candidates,
        pareto=pareto(candidates),
        currency=wish.tariffs.common.currency if wish.tariffs is not None else "",
    )


def _reasons(found: Choice, wish: _Wish, question: Question) -> Iterator[str]:
    valid = [entry for entry in question.entries if entry.valid]
    without = [entry for entry in valid if entry.value(wish.objective.metric) is None]
    yield headline(found, wish.objective) + unknown(map(wish.missing, without), len(valid))
    yield from about_tie(found, wish.objective)
    yield from about_slo(found.best, wish.slo)
    yield from about_goodput(found.best, wish.slo)
    yield from about_noise(found, wish.objective)
    if wish.tariffs is not None:
        yield from about_cost(found.best, cost_of(found.best.entry, wish.tariffs))


def _nearest(ordered: Sequence[Pick], slo: Slo) -> Pick | None:
    known = [(excess, pick) for pick in ordered if (excess := slo.excess(pick.entry)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _nothing(question: Question, ordered: Sequence[Pick], nearest: Pick | None, wish: _Wish) -> Iterator[str]:
    measured = [entry for entry in question.entries if entry.valid]
    several = len(measured)
    if not measured:
        states = {status: sum(one.status is status for one in question.entries) for status in Status}
        counted = ", ".join(f"{count} {status.value}" for status, count in states.items() if count)
        yield f"There is no valid measurement to choose from: {counted}."
    elif not ordered:
        why = " or ".join(dict.fromkeys(map(wish.missing, measured)))
        yield f"None of {several} valid measurements has a value of {wish.objective.name}: {why}."
    elif nearest is None:
        yield f"None of {several} valid measurements is known to meet {wish.slo}: not all of it was measured."
    else:
        yield f"None of {len(ordered)} valid measurements meets {wish.slo}."
        yield about_nearest(nearest, wish.slo)
