"""The sentences of a recommendation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from fleetbench.choice.goodput import ATTAINMENT
from fleetbench.choice.left_out import miss, shown_ms
from fleetbench.choice.objective import COST, COST_TOTAL, GOODPUT, Objective
from fleetbench.choice.picks import Choice, against
from fleetbench.choice.questions import configuration, gpus_of
from fleetbench.choice.slo import Bound, Slo
from fleetbench.choice.tariff import Cost
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.recommendation import Pick
from fleetbench.report.tables.shown import device_word
from fleetbench.results.comparison import Comparison
from fleetbench.results.samples import PERCENTILES


def amount(pick: Pick, objective: Objective) -> str:
    """Return a pick's value with its unit."""
    return f"{shown(pick.value)} {objective.metric.unit}"


def shown(value: float) -> str:
    """Return a value as it is printed: as in tables, and three digits of what is below 1."""
    return OUTPUT.shown(value) if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def headline(found: Choice, objective: Objective) -> str:
    """Return the answer: what to take, its value, and how it stands to the runner-up."""
    best, second = found.best, found.runner_up
    answer = f"{best.where}: {amount(best, objective)}"
    if second is None:
        return f"{answer}, the only configuration to choose from."
    compared = against(best, second, objective)
    where = second.where if second.load != best.load else second.name
    rival = f"{where} ({shown(second.value)})"
    if compared is None:
        return f"{answer}; the runner-up is {rival}."
    return f"{answer}, {says(compared, objective, against=rival)}."


def unknown(reasons: Iterable[str], of: int) -> str:
    """Warn of valid measurements that were no part of the choice, given why each of them was none."""
    counted = Counter(reasons)
    if not counted:
        return ""
    why = " or ".join(counted)
    return f" {counted.total()} of {of} valid measurements are no part of that choice: {why}."


def says(compared: Comparison, objective: Objective, *, against: str = "") -> str:
    """Return what a comparison says, in the words of the objective."""
    higher = objective.metric.higher_is_better
    return compared.sentence(higher_is_better=higher, against=against, words=objective.words)


def about_tie(found: Choice, objective: Objective) -> Iterator[str]:
    """Say why something else was taken than what measured best."""
    best, top = found.best, found.top
    if best is top:
        return
    if configuration(best.entry) == configuration(top.entry):
        yield (
            f"At {top.load} it measured {shown(top.value)}, which is no more than noise: "
            "the lighter load is taken, whose users wait less."
        )
        return
    few, many = gpus_of(best.entry), gpus_of(top.entry)
    fewer = None not in (few, many) and few != many
    device = device_word(best.entry)
    why = f"takes {few} {device}{'s' * (few != 1)} instead of {many}" if fewer else "is simpler"
    yield f"{top.where} measured {shown(top.value)}, which is no more than noise; {best.name} {why}."


def about_slo(pick: Pick, slo: Slo) -> Iterator[str]:
    """Say by how much a pick meets each bound, and where that is less sure than it looks."""
    if not slo:
        return
    yield f"It meets {' and '.join(_met(bound, pick) for bound in slo.bounds)}."
    for bound in slo.bounds:
        yield from _narrow(bound, pick)
        yield from _few(bound, pick)


def about_goodput(pick: Pick, slo: Slo) -> Iterator[str]:
    """Say how many requests keep the SLO each by itself, where they were kept."""
    share, rate = pick.entry.values.get(ATTAINMENT), pick.entry.value(GOODPUT)
    if share is not None and rate is not None:
        kept = " and ".join(f"{name}_ms{bound.limit}" for name, bound in slo.of_each_request.items())
        yield f"{share * 100:.1f} % of its requests keep {kept} each: goodput {shown(rate)} req/s."


def about_cost(pick: Pick, found: Cost | str) -> Iterator[str]:
    """Say what a configuration costs, and what that is made of."""
    if isinstance(found, str):
        yield f"{pick.name} cannot be priced: {found}."
        return
    tariff = found.tariff
    money = f" {tariff.currency}" if tariff.currency else ""
    part = f"{gpus_of(pick.entry)} of {tariff.gpus} GPUs of " if found.share != 1 else ""
    used = f", serving {tariff.utilisation * 100:g} % of the time" if tariff.utilisation < 1 else ""
    yield (
        f"An hour costs {shown(found.capital_per_hour)}{money} for {part}the host ({tariff.host_price:,.0f}"
        f"{money} over {tariff.years:g} years{used}) and {shown(found.energy_per_hour)}{money} for power "
        f"({found.power_w:,.0f} W, {found.power_from}; a kWh at {tariff.kwh_price:g}{money}, "
        f"PUE {tariff.pue:g})."
    )
    output, total = pick.entry.value(COST), pick.entry.values.get(COST_TOTAL)
    if output is not None:
        both = f", {shown(total)}{money} a million of all tokens" if total is not None else ""
        yield f"A million output tokens costs {shown(output)}{money}{both}."


def about_noise(found: Choice, objective: Objective) -> Iterator[str]:
    """Say what is not known: noise, starts, what else may be as good."""
    best, second = found.best, found.runner_up
    compared = against(best, second, objective) if second is not None else None
    if compared is not None and compared.may_be_the_start:
        yield "Each was started once, and another start may differ by as much."
    level = [pick for pick in found.level if configuration(pick.entry) != configuration(best.entry)]
    if level:
        yield f"Not distinguishable from what measured best: {_names(level)}."


def about_nearest(pick: Pick, slo: Slo) -> str:
    """Say which comes nearest to an SLO that nothing meets, and by how much it misses."""
    entry = pick.entry
    missed = " and ".join(miss(bound, entry.values[bound.key]) for bound in slo.missed(entry))
    kept = [_met(bound, pick) for bound in slo.bounds if bound not in slo.missed(entry)]
    return f"{pick.where} comes nearest: it misses {missed}{f', and meets {kept[0]}' if kept else ''}."


def _met(bound: Bound, pick: Pick) -> str:
    return f"{bound} ({shown_ms(pick.entry.values[bound.key])})"


def _narrow(bound: Bound, pick: Pick) -> Iterator[str]:
    """A bound that some repeats alone would have missed may be missed in service, too."""
    seen = pick.entry.observations.get(bound.key, ())
    over = [each.value for each in seen if not bound.met_by(each.value)]
    if over:
        yield (
            f"It meets {bound} narrowly: {len(over)} of {len(seen)} repeats alone do not "
            f"({shown_ms(max(over))})."
        )


def _few(bound: Bound, pick: Pick) -> Iterator[str]:
    entry = pick.entry
    if entry.completed is None or bound.percentile is None:
        return
    together = entry.pooled and bound.percentile in PERCENTILES  # any other one is of each repeat alone
    rests_on = entry.completed if together else entry.completed // max(entry.repeats, 1)
    if rests_on < bound.requests_needed:
        yield (
            f"{bound.name} rests on {rests_on:,} requests, and {bound.requests_needed:,} are wanted: "
            "measure with more prompts."
        )


def _names(several: Sequence[Pick]) -> str:
    names = [pick.where for pick in several]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
