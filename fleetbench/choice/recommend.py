"""`recommend`: which configuration to deploy, what comes next, what would change that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fleetbench.choice.left_out import left_out
from fleetbench.choice.objective import TOKENS, Objective
from fleetbench.choice.pareto import pareto
from fleetbench.choice.picks import Choice, against, choose, picks
from fleetbench.choice.questions import Question, configuration, questions
from fleetbench.choice.sensitivity import sensitivity
from fleetbench.choice.slo import NO_SLO, Slo
from fleetbench.choice.words import about_nearest, about_noise, about_slo, about_tie, headline
from fleetbench.report.entry import Entry, Status
from fleetbench.report.recommendation import Pick, Recommendation

__all__ = ["Pick", "Recommendation", "recommend", "recommendations"]


def recommend(entries: Iterable[Entry], slo: Slo = NO_SLO, objective: Objective = TOKENS) -> Recommendation:
    """Return which configuration to deploy.

    Where the entries are about several questions (models, kinds of GPU, shapes of requests, context lengths),
    there is a best one only if it is the same configuration in all of them.
    """
    found = recommendations(entries, slo, objective)
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
        objective=objective.metric,
        best=chosen[0] if same else None,
        reasons=(f"{said} in {len(found)} different questions.", *each),
        left_out=tuple(out for one in found for out in one.left_out),
        candidates=tuple(pick for one in found for pick in one.candidates),
    )


def recommendations(
    entries: Iterable[Entry], slo: Slo = NO_SLO, objective: Objective = TOKENS
) -> tuple[Recommendation, ...]:
    """Return a recommendation for each question that the entries are about.

    `slo`: what is taken has to be known to meet it. For goodput and cost, entries need these values first:
    `goodput.with_goodput`, `tariff.with_cost`.
    """
    return tuple(_answer(question, slo, objective) for question in questions(entries))


def _answer(question: Question, slo: Slo, objective: Objective) -> Recommendation:
    ordered = picks(question, objective)
    candidates = tuple(pick for pick in ordered if slo.met_by(pick.entry))
    found = choose(candidates, objective)
    asked = f"{question.words}: {objective.metric.title}{f', {slo}' if slo else ''}"
    out = left_out(question, ordered, slo, objective)
    if found is None:
        nearest = _nearest(ordered, slo)
        return Recommendation(
            question=asked,
            objective=objective.metric,
            best=None,
            reasons=tuple(_nothing(question, ordered, nearest, slo, objective)),
            left_out=out,
            nearest=nearest,
        )
    runner_up = found.runner_up
    return Recommendation(
        question=asked,
        objective=objective.metric,
        best=found.best,
        runner_up=runner_up,
        comparison=against(found.best, runner_up, objective) if runner_up is not None else None,
        reasons=tuple(_reasons(found, slo, objective)),
        sensitivity=tuple(sensitivity(question, ordered, found, slo, objective)),
        left_out=out,
        candidates=candidates,
        pareto=pareto(candidates),
    )


def _reasons(found: Choice, slo: Slo, objective: Objective) -> Iterator[str]:
    yield headline(found, objective)
    yield from about_tie(found, objective)
    yield from about_slo(found.best, slo)
    yield from about_noise(found, objective)


def _nearest(ordered: Sequence[Pick], slo: Slo) -> Pick | None:
    known = [(excess, pick) for pick in ordered if (excess := slo.excess(pick.entry)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _nothing(
    question: Question, ordered: Sequence[Pick], nearest: Pick | None, slo: Slo, objective: Objective
) -> Iterator[str]:
    valid = sum(entry.valid for entry in question.entries)
    if not valid:
        states = {status: sum(one.status is status for one in question.entries) for status in Status}
        counted = ", ".join(f"{count} {status.value}" for status, count in states.items() if count)
        yield f"There is no valid measurement to choose from: {counted}."
    elif not ordered:
        yield f"None of {valid} valid measurements has a value of {objective.name}: {objective.missing}."
    elif nearest is None:
        yield f"None of {valid} valid measurements is known to meet {slo}: not all of it was measured."
    else:
        yield f"None of {len(ordered)} valid measurements meets {slo}."
        yield about_nearest(nearest, slo)
